"""How trials die, what is said of it, and what goes on."""

from __future__ import annotations

import json
import os
import re
import signal

import pytest
from kit import PRELUDE, is_gone


def test_a_trial_that_exits_goes_on_from_its_checkpoint(script):
    process = script.start(
        PRELUDE
        + """
    def trainable(config):
        for i in range(start_of(get_checkpoint()) + 1, 5):
            print("iteration", i)
            if i == 3 and config["x"] == 1 and get_context().get_attempt() == 1:
                os._exit(3)
            report({"i": i}, checkpoint=save(i))

    results = fit(trainable, [0, 1], max_failures=1)
    print(json.dumps([[r.metrics["i"], r.metrics["training_iteration"], str(r.error)] for r in results]))
    """
    )
    stdout, stderr = script.finish(process)
    assert process.returncode == 0, stderr
    assert json.loads(stdout) == [[4, 4, "None"]] * 2, stderr
    [warning] = stderr.splitlines()
    for text in ("trainable_", "exit code 3", "attempt 2 of 2", "checkpoint_000001"):
        assert text in warning
    _, directory = script.trial_directories()
    assert not (directory / "error.pkl").exists()
    assert "exit code 3" in (directory / "error.txt").read_text()
    rows = [json.loads(line)["training_iteration"] for line in (directory / "result.json").read_text().splitlines()]
    assert rows == [1, 2, 3, 4]
    assert (directory / "stdout").read_text() == "".join(f"iteration {i}\n" for i in (1, 2, 3, 3, 4))


def test_a_killed_worker_is_an_error_that_says_all_there_is_to_know(script):
    """One kills itself, one is killed from outside; the third knows nothing of it."""
    driver = script.start(PRELUDE + """
    def trainable(config):
        report({"i": 1})
        print(f"the last words of {config['x']}")
        if config["x"] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        with open(os.path.join(sys.argv[1], f"pid-{config['x']}"), "w") as file:
            file.write(f"{os.getpid()}\\n")
        while config["x"] == 1 or not os.path.exists(os.path.join(sys.argv[1], "go on")):
            time.sleep(0.005)
        report({"i": 2})

    results = fit(trainable, [0, 1, 2])
    print(json.dumps([[r.metrics["i"], r.metrics["pid"], type(r.error).__name__, str(r.error)] for r in results]))
    print([isinstance(error, WorkerDiedError) and isinstance(error, TrialError) for error in results.errors])
    """, str(script.directory), MINITUNE_NUM_CPUS="3")  # fmt: skip
    pid_files = [script.directory / f"pid-{x}" for x in (1, 2)]
    in_run = (script.storage / "run").glob
    script.wait_until(lambda: all(f.exists() and f.read_text().endswith("\n") for f in pid_files))
    script.wait_until(lambda: len(list(in_run("*/error.txt"))) == 1)  # two deaths at a time may be meant for the run
    os.kill(int(pid_files[0].read_text()), signal.SIGKILL)
    script.wait_until(lambda: len(list(in_run("*/error.txt"))) == 2)
    (script.directory / "go on").touch()
    stdout, stderr = script.finish(driver)
    assert stdout.splitlines()[1] == "[True, True]", stderr
    *dead, alive = json.loads(stdout.splitlines()[0])
    assert (alive[0], alive[3]) == (2, "None")
    for x, (iteration, pid, _, error) in enumerate(dead):
        assert iteration == 1
        directory = script.trial_directories()[x]
        for text in ("SIGKILL (9)", f"pid {pid}", "iteration 1", f"last words of {x}", str(directory), "out of memory"):
            assert text in error
        assert re.search(r"peak memory \d+ MiB", error)
        assert error in (directory / "error.txt").read_text()


def test_a_crash_in_c_leaves_the_python_stack(script):
    stdout = script.run(
        PRELUDE
        + """
    def trainable(config):
        def deeply_inside():
            ctypes.string_at(0)
        deeply_inside()

    [result] = fit(trainable, [0])
    print(result.error)
    """
    )
    [directory] = script.trial_directories()
    for text in (stdout, (directory / "error.txt").read_text(), (directory / "stderr").read_text()):
        assert "Segmentation fault" in text
        assert "in deeply_inside" in text
    assert "SIGSEGV (11)" in stdout


def test_ways_to_end_that_are_no_crash(script):
    stdout = script.run(PRELUDE + """
    class Own(BaseException):
        pass

    def trainable(config):
        report({"i": 1})
        if config["x"] < 6:
            raise [SystemExit(4), SystemExit("a word"), KeyboardInterrupt("stop it"), Own("mine"), SystemExit(0),
                   StopIteration][config["x"]]
        return {"i": 2}

    results = fit(trainable, list(range(7)), reuse_actors=True)
    print(json.dumps([[r.metrics["i"], r.metrics["pid"], r.error and str(r.error).splitlines()[-1]] for r in results]))
    """, MINITUNE_NUM_CPUS="1")  # fmt: skip
    iterations, pids, errors = zip(*json.loads(stdout), strict=True)
    assert errors == (
        "SystemExit: 4",
        "SystemExit: a word",
        "KeyboardInterrupt: stop it",
        "Own: mine",
        None,
        None,
        None,
    )
    assert iterations == (1, 1, 1, 1, 1, 1, 2)
    assert len(set(pids)) == 5, "a worker whose trial has failed is not handed on"
    assert len(set(pids[4:])) == 1, "one whose trial has finished is"


def test_unreported_checkpoint_does_not_count(script):
    """The worker dies when the report is pickled, after the checkpoint was renamed into its place."""
    process = script.start(
        PRELUDE
        + """
    class Bomb:
        times = 0
        def __init__(self, is_armed):
            self.is_armed = is_armed
        def __reduce__(self):
            Bomb.times += self.is_armed
            if Bomb.times == 2:  # the first time it is only checked
                os.kill(os.getpid(), signal.SIGKILL)
            return int, ()

    def trainable(config):
        attempt, checkpoint = get_context().get_attempt(), get_checkpoint()
        found = sorted(name for name in os.listdir() if name.startswith("checkpoint_"))
        for i in range(start_of(checkpoint) + 1, 4):
            metrics = {"i": i, "attempt": attempt, "found": found, "bomb": Bomb(i == 2 and attempt == 1)}
            report(metrics, checkpoint=save(i))

    [result] = fit(trainable, [0], max_failures=1)
    print(json.dumps([result.metrics["i"], result.metrics["attempt"], result.metrics["found"]]))
    """
    )
    stdout, stderr = script.finish(process)
    assert process.returncode == 0, stderr
    assert json.loads(stdout) == [3, 2, ["checkpoint_000000"]], stderr
    assert "SIGKILL (9)" in stderr
    assert "starts from checkpoint_000000" in stderr


@pytest.mark.parametrize("end", ["dies", "is ended"])
def test_unreported_checkpoint_is_removed(script, end):
    """The trial has no further attempt that would tidy up after the one before."""
    stdout = script.run(
        PRELUDE
        + """
    stuck = os.path.join(sys.argv[1], "stuck")

    class Bomb:
        times = 0
        def __reduce__(self):
            Bomb.times += 1
            if Bomb.times == 2:  # the first time it is only checked
                open(stuck, "w").close()
                os.kill(os.getpid(), signal.SIGKILL) if sys.argv[2] == "dies" else time.sleep(600)
            return int, ()

    class WhenStuck(Stopper):
        def __call__(self, trial_id, result):
            return False

        def stop_all(self):
            return sys.argv[2] != "dies" and os.path.exists(stuck)

    def trainable(config):
        report({"i": 1}, checkpoint=save(1))
        report({"i": 2, "bomb": Bomb()}, checkpoint=save(2))

    [result] = fit(trainable, stop=WhenStuck())
    print(result.metrics["i"], *sorted(name for name in os.listdir(result.path) if "checkpoint" in name))
    """,
        str(script.directory),
        end,
        MINITUNE_FORCE_TRIAL_CLEANUP_S="0.1",
    )
    assert stdout == "1 checkpoint_000000\n"


NEEDY = """
import os

if "MINITUNE_RUN_ID" in os.environ:  # in a worker, or in what workers are copied from
    {}

def trainable(config):
    return {{"score": 1}}
"""


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        ("raise ImportError('libfoo is missing')", "ImportError", "ImportError: libfoo is missing"),
        ("os._exit(7)", "WorkerStartError", "exit code 7"),
    ],
    ids=["raises", "exits"],
)
def test_a_module_that_cannot_be_imported_in_a_worker(script, code, kind, text):
    (script.directory / "needy.py").write_text(NEEDY.format(code))
    stdout = script.run(PRELUDE + """
    import needy

    for error in fit(needy.trainable, [0, 1]).errors:
        print(isinstance(error, WorkerStartError), isinstance(error, eval(sys.argv[1])), error)
    """, kind)  # fmt: skip
    assert stdout.count("True True") == 2
    assert stdout.count(text) == 2


def test_run_ends_if_no_worker_ever_starts(script):
    (script.directory / "needy.py").write_text(NEEDY.format("os._exit(7)"))
    driver = script.start(
        PRELUDE
        + """
    import needy
    fit(needy.trainable, [0, 1, 2], max_failures=-1)
    """
    )
    _, stderr = script.finish(driver)
    last = stderr.splitlines()[-1]
    assert last.startswith("minitune.error.CrashLoopError: no worker has started")
    assert "exit code 7" in last


def test_a_config_that_json_cannot_hold_keeps_its_classes_over_a_resume(script):
    source = (
        PRELUDE
        + """
    import enum

    class Colour(enum.Enum):
        RED = 1

    class Layers:
        def __init__(self, sizes):
            self.sizes = sizes

    def trainable(config):
        if os.path.exists(os.path.join(sys.argv[1], "first")):
            os.unlink(os.path.join(sys.argv[1], "first"))
            os.kill(driver, signal.SIGKILL)
            time.sleep(600)
        return {"fits": [config["colour"] is Colour.RED, type(config["layers"]) is Layers, config["f"](20)]}

    def twice(x):
        return 2 * x

    driver = os.getpid()
    if sys.argv[2] == "fit":
        space = {"colour": Colour.RED, "layers": Layers([1]), "f": lambda x: twice(x) + 2}
        [result] = Tuner(trainable, param_space=space, run_config=RunConfig(name="run", verbose=0)).fit()
    else:
        [result] = Tuner.restore(os.path.join(os.environ["MINITUNE_STORAGE_PATH"], "run"), trainable).fit()
    print(result.error, result.metrics["fits"], result.config["colour"] is Colour.RED)
    """
    )
    assert script.run(source, str(script.directory), "fit") == "None [True, True, 42] True\n"
    text = (script.trial_directories()[0] / "params.json").read_text()
    assert "Colour.RED" in text
    (script.storage / "run").rename(script.storage / "finished")
    (script.directory / "first").touch()
    driver = script.start(source, str(script.directory), "fit")
    script.finish(driver)
    assert driver.returncode == -signal.SIGKILL
    assert script.run(source, str(script.directory), "restore") == "None [True, True, 42] True\n"


STINGY = """
import errno, os

if "MINITUNE_RUN_ID" in os.environ:
    left, fork = int(os.environ["REFUSED_FORKS"]), os.fork

    def refuse():
        global left
        left -= 1
        if left >= 0:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return fork()

    os.fork = refuse
"""
"""Python runs a module of this name at its start: here it lets the system seem out of processes for a while."""


@pytest.mark.parametrize("refusals", [3, 1_000_000])
def test_a_system_without_processes_is_waited_for_and_no_trial_is_to_blame(script, refusals):
    if os.environ.get("MINITUNE_START_METHOD") == "interpreter":
        pytest.skip("new interpreters are not forked in Python code, where this test could refuse it")
    (script.directory / "sitecustomize.py").write_text(STINGY)
    driver = script.start(PRELUDE + """
    print([r.metrics["y"] for r in fit(lambda config: {"y": config["x"]}, [0, 1, 2])])
    """, PYTHONPATH=str(script.directory), REFUSED_FORKS=str(refusals), MINITUNE_NUM_CPUS="3")  # fmt: skip
    stdout, stderr = script.finish(driver)
    assert stderr.count("Resource temporarily unavailable") == (1 if refusals == 3 else 2)
    if refusals == 3:
        assert stdout == "[0, 1, 2]\n", stderr
    else:
        assert driver.returncode == 1
        last = stderr.splitlines()[-1]
        assert last.startswith("minitune.error.CrashLoopError: 30 attempts in a row have brought no new report")
        assert "ulimit -u" in last


FORBIDDING = """
import errno, os

if "MINITUNE_RUN_ID" in os.environ:

    def refuse(*args):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    os.pidfd_open = refuse
"""


def test_where_workers_must_not_be_forked_the_run_uses_new_interpreters(script):
    if os.environ.get("MINITUNE_START_METHOD") == "interpreter":
        pytest.skip("they are used anyway")
    (script.directory / "sitecustomize.py").write_text(FORBIDDING)
    driver = script.start(PRELUDE + """
    def trainable(config):
        report({"parent": os.getppid(), "attempt": get_context().get_attempt()})

    results = fit(trainable, list(range(5)))
    print([r.metrics["parent"] == os.getpid() for r in results], max(r.metrics["attempt"] for r in results))
    """, PYTHONPATH=str(script.directory), MINITUNE_NUM_CPUS="2")  # fmt: skip
    stdout, stderr = script.finish(driver)
    # The call is one of the zygote's start: its first requests are lost with it.
    assert stdout == "[True, True, True, True, True] 2\n", stderr
    assert stderr.count("each starts a new interpreter") == 1


def test_zygote_death_is_no_failure_of_its_workers(script):
    if os.environ.get("MINITUNE_START_METHOD") == "interpreter":
        pytest.skip("there is none")
    driver = script.start(PRELUDE + """
    import subprocess

    def trainable(config):
        attempt = get_context().get_attempt()
        with open(os.path.join(sys.argv[1], f"{attempt}-{config['x']}"), "w") as file:
            file.write(f"{os.getppid()} {subprocess.Popen(['sleep', '600'], start_new_session=True).pid}\\n")
        while attempt < 3:
            time.sleep(600)
        return {"y": attempt}

    print([[r.metrics["y"], r.error] for r in fit(trainable, [0, 1])])
    """, str(script.directory), MINITUNE_NUM_CPUS="2")  # fmt: skip
    children = []
    for attempt in (1, 2):
        files = [script.directory / f"{attempt}-{x}" for x in (0, 1)]
        script.wait_until(lambda files=files: all(file.exists() and file.read_text().endswith("\n") for file in files))
        zygote, child = files[0].read_text().split()
        children.append(int(child))
        os.kill(int(zygote), signal.SIGKILL)
    stdout, stderr = script.finish(driver)
    assert stdout == "[[3, None], [3, None]]\n", stderr
    assert "the zygote ended with status -9" in stderr
    assert all(map(is_gone, children))


def test_trial_fails_after_ten_lost_workers_in_a_row(script):
    if os.environ.get("MINITUNE_START_METHOD") == "interpreter":
        pytest.skip("a worker's parent is the driver itself")
    driver = script.start(PRELUDE + """
    def trainable(config):
        saves = config["x"] == 1
        for i in range(start_of(get_checkpoint()) + 1, 15):
            report({"i": i, "attempt": get_context().get_attempt()}, checkpoint=save(i) if saves else None)
            if config["x"] < 2:
                os.kill(os.getppid(), signal.SIGKILL)
                time.sleep(600)

    results = fit(trainable, [0, 1, 2])
    print(json.dumps([[r.metrics["i"], r.metrics["attempt"], r.error and str(r.error)] for r in results]))
    """, MINITUNE_NUM_CPUS="1")  # fmt: skip
    stdout, stderr = script.finish(driver)
    assert driver.returncode == 0, stderr
    lost, saved, other = json.loads(stdout)
    assert lost[:2] == [1, 10], stderr
    assert "has lost its worker 10 times in a row without a new report" in lost[2]
    assert "the zygote ended with status -9" in lost[2]
    assert "last report: iteration 1" in lost[2]
    assert lost[2] in (script.trial_directories()[0] / "error.txt").read_text()
    assert saved == [14, 14, None], "each attempt has brought a report"
    assert other == [14, 1, None]


def test_a_child_that_holds_the_channel_hides_no_death(script):
    stdout = script.run(
        PRELUDE
        + """
    import multiprocessing, subprocess

    def by_fork():
        child = os.fork()
        if not child:
            time.sleep(600)
        return child

    def by_multiprocessing():
        child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
        child.start()
        return child.pid

    def by_subprocess():
        return subprocess.Popen(["sleep", "600"], close_fds=False).pid

    def trainable(config):
        report({"child": [by_fork, by_multiprocessing, by_subprocess][config["x"]]()})
        os.kill(os.getpid(), signal.SIGKILL)

    print(json.dumps([[r.metrics["child"], str(r.error).splitlines()[0]] for r in fit(trainable, [0, 1, 2])]))
    """
    )
    ends = json.loads(stdout)
    assert len(ends) == 3
    for child, error in ends:
        assert "SIGKILL (9)" in error
        assert is_gone(child)


# -- values that cannot be pickled, and exceptions that must arrive ----------------------------------------------------

EXCEPTIONS = """
    class Plain(ValueError):
        pass

    class Holder(Exception):
        def __init__(self, text):
            super().__init__(text)
            self.lock = threading.Lock()

    class TwoArguments(Exception):
        def __init__(self, one, two):
            super().__init__(f"{one} and {two}")

    class NoText(Exception):
        def __str__(self):
            raise RuntimeError("not even this")

    class NoReduce(Exception):
        def __reduce__(self):
            raise RuntimeError("no")

    def circle():
        error = Plain("round and round")
        error.__cause__ = Plain("other")
        error.__cause__.__cause__ = error
        return error

    KINDS = [Plain, Holder, TwoArguments, NoText, NoReduce, Plain, Plain]

    MAKERS = [lambda: Plain("just so"), lambda: Holder("held"), lambda: TwoArguments("this", "that"),
              lambda: NoText("unseen"), lambda: NoReduce("stays"), lambda: Plain("x" * 20_000_000), circle]

    def trainable(config):
        raise MAKERS[config["x"]]()

    results = fit(trainable, list(range(7)))
    print(json.dumps([[isinstance(r.error, kind), str(r.error)] for r, kind in zip(results, KINDS)]))
"""


def test_any_exception_arrives_with_name_message_and_traceback(script):
    plain, holder, two, no_text, no_reduce, long, circle = json.loads(script.run(PRELUDE + EXCEPTIONS))
    errors = [plain, holder, two, no_text, no_reduce, long, circle]
    for _, text in errors:
        assert "in trainable" in text
        assert "minitune/trainable" not in text
    lasts = [text.splitlines()[-1] for _, text in errors]
    assert lasts[:3] == ["Plain: just so", "Holder: held", "TwoArguments: this and that"]
    assert lasts[3].startswith("NoText: ")
    assert lasts[4] == "NoReduce: stays"
    assert "characters left out" in long[1]
    assert len(long[1]) < 70_000
    assert lasts[6] == "Plain: round and round"
    assert plain[0]
    assert circle[0]


AWKWARD = """
    import datetime, decimal, enum, math, pathlib, uuid

    DEPTH = 300 if sys.version_info[:2] == (3, 12) else 1000  # the C code of pickle allows fewer levels there

    class Colour(enum.Enum):
        RED = 1

    class Point:
        def __init__(self, x):
            self.x = x

    def nest(depth):
        outer = inner = {}
        for _ in range(depth):
            inner["n"] = inner = {}
        return outer

    def trainable(config):
        return {
            "ellipsis": ..., "nan": math.nan, "inf": [math.inf, -math.inf], "bytes": b"\\x00\\xff", "none": None,
            "date": [datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, tzinfo=datetime.timezone.utc)],
            "huge": 10**400, "large": 2**70, "small": 5e-324, "surrogate": "a\\ud800b", "colour": Colour.RED,
            "point": Point(3), "tuple": (1, (2,)), "set": {1}, "complex": 1j, "decimal": decimal.Decimal("1.10"),
            "path": pathlib.PurePosixPath("a/b"), "uuid": uuid.UUID(int=1), "a/b": 1, "a.b": 2, "a\\nb": 3, 5: "five",
            None: 0, (1, 2): 3, "nested": nest(DEPTH), "type": int,
        }

    if sys.argv[1] == "fit":
        [result] = fit(trainable, [0])
    else:
        path = os.path.join(os.environ["MINITUNE_STORAGE_PATH"], "run")
        [result] = Tuner.restore(path, trainable).fit()
    metrics = dict(result.metrics)
    depth, inner = 0, metrics.pop("nested")
    while inner:
        depth, inner = depth + 1, inner["n"]
    point, colour = metrics.pop("point"), metrics.pop("colour")
    print(result.error, depth == DEPTH, type(point) is Point and point.x, colour is Colour.RED)
    assert metrics["ellipsis"] is ...
    own = {"ellipsis", "nan", "bytes", "none", "date", "huge", "large", "small", "inf", "surrogate", "tuple", "set",
           "complex", "decimal", "path", "uuid", "a/b", "a.b", "a\\nb", 5, None, (1, 2), "type"}
    print(ascii({key: metrics[key] for key in metrics if key in own}), len([key for key in metrics if key in own]))
"""


def test_awkward_metrics_come_back_as_they_are_also_after_a_restore(script):
    first = script.run(PRELUDE + AWKWARD, "fit")
    assert first.startswith("None True 3 True\n")
    assert first.rstrip().endswith(" 23")
    assert str(10**400) in first
    assert script.run(PRELUDE + AWKWARD, "restore") == first
