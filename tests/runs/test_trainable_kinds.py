"""Where a trainable may come from: no main guard, stdin, exec, closures, methods, partials."""

from __future__ import annotations

import sys

import pytest
from kit import Script

KINDS = """
    import functools
    from minitune import RunConfig, Tuner, grid_search, report

    def run(trainable):
        results = Tuner(trainable, param_space={"x": grid_search([1, 2])}, run_config=RunConfig(verbose=0)).fit()
        assert not results.errors, results.errors
        print([r.metrics.get("y", r.metrics.get("_metric")) for r in results])

    def plain(config):
        report({"y": config["x"] * 10})

    class Model:
        def __init__(self, factor):
            self.factor = factor
        def fit(self, config):
            return {"y": config["x"] * self.factor}
        def __call__(self, config):
            return config["x"] * self.factor

    def closure(factor):
        def inner(config):
            return {"y": config["x"] * factor}
        return inner

    def generator(config):
        for i in range(3):
            yield {"y": config["x"] * (i + 1)}

    def two(config, factor):
        return config["x"] * factor

    run(plain)
    run(lambda config: config["x"] * 20)
    run(closure(30))
    run(Model(40).fit)
    run(Model(50))
    run(functools.partial(two, factor=60))
    run(generator)
"""
EXPECTED = ["[10, 20]", "[20, 40]", "[30, 60]", "[40, 80]", "[50, 100]", "[60, 120]", "[3, 6]"]


def test_every_kind_of_callable_runs_from_a_script(script):
    assert script.run(KINDS).split("\n")[:-1] == EXPECTED


def test_a_script_from_stdin_runs(script):
    import textwrap

    process = script.start_command([sys.executable, "-"], stdin=textwrap.dedent(KINDS))
    stdout, stderr = script.finish(process)
    assert stdout.split("\n")[:-1] == EXPECTED, stderr


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
def test_an_unpicklable_trainable_is_refused_with_the_path_to_the_member(script, executor):
    process = script.start(
        """
        import threading
        from minitune import Tuner

        class Model:
            def __init__(self):
                self.parts = {"guard": threading.Lock()}

        model = Model()

        def trainable(config):
            return model.parts

        Tuner(trainable).fit()
        """,
        MINITUNE_EXECUTOR=executor,
    )
    _, stderr = script.finish(process)
    last = stderr.strip().splitlines()[-1]
    assert last.startswith("TypeError: the trainable cannot be pickled")
    assert "model" in last
    assert "parts" in last
    assert "guard" in last
    assert not script.storage.exists(), "nothing was made on disk"


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
