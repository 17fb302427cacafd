"""Asynchronous trainables: an error at once if the function shows it, else an error with advice."""

import functools

import pytest
from kit import pull

from minitune import Trainable, Tuner
from minitune.trainable import with_parameters


async def trains(config, data=0):
    return {"loss": 1}


async def yields(config):
    yield {"loss": 1}


class Callable:
    async def __call__(self, config):
        return {"loss": 1}


class Steps(Trainable):
    async def step(self):
        return {"loss": 1}


@pytest.mark.parametrize(
    "trainable",
    [trains, yields, Callable(), Steps, functools.partial(trains, data=1), with_parameters(trains, data=1)],
)
def test_an_async_trainable_is_refused_before_anything_runs(trainable):
    with pytest.raises(TypeError, match=r"is an async function, .* a plain function, .* asyncio\.run\(\.\.\.\)"):
        Tuner(trainable)


def some_steps():
    yield 1


@pytest.mark.filterwarnings("error")  # "coroutine was never awaited" would say the same again, and less clearly
@pytest.mark.parametrize(
    ("trainable", "text"),
    [
        (lambda config: trains(config), r"returned coroutine: .*; it has not run: return asyncio\.run\(\.\.\.\)"),
        (lambda config: yields(config), r"returned async_generator: .*; it has not run: .*asyncio\.run\(\.\.\.\)"),
        (lambda config: some_steps, "returned function: "),
    ],
)
def test_a_returned_coroutine_or_function_is_refused_with_advice(driver, trainable, text):
    with pytest.raises(ValueError, match=text):
        pull(driver.start(trainable))


def test_a_generator_that_a_step_returns_is_refused_with_advice(driver):
    class Yields(Trainable):
        def step(self):
            yield {"loss": 1}

    with pytest.raises(TypeError, match=r"returned generator: .*; return the metrics of one step, or yield"):
        pull(driver.start(Yields))
