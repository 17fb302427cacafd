"""Where a trainable may come from: no main guard, exec, closures, methods, partials."""

import functools
import threading
from pathlib import Path

import pytest
from kit import KERNEL, fit, run_path

from minitune import grid_search, report

SCRIPTS = Path(__file__).with_name("scripts")


def test_every_kind_of_callable_runs_in_a_worker():
    def plain(config):
        report({"y": config["x"] * 10})

    class Model:
        def __init__(self, factor):
            self.factor = factor

        def fit(self, config):
            return {"y": config["x"] * self.factor}

        def __call__(self, config):
            return config["x"] * self.factor

    def generator(config):
        for i in range(3):
            yield {"y": config["x"] * (i + 1)}

    def two(config, factor):
        return config["x"] * factor

    kinds = {
        "plain": (plain, [10, 20]),
        "lambda": (lambda config: config["x"] * 20, [20, 40]),
        "method": (Model(40).fit, [40, 80]),
        "object": (Model(50), [50, 100]),
        "partial": (functools.partial(two, factor=60), [60, 120]),
        "generator": (generator, [3, 6]),
    }
    for name, (trainable, expected) in kinds.items():
        grid = fit(trainable, {"x": grid_search([1, 2])}, name=name, executor="local")
        assert [result.metrics.get("y", result.metrics.get("_metric")) for result in grid] == expected


def test_a_cell_of_a_notebook_runs_inside_a_running_event_loop(script):
    stdout = script.run(KERNEL, str(SCRIPTS / "cell_with_a_class.py"))
    assert stdout == "[10, 20]\n"


@pytest.mark.parametrize("method", [None, "interpreter"])
def test_the_main_module_is_not_run_again_and_signals_and_asyncio_work(script, method):
    stdout = script.run(SCRIPTS / "no_guard.py", MINITUNE_START_METHOD=method)
    assert stdout == "main runs\n42\n"


@pytest.mark.parametrize("executor", ["local", "inline"])
def test_an_unpicklable_trainable_is_refused_with_the_path_to_the_member(executor):
    class Model:
        def __init__(self):
            self.parts = {"guard": threading.Lock()}

    model = Model()
    with pytest.raises(TypeError, match=r"^the trainable cannot be pickled: .*model.*parts.*guard"):
        fit(lambda config: model.parts, executor=executor)
    assert not run_path().exists(), "nothing was made on disk"


def test_tracebacks_of_notebook_code_show_its_lines(script):
    told = script.run(KERNEL, str(SCRIPTS / "cell_with_errors.py"))
    for line in ('raise ValueError("no")  # the line of the helper', "helper(config)  # the line of the function"):
        assert told.count(f", in {'helper' if 'no' in line else 'train'}\n    {line}\n") == 2
    assert told.count(', in setup\n    raise KeyError("set up")  # the line of the class\n') == 2
