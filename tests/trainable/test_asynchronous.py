"""An asynchronous trainable is an error at once."""

import functools

import pytest

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
