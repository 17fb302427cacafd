"""Where a trainable may come from: no main guard, exec, closures, methods, partials."""

from __future__ import annotations

import functools
import threading

import pytest
from kit import Script, fit, run_path

from minitune import grid_search, report


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
    stdout = script.run("""
        import asyncio, textwrap

        CELL = textwrap.dedent('''
            from minitune import RunConfig, Tuner, grid_search
            class Net:
                pass
            def trainable(config):
                import pickle
                assert type(pickle.loads(pickle.dumps(Net()))) is Net
                return {"y": config["x"] * 10}
            space = {"x": grid_search([1, 2])}
            results = Tuner(trainable, param_space=space, run_config=RunConfig(verbose=0)).fit()
            assert not results.errors, results.errors
            print([r.metrics["y"] for r in results])
        ''')

        async def kernel():
            exec(compile(CELL, "<ipython-input-1>", "exec"), globals())

        asyncio.run(kernel())
    """)
    assert stdout == "[10, 20]\n"


def test_the_main_module_is_not_run_again_and_signals_and_asyncio_work(script):
    stdout = script.run("""
        print("main runs")
        import asyncio, signal, threading
        from minitune import RunConfig, Tuner

        def trainable(config):
            assert threading.current_thread() is threading.main_thread()
            signal.signal(signal.SIGUSR1, lambda *args: None)
            async def answer():
                return 42
            return {"y": asyncio.run(answer())}

        print(Tuner(trainable, run_config=RunConfig(verbose=0)).fit()[0].metrics["y"])
    """)
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


CELL = """
import linecache
from minitune import RunConfig, Trainable, Tuner

SOURCE = '''
class Model(Trainable):
    def setup(self, config):
        raise KeyError("set up")  # the line of the class

def helper(config):
    raise ValueError("no")  # the line of the helper

def train(config):
    try:
        helper(config)  # the line of the function
    except ValueError as error:
        raise OSError("no more") from error
'''
name = "/nowhere/ipykernel_1/23.py"  # as a kernel calls a cell, which is no file
linecache.cache[name] = (len(SOURCE), None, SOURCE.splitlines(True), name)
exec(compile(SOURCE, name, "exec"))
for trainable in (train, Model):
    (result,) = Tuner(trainable, run_config=RunConfig(verbose=0)).fit()
    print(result.error)
    print(open(f"{result.path}/error.txt").read())
"""


def test_tracebacks_of_notebook_code_show_its_lines(script: Script) -> None:
    told = script.run(CELL)
    for line in ('raise ValueError("no")  # the line of the helper', "helper(config)  # the line of the function"):
        assert told.count(f", in {'helper' if 'no' in line else 'train'}\n    {line}\n") == 2
    assert told.count(', in setup\n    raise KeyError("set up")  # the line of the class\n') == 2
