"""Trials that misbehave, and places that do: the run goes on, and nothing is left."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from pathlib import Path

import pytest
from kit import PRELUDE, is_gone

# -- trials that break their own process -------------------------------------------------------------------------------


def test_closed_descriptors_hurt_only_their_own_trial(script):
    stdout = script.run(
        PRELUDE
        + """
    def trainable(config):
        report({"y": 0})
        if config["x"] == "low":
            os.closerange(3, 1024)
        elif config["x"] == "standard":
            for stream in (sys.stdin, sys.stdout, sys.stderr):
                stream.close()
            sys.stdout = None
            print("into the void")
        elif config["x"] == "numbers":
            os.closerange(0, 3)
        elif config["x"] == "all":
            os.closerange(3, 65536)
        report({"y": 1})
        return {"y": 2}

    show(fit(trainable, ["low", "standard", "numbers", "all", "none"]))
    """
    )
    *fine, cut_off, other = json.loads(stdout)
    assert [*fine, other] == [[2, "None"]] * 4
    assert cut_off[0] == 0
    assert "control channel closed by the trial's code" in cut_off[1]


def test_a_reused_worker_is_clean(script):
    stdout = script.run(PRELUDE + """
    import logging, resource, signal, warnings

    def look():
        umask = os.umask(0)
        os.umask(umask)
        return {
            "directory": os.getcwd() == get_context().get_trial_dir(), "umask": umask,
            "environment": {k: v for k, v in os.environ.items() if k not in ("MINITUNE_TRIAL", "PWD")},
            "signals": [str(signal.getsignal(number)) for number in range(1, 20) if number not in (9, 19)],
            "timer": signal.getitimer(signal.ITIMER_REAL), "mask": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
            "limit": resource.getrlimit(resource.RLIMIT_NOFILE), "path": list(sys.path), "argv": list(sys.argv),
            "logging": [len(logging.root.handlers), logging.root.level, logging.root.manager.disable],
            "warnings": len(warnings.filters), "streams": [sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__],
        }

    def trainable(config):
        seen = look()
        if config["x"] == "dirty":
            os.chdir("/")
            os.umask(0o007)
            os.environ.update(DIRT="1", PATH="/nowhere")
            del os.environ["HOME"]
            for number in (signal.SIGINT, signal.SIGUSR1, signal.SIGHUP, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
            signal.signal(signal.SIGALRM, lambda *args: None)
            signal.setitimer(signal.ITIMER_REAL, 600)
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
            resource.setrlimit(resource.RLIMIT_NOFILE, (200, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
            sys.path.insert(0, "/dirt")
            sys.argv.append("dirt")
            logging.basicConfig(level=logging.DEBUG)
            logging.disable(logging.ERROR)
            warnings.simplefilter("ignore")
            sys.stdout = open(os.devnull, "w")
        else:
            print("from", config["x"])
        return {"y": seen, "pid": os.getpid()}

    results = fit(trainable, ["first", "dirty", "second", "dirty", "third"], reuse_actors=True)
    assert not results.errors, results.errors
    print(json.dumps([[r.metrics["y"], r.metrics["pid"]] for r in results]))
    """, MINITUNE_NUM_CPUS="1", HOME="/home")  # fmt: skip
    seen, pids = zip(*json.loads(stdout), strict=True)
    for state in seen:
        assert {key: value for key, value in state.items() if value != seen[0][key]} == {}
    assert seen[0]["directory"]
    assert len(set(pids)) == 1, "one worker served them all"
    assert [(d / "stdout").read_text() for d in script.trial_directories()] == [
        "from first\n",
        "",
        "from second\n",
        "",
        "from third\n",
    ]


def test_fifty_trials_on_one_worker_have_their_own_lines_only(script):
    script.run(PRELUDE + """
    import logging

    def trainable(config):
        print("print", config["x"])
        sys.stderr.write(f"error {config['x']}\\n")
        os.write(1, f"write {config['x']}\\n".encode())
        return {"y": config["x"]}

    fit(trainable, list(range(50)), reuse_actors=True)
    """, MINITUNE_NUM_CPUS="1")  # fmt: skip
    for x, directory in enumerate(script.trial_directories()):
        assert (directory / "stdout").read_text() == f"print {x}\nwrite {x}\n"
        assert (directory / "stderr").read_text() == f"error {x}\n"


def test_output_of_a_trial_is_in_order(script):
    script.run(PRELUDE + """
    import ctypes, logging

    def trainable(config):
        logging.basicConfig(stream=sys.stdout, format="%(message)s")
        for i in range(3):
            print(i, "print")
            os.write(1, f"{i} write\\n".encode())
            subprocess.run(["echo", f"{i} child"])
            logging.warning("%d logging", i)
            ctypes.CDLL(None).puts(f"{i} C".encode())
            report({"y": i})

    [result] = fit(trainable, [0])
    assert result.error is None, result.error
    """, PYTHONUNBUFFERED="")  # fmt: skip
    [directory] = script.trial_directories()
    kinds = ("print", "write", "child", "logging", "C")
    assert (directory / "stdout").read_text() == "".join(f"{i} {kind}\n" for i in range(3) for kind in kinds)


# -- trials that do not stop -------------------------------------------------------------------------------------------


def test_trials_that_ignore_a_stop_are_killed_after_the_grace_period(script):
    stdout = script.run(PRELUDE + """
    def trainable(config):
        report({"y": 1, "pid": os.getpid()})
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        while True:
            try:
                report({"y": 2, "pid": os.getpid()})
                while config["x"] == "no report":
                    pass
            except BaseException:
                pass

    results = fit(trainable, ["swallows", "no report"], stop={"y": 2}, name=None)
    print(json.dumps([[r.metrics["y"], r.metrics["done"], r.error, r.metrics["pid"]] for r in results]))
    print(results.num_terminated, fit(lambda config: {"y": 3}, name=None)[0].metrics["y"])
    """, MINITUNE_FORCE_TRIAL_CLEANUP_S="0.1", MINITUNE_NUM_CPUS="1")  # fmt: skip
    trials, counts = stdout.splitlines()
    assert counts == "2 3"
    for y, done, error, pid in json.loads(trials):
        assert (y, done, error) == (2, True, None)
        assert is_gone(pid)


STUCK = (
    PRELUDE
    + """
    import ctypes, itertools

    def spin(is_busy):  # of its own: several Pythons do not run the `finally` right around a loop that does nothing
        while is_busy:
            pass

    def trainable(config):
        report({"y": config["x"]})
        try:
            with open(os.path.join(sys.argv[1], f"{config['x']}.pid"), "w") as file:
                file.write(f"{os.getpid()}\\n")
            spin(config["x"] == "busy")
            if config["x"] == "sleep":
                time.sleep(600)
            while config["x"] == "interrupted":
                ctypes.PyDLL(None).sleep(600)
            sum(itertools.repeat(0))
        finally:
            open(os.path.join(sys.argv[1], f"{config['x']}.unwound"), "w").close()

    class WhenAllAreStuck(Stopper):
        def __call__(self, trial_id, result):
            return False

        def stop_all(self):
            return len([name for name in os.listdir(sys.argv[1]) if name.endswith(".pid")]) == 4

    results = fit(trainable, ["busy", "sleep", "interrupted", "never"], stop=WhenAllAreStuck())
    print(json.dumps([[r.metrics["y"], str(r.error)] for r in results]), results.num_terminated)
"""
)


def test_a_run_that_ends_waits_for_no_stuck_trial(script):
    """A signal unwinds what it can interrupt; a loop in C that holds the interpreter's lock is killed."""
    stdout = script.run(STUCK, str(script.directory), MINITUNE_FORCE_TRIAL_CLEANUP_S="0.1", MINITUNE_NUM_CPUS="4")
    kinds = ["busy", "sleep", "interrupted", "never"]
    assert json.loads(stdout.rpartition(" ")[0]) == [[kind, "None"] for kind in kinds]
    assert stdout.endswith(" 4\n")
    assert {path.name for path in script.directory.glob("*.unwound")} == {f"{kind}.unwound" for kind in kinds[:3]}
    assert all(is_gone(int(path.read_text())) for path in script.directory.glob("*.pid"))


def test_cleaning_up_that_raises_or_hangs_changes_no_status(script):
    process = script.start(PRELUDE + """
    def in_finally(config):
        try:
            for y in range(9):
                report({"y": y})
        finally:
            if config["x"] == "raises":
                raise ValueError("raised while cleaning up")
            open(os.path.join(sys.argv[1], "hangs"), "w").close()
            time.sleep(600)

    class InCleanup(Trainable):
        def step(self):
            return {"y": self.iteration}

        def cleanup(self):
            if self.config["x"] == "raises":
                raise ValueError("raised while cleaning up")
            time.sleep(600)

    for trainable in (in_finally, InCleanup):
        show(fit(trainable, ["raises", "hangs"], name=None, stop={"y": 2}))
    """, str(script.directory), MINITUNE_FORCE_TRIAL_CLEANUP_S="0.1")  # fmt: skip
    stdout, stderr = script.finish(process)
    assert stdout.splitlines() == ['[[2, "None"], [2, "None"]]'] * 2, stderr
    outputs = [path.read_text() for path in script.storage.glob("*/*/stderr")]
    assert sum("raised while cleaning up" in output for output in outputs) == 2


# -- trials that start more --------------------------------------------------------------------------------------------


def test_pools_and_runs_inside_a_trial(script):
    stdout = script.run(
        PRELUDE
        + """
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    def square(x):
        return x * x

    def inner(config):
        return {"y": square(config["x"])}

    def trainable(config):
        if config["x"] == "pool":
            with multiprocessing.Pool(2) as pool:
                y = pool.map(square, range(4))
        elif config["x"] == "executor":
            with ProcessPoolExecutor(2) as pool:
                y = list(pool.map(square, range(4)))
        elif config["x"] == "spawn":
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                y = pool.map(abs, range(-3, 1))
        else:
            space = {"x": grid_search([0, 1, 2, 3])}
            results = Tuner(inner, param_space=space, run_config=RunConfig(name="inner", verbose=0)).fit()
            y = [result.metrics["y"] for result in results]
        return {"y": y}

    show(fit(trainable, ["pool", "executor", "spawn", "run"]))
    """
    )
    squares = [[0, 1, 4, 9], "None"]
    assert json.loads(stdout) == [squares, squares, [[3, 2, 1, 0], "None"], squares]
    assert (script.storage / "inner" / "journal").exists()


def test_a_run_inside_a_trial_dies_with_the_trial(script):
    stdout = script.run(PRELUDE + """
    def inner(config):
        with open(os.path.join(sys.argv[1], "pid"), "w") as file:
            file.write(f"{os.getpid()}\\n")
        time.sleep(600)

    def trainable(config):
        def kill_when_it_runs():
            while not os.path.exists(os.path.join(sys.argv[1], "pid")):
                time.sleep(0.005)
            os.kill(os.getpid(), signal.SIGKILL)
        threading.Thread(target=kill_when_it_runs).start()
        Tuner(inner, run_config=RunConfig(name="inner", verbose=0)).fit()

    show(fit(trainable, [0]))
    """, str(script.directory))  # fmt: skip
    assert "SIGKILL (9)" in stdout
    assert is_gone(int((script.directory / "pid").read_text()))


# -- places where a run is not at home ---------------------------------------------------------------------------------

PLACE = """
    import os, sys, threading, time
    from minitune import Callback, RunConfig, Tuner, get_context, grid_search

    class Look(Callback):
        def on_trial_result(self, **info):
            assert os.getcwd() == start

    def trainable(config):
        import helper
        os.makedirs("mine")
        return {
            "y": [config["x"], helper.VALUE, os.path.isabs(os.getcwd())],
            "is_at_home": os.path.samefile(".", get_context().get_trial_dir()),
            "came_from": os.environ.get("TUNE_ORIG_WORKING_DIR"), "flags": [sys.flags.optimize, sys.warnoptions],
        }

    start = os.getcwd()
    space = {"x": grid_search([1, 2])}
    run = RunConfig(name="run", storage_path="relative", verbose=0, callbacks=[Look()])
    results = Tuner(trainable, param_space=space, run_config=run).fit()
    assert not results.errors, results.errors
    assert os.getcwd() == start
    for result in results:
        seen = result.metrics
        if os.environ.get("MINITUNE_CHDIR_TO_TRIAL_DIR") == "0":
            assert not seen["is_at_home"]
        else:
            assert seen["is_at_home"] and os.path.samefile(seen["came_from"], start)
            assert os.path.isdir(os.path.join("relative", "run", os.path.basename(result.path), "mine"))
    print([result.metrics["y"] for result in results], results[0].metrics["flags"])
"""


def place(script) -> Path:
    """A working directory with modules that hide some of Python's own, and one that the trial needs."""
    directory = script.directory / "here"
    directory.mkdir()
    for name in ("signal", "random", "socket", "json"):
        (directory / f"{name}.py").write_text("raise RuntimeError('this is not the module that you look for')\n")
    library = script.directory / "lib"
    library.mkdir()
    (library / "helper.py").write_text("VALUE = 7\n")
    return directory


def run_in(script, directory: Path, *flags: str, source: str = PLACE, **environment: str) -> str:
    """Run a script that lies elsewhere in a working directory; returns its stdout."""
    path = script.directory / "main.py"
    path.write_text(textwrap.dedent(source))
    command = ["sh", "-c", 'cd "$0" && exec "$@"', str(directory), sys.executable, *flags, str(path)]
    process = script.start_command(command, PYTHONPATH=str(script.directory / "lib"), **environment)
    stdout, stderr = script.finish(process)
    assert process.returncode == 0, stderr
    return stdout


@pytest.mark.parametrize(
    ("flags", "environment", "seen"),
    [
        (("-O", "-W", "error"), {"PYTHONSAFEPATH": "1", "TMPDIR": "/nowhere"}, "[1, ['error']]"),
        ((), {"TMPDIR": "LONG", "HOME": ""}, "[0, []]"),
    ],
    ids=["flags", "long path"],
)
def test_a_working_directory_full_of_traps(script, flags, environment, seen):
    if environment.get("TMPDIR") == "LONG":
        environment = {**environment, "TMPDIR": str(script.directory / ("long" * 30))}
        os.mkdir(environment["TMPDIR"])
    assert run_in(script, place(script), *flags, **environment) == f"[[1, 7, True], [2, 7, True]] {seen}\n"


def test_a_driver_whose_working_directory_is_gone(script):
    stdout = script.run(
        PRELUDE
        + """
    def trainable(config):
        report({"y": os.path.basename(os.path.dirname(os.getcwd()))})

    os.mkdir("gone")
    os.chdir("gone")
    os.rmdir(os.path.join("..", "gone"))
    show(fit(trainable, [1, 2, 3], reuse_actors=True))
    """
    )
    assert json.loads(stdout) == [["run", "None"]] * 3


def test_trials_stay_where_the_driver_is_if_they_are_to(script):
    directory = script.directory / "here"
    place(script)
    source = PLACE.replace('os.makedirs("mine")', 'assert os.path.samefile(".", os.environ["PWD"])')
    stdout = run_in(script, directory, source=source, MINITUNE_CHDIR_TO_TRIAL_DIR="0")
    assert stdout.startswith("[[1, 7, True], [2, 7, True]]")


@pytest.mark.parametrize("way", ["module", "stdin", "inserted"])
def test_modules_are_found_where_the_driver_finds_them(script, way):
    """Also by an entry of `sys.path` that is relative to the driver's directory, or empty."""
    place(script)
    source = textwrap.dedent("""
        import sys
        if "INSERT": sys.path.insert(0, "lib")
        import helper
        from minitune import RunConfig, Tuner, with_resources

        def trainable(config):
            import late
            return {"y": [helper.VALUE, late.VALUE]}

        [result] = Tuner(with_resources(trainable, {"cpu": 2}), run_config=RunConfig(verbose=0)).fit()
        print(result.error, result.metrics.get("y"))
    """).replace("INSERT", "yes" if way == "inserted" else "")
    where = script.directory / "lib" if way == "inserted" else script.directory
    for name in ("helper", "late"):
        (where / f"{name}.py").write_text("VALUE = 7\n")
    (script.directory / "main.py").write_text(source)
    command = {"module": ["-m", "main"], "stdin": ["-"], "inserted": ["main.py"]}[way]
    stdin = source if way == "stdin" else None
    process = script.start_command([sys.executable, *command], stdin=stdin, MINITUNE_NUM_CPUS="2")
    stdout, stderr = script.finish(process)
    assert stdout == "None [7, 7]\n", stderr


def test_a_driver_with_threads_and_a_start_method_of_its_own(script):
    """`fit` in a thread that ends, beside busy ones; the start method of `multiprocessing` is spawn."""
    stdout = script.run("""
        import multiprocessing, os, threading
        from concurrent.futures import ThreadPoolExecutor
        from minitune import RunConfig, Tuner, grid_search

        def trainable(config):
            return {"y": config["x"]}

        def fit():
            space = {"x": grid_search([1, 2, 3])}
            return Tuner(trainable, param_space=space, run_config=RunConfig(verbose=0)).fit()

        def work():
            while not over.is_set():
                sum(range(1000))

        multiprocessing.set_start_method("spawn")
        over = threading.Event()
        busy = [threading.Thread(target=work) for _ in range(2)]
        for thread in busy:
            thread.start()
        grids = []
        thread = threading.Thread(target=lambda: grids.append(fit()))
        thread.start()
        thread.join()
        with ThreadPoolExecutor(2) as pool:
            grids += pool.map(lambda _: fit(), range(2))
        over.set()
        print([[result.metrics["y"] for result in grid] for grid in grids], multiprocessing.get_start_method())
    """)
    assert stdout == f"{[[1, 2, 3]] * 3} spawn\n"
