"""The kit: how a test makes runs, looks at them and hurts them. Every helper that two tests need is here, once.

Look at minitune from the nearest place from which the behaviour shows:

| look at                                | with                                                         | takes |
|----------------------------------------|--------------------------------------------------------------|-------|
| a scheduler or searcher, by itself     | `make_trial`, `run_trial`, `FakeContext`; `suggesting`, ...   | 10 us |
| a trainable, by itself                 | `FakeDriver`, `pull`, `reports_of`                           | 1 ms  |
| a run, in this process                 | `fit`, `cut`, `resume`, then `journal_of`, `Log`, `Spy`      | 10 ms |
| a run with worker processes            | `fit(..., executor="local")`                                 | 0.2 s |
| a script of a user, from outside       | the fixture `script`, see `Script`; `wait_until`, `is_gone`  | 0.5 s |

A run in this process takes place on the inline executor: user code runs inside `fit`, one trial at a time, and needs no
process. With `executor=virtual_executor()` its time is virtual too: `clock.current.sleep(3600)` returns at once, and
an hour has passed. So policies, limits and budgets are tried without waiting, and each run of a test is the same.

    def test_a_trial_is_retried_from_its_checkpoint() -> None:
        log, grid = logged_run(counting(5, bad=[0], at=3), max_failures=1)
        assert log.of("callback.on_trial_recover") == ["callback.on_trial_recover 0 PENDING"]

`fit` takes every setting by its name, whichever of the config classes has it: `num_samples=4` is one of `TuneConfig`,
`stop=...` of `RunConfig`, `max_failures=1` of `FailureConfig`, `num_to_keep=2` of `CheckpointConfig`.

Injuries are at the end of this file. `cut` ends the driver at a given report. `Injured` replaces a function and fails
at its n-th call. `shorten` damages a file. A script kills itself, or a test kills it with `os.kill`.
`Trace` notes the order in which functions are called, so that a test sees a record before its effect. `deciding` and
`listening` make a scheduler and a callback of functions.

Some fixtures of `conftest.py` belong to the kit: `script`, `bound_s`, `one_cpu`, `inline`, `hurried`. That file also
looks after each test: its storage is its own, its machine has four CPUs and no GPU, and it must leave nothing behind.

Workers import this file too, when a trial's function comes from here. So it imports hypothesis only inside of
functions, and pytest nowhere.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import inspect
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import psutil

import minitune as tune
from minitune import (
    Callback,
    Checkpoint,
    CheckpointConfig,
    FailureConfig,
    FIFOScheduler,
    ResultGrid,
    RunConfig,
    Searcher,
    Stopper,
    Trainable,
    Trial,
    TuneConfig,
    TuneError,
    Tuner,
    get_checkpoint,
    report,
)
from minitune.base.actor_thread import ActorThread
from minitune.base.clock import VirtualClock
from minitune.base.shared_values import hold
from minitune.executors.devices import Machine
from minitune.executors.inline import InlineTrialExecutor
from minitune.experiment import states
from minitune.experiment.lifecycle import OWNS_ACTOR, PAUSED, PENDING, RUNNING, Transition
from minitune.experiment.trial_info import TrialInfo
from minitune.experiment.trial_maker import TrialMaker
from minitune.record import journal
from minitune.record.housekeeper import Housekeeper
from minitune.record.reading import RunFollower
from minitune.record.story import Story
from minitune.resources import Allocation, Resources
from minitune.result import Report
from minitune.search import BasicVariantGenerator, SearchAlgorithm, SearchGenerator
from minitune.trainable.trial_actor import make_trial_actor

REPOSITORY = Path(__file__).resolve().parents[1]
KERNEL = REPOSITORY / "tests" / "scripts" / "kernel.py"
"""A script that executes the file which its argument names, as a notebook executes a cell."""
RUN = "run"
"""The name of a run, unless a test gives another."""


# -- bounds ----------------------------------------------------------------------------------------------------------

TIME_FACTOR = float(os.environ.get("MINITUNE_TEST_TIMEFACTOR", "1"))


def scaled_s(bound_s: float) -> float:
    """A bound in seconds times `MINITUNE_TEST_TIMEFACTOR`. It ends a wait that hangs; no passing test reaches it."""
    return bound_s * TIME_FACTOR


BOUND_S = scaled_s(20.0)
"""The bound of a wait inside this process, in seconds."""


def wait_until(condition: Callable[[], object], what: str = "this happens", bound_s: float = 30) -> None:
    """Wait for a change outside this process that no event announces; `bound_s` is scaled."""
    until_s = time.monotonic() + scaled_s(bound_s)
    while not condition():
        assert time.monotonic() < until_s, f"waited {scaled_s(bound_s)} s in vain until {what}"
        time.sleep(0.005)


# -- a run in this process -------------------------------------------------------------------------------------------

_CONFIGS = (TuneConfig, RunConfig, FailureConfig, CheckpointConfig)


def make_tuner(trainable: Any, space: Any = None, **settings: Any) -> Tuner:
    """A Tuner of a quiet inline run. Each setting goes to the config class that has a field of this name."""
    tune_config, run_config = _configs({"executor": "inline", "name": RUN, "verbose": 0, **settings})
    return Tuner(trainable, param_space=space, tune_config=tune_config, run_config=run_config)


def fit(trainable: Any, space: Any = None, **settings: Any) -> ResultGrid:
    """Run it; see `make_tuner`."""
    return make_tuner(trainable, space, **settings).fit()


def restore(trainable: Any, *, path: str | os.PathLike[str] | None = None, **settings: Any) -> Tuner:
    """The run of this test, restored. Settings as for `make_tuner`, besides those of `Tuner.restore` itself.

    Without a setting of `TuneConfig` the recorded one holds; the same is true of `RunConfig`.
    """
    of_restore = inspect.signature(Tuner.restore).parameters
    choices = {name: settings.pop(name) for name in list(settings) if name in of_restore}
    fields = {field.name for field in dataclasses.fields(TuneConfig)}
    if settings.keys() & fields:
        choices["tune_config"] = _configs({"executor": "inline", **settings})[0]
    if settings.keys() - fields:
        choices["run_config"] = _configs({"verbose": 0, **settings})[1]
    return Tuner.restore(os.fspath(path or run_path()), trainable, **choices)


def resume(trainable: Any, **settings: Any) -> ResultGrid:
    """Go on with the run of this test; see `restore`."""
    return restore(trainable, **settings).fit()


def _configs(settings: Mapping[str, Any]) -> tuple[TuneConfig, RunConfig]:
    of: dict[Any, dict[str, Any]] = {kind: {} for kind in _CONFIGS}
    for name, value in settings.items():
        kinds = [kind for kind in _CONFIGS if name in {field.name for field in dataclasses.fields(kind)}]
        if not kinds:
            raise TypeError(f"no config class has a field {name!r}")
        of[kinds[0]][name] = value
    if of[FailureConfig]:
        of[RunConfig]["failure_config"] = FailureConfig(**of[FailureConfig])
    if of[CheckpointConfig]:
        of[RunConfig]["checkpoint_config"] = CheckpointConfig(**of[CheckpointConfig])
    return TuneConfig(**of[TuneConfig]), RunConfig(**of[RunConfig])


def virtual_executor(cpus: float = 4) -> InlineTrialExecutor:
    """An inline executor on whose clock only `clock.current.sleep` takes time."""
    return InlineTrialExecutor(Machine({"CPU": cpus}, ()), VirtualClock())


def run_path(name: str = RUN) -> Path:
    """The directory of the run of this test."""
    return Path(os.environ["MINITUNE_STORAGE_PATH"]) / name


def journal_of(name: str = RUN) -> list[dict[str, Any]]:
    """The records of the run of this test, decoded by the product."""
    return list(journal.read(run_path(name) / "journal"))


def records_in(path: Path) -> list[dict[str, Any]]:
    """The whole records of a journal as plain JSON, without the product's reader; a torn end is none."""
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line[9:]) for line in lines if line.endswith(b"\n")]


def live_reports(found: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The reported metrics of each trial in these records, by its id, without those that it went back behind."""
    live: dict[str, list[dict[str, Any]]] = {}
    for record in found:
        if record["type"] == "rollback":
            assert len(live[record["trial"]]) >= record["number"]
            del live[record["trial"]][record["number"] :]
        elif record["type"] == "result":
            live.setdefault(record["trial"], []).append(record["metrics"])
    return live


def statuses_of(number: int) -> list[str]:
    """The statuses of a trial on record after it began to run, each with its cause."""
    trials = [record["trial"] for record in journal_of() if record["type"] == "trial"]
    changes = [record for record in journal_of() if record["type"] == "status" and record["trial"] == trials[number]]
    return [f"{record['status']} {record['cause']}" for record in changes if record["status"] != "RUNNING"]


class NoThread(Housekeeper):
    """A housekeeper for a journal that is not synced until it is closed. It starts no thread."""

    def sync_soon(self, sync: Any) -> None:
        """Do nothing."""


def newest_state(component: str, directory: Path | None = None) -> Any:
    """The state of a plug-in in the newest snapshot; of a searcher, without that of its search algorithm."""
    path = max((directory or run_path()).glob("plugins-*.pkl"))
    _, state = pickle.loads(path.read_bytes())[component]
    found = pickle.loads(state)
    return found[1] if component == "searcher" else found


def files_below(directory: Path, names: str = "*", without: Sequence[str] = ()) -> dict[str, bytes]:
    """The contents of the files below a directory whose name fits, by their path in it."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob(names))
        if path.is_file() and path.name not in without
    }


# -- trainables ------------------------------------------------------------------------------------------------------


def report_n(n: int, **more: Any) -> Callable[[dict[str, Any]], None]:
    """A function that reports `{"n": 1}`, `{"n": 2}` ... and knows nothing of checkpoints."""

    def reporting(config: dict[str, Any]) -> None:
        for i in range(1, n + 1):
            report({"n": i, **more})

    return reporting


def report_state(state: Any, metrics: dict[str, Any]) -> None:
    """Report `metrics` together with a checkpoint that holds `state`."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "state").write_text(str(state))
        report(metrics, checkpoint=Checkpoint.from_directory(directory))


def restored_state() -> int:
    """The state in the checkpoint that the trial goes on from."""
    checkpoint = get_checkpoint()
    return 0 if checkpoint is None else int(Path(checkpoint.path, "state").read_text())


def counting(n: int, bad: Sequence[int] = (), at: int = 2) -> Callable[[dict[str, Any]], None]:
    """A function that counts to `n`, with a checkpoint at each report.

    It reports `n`; where the configuration has an `i` also `score`, which is `n` times `i`, and if `i` is in `bad` it
    fails at `at`.
    """

    def counter(config: dict[str, Any]) -> None:
        for k in range(restored_state() + 1, n + 1):
            if k == at and config.get("i") in bad:
                raise ValueError("no luck")
            report_state(k, {"n": k, **({"score": k * config["i"]} if "i" in config else {})})

    return counter


class Counter(Trainable):
    """Counts its steps; ends by itself at `config["end"]`, if that is there."""

    def setup(self, config: dict[str, Any]) -> None:
        self.n = 0
        self.end = config.get("end")

    def step(self) -> dict[str, Any]:
        self.n += 1
        return {"n": self.n, "done": self.n == self.end}


class SavedCounter(Counter):
    """Counts its steps, over pauses and failures too."""

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        return {"n": self.n}

    def load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.n = checkpoint["n"]


class Scalar:
    """A number of another library, such as NumPy's."""

    shape: tuple[int, ...] = ()

    def __init__(self, value: Any):
        self.value = value

    def item(self) -> Any:
        return self.value

    def __str__(self) -> str:
        return str(self.value)


class Block:
    """A large buffer that pickles itself out of band, as an array of NumPy does."""

    def __init__(self, content: Any):
        self.view = memoryview(content)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return Block, (pickle.PickleBuffer(self.view),)


# -- plug-ins that remember ------------------------------------------------------------------------------------------


class Log:
    """The events of a run, in order, as lines such as `callback.on_trial_result 0 RUNNING n=1`."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, what: str, trial: Trial | str | None = None, result: Any = None) -> None:
        words = [what]
        if isinstance(trial, Trial):
            words += [str(trial.number), trial.status]
        elif trial is not None:
            words.append(str(int(trial.rpartition("_")[2])))
        if result is not None:
            words.append(f"n={result.get('n')}" + (" done" if result.get("done") else ""))
        self.lines.append(" ".join(words))

    def of(self, word: str) -> list[str]:
        """The lines that begin with `word`."""
        return [line for line in self.lines if line.startswith(word)]


class LoggingScheduler(FIFOScheduler):
    """FIFO, or `decide(context, trial, result)`."""

    def __init__(self, log: Log, decide: Callable[..., Any] | None = None):
        self.log = log
        self.decide = decide

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        self.log.add("scheduler.on_trial_add", trial)

    def on_trial_error(self, tune_controller: Any, trial: Trial) -> None:
        self.log.add("scheduler.on_trial_error", trial)

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> Any:
        self.log.add("scheduler.on_trial_result", trial, result)
        return self.CONTINUE if self.decide is None else self.decide(tune_controller, trial, result)

    def on_trial_complete(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> None:
        self.log.add("scheduler.on_trial_complete", trial, result)

    def on_trial_remove(self, tune_controller: Any, trial: Trial) -> None:
        self.log.add("scheduler.on_trial_remove", trial)


class LoggingSearcher(Searcher):
    """Suggests `{"i": 0}`, `{"i": 1}` ... without end."""

    def __init__(self, log: Log):
        super().__init__()
        self.log = log
        self.count = 0

    def suggest(self, trial_id: str) -> dict[str, Any]:
        self.log.add("searcher.suggest", trial_id)
        self.count += 1
        return {"i": self.count - 1}

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        self.log.add("searcher.on_trial_result", trial_id, result)

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        self.log.add("searcher.on_trial_complete" + (" error" if error else ""), trial_id, result)

    def on_trial_error(self, trial_id: str) -> None:
        self.log.add("searcher.on_trial_error", trial_id)

    def on_pause(self, trial_id: str) -> None:
        self.log.add("searcher.on_pause", trial_id)

    def on_unpause(self, trial_id: str) -> None:
        self.log.add("searcher.on_unpause", trial_id)


class LoggingStopper(Stopper):
    """Stops a trial when `stop(result)`, and all when `stop_all_when()`."""

    def __init__(
        self,
        log: Log,
        stop: Callable[[dict[str, Any]], bool] | None = None,
        stop_all_when: Callable[[], bool] | None = None,
    ):
        self.log = log
        self.stop = stop
        self.stop_all_when = stop_all_when

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        self.log.add("stopper", trial_id, result)
        return self.stop is not None and self.stop(result)

    def stop_all(self) -> bool:
        return self.stop_all_when is not None and self.stop_all_when()

    def get_state(self) -> dict[str, Any]:
        return {}


class LoggingCallback(Callback):
    """Writes down every hook that concerns a trial."""

    def __init__(self, log: Log):
        self.log = log

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self.log.add("callback.on_trial_start", trial)

    def on_trial_restore(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self.log.add("callback.on_trial_restore", trial)

    def on_trial_save(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self.log.add("callback.on_trial_save", trial)

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        self.log.add("callback.on_trial_result", trial, result)

    def on_checkpoint(
        self, iteration: int, trials: list[Trial], trial: Trial, checkpoint: Checkpoint, **info: Any
    ) -> None:
        self.log.add("callback.on_checkpoint", trial)

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self.log.add("callback.on_trial_complete", trial)

    def on_trial_recover(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self.log.add("callback.on_trial_recover", trial)

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self.log.add("callback.on_trial_error", trial)

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        self.log.add("callback.on_experiment_end")


def logged_run(
    trainable: Any,
    space: Any = None,
    *,
    decide: Callable[..., Any] | None = None,
    stop: Callable[[dict[str, Any]], bool] | None = None,
    stop_all_when: Callable[[], bool] | None = None,
    log: Log | None = None,
    **settings: Any,
) -> tuple[Log, ResultGrid]:
    """Run with a full set of plug-ins that write into one log."""
    log = log or Log()
    grid = fit(
        trainable,
        space,
        search_alg=LoggingSearcher(log),
        scheduler=LoggingScheduler(log, decide),
        stop=LoggingStopper(log, stop, stop_all_when),
        callbacks=[LoggingCallback(log)],
        **settings,
    )
    return log, grid


class Spy(Callback):
    """Keeps the trials of the run, and calls `at_result(trial, result)`."""

    def __init__(self, at_result: Callable[[Trial, dict[str, Any]], Any] | None = None):
        self.at_result = at_result
        self.trials: list[Trial] = []
        self.most_running = 0

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self.trials = trials
        running = sum(other.status == "RUNNING" for other in trials) + 1
        self.most_running = max(self.most_running, running)

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        if self.at_result is not None:
            self.at_result(trial, result)

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        self.trials = trials

    @property
    def statuses(self) -> list[str]:
        return [trial.status for trial in self.trials]


def listening(**hooks: Callable[..., Any]) -> Callback:
    """A callback made of functions: `listening(on_trial_result=lambda trial, result, **info: ...)`."""
    methods = {name: (lambda self, hook=hook, **info: hook(**info)) for name, hook in hooks.items()}
    return type("Listening", (Callback,), methods)()


def deciding(decide: Callable[..., Any]) -> FIFOScheduler:
    """A scheduler that answers `decide(context, trial, result)` to each result."""
    return LoggingScheduler(Log(), decide)


class EndAfter(Stopper):
    """Ends the run after so many results."""

    def __init__(self, results: int):
        self.results = results

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        self.results -= 1
        return False

    def stop_all(self) -> bool:
        return self.results <= 0


class Learner(Searcher):
    """Climbs on `score`: each suggestion follows from all that it has heard, and it keeps a list of that."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(metric="score", mode="max")
        self.heard: list[str] = []
        self.at = seed

    def suggest(self, trial_id: str) -> dict[str, Any]:
        self.heard.append(f"suggest {trial_id[-5:]}")
        self.at = (self.at * 31 + len(self.heard)) % 1009
        return {"i": self.at}

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        self.heard.append(f"result {trial_id[-5:]} {result['n']}")
        self.at += result["score"]

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        self.heard.append(f"complete {trial_id[-5:]}")
        self.at += 7


class PauseOnce(FIFOScheduler):
    """Pauses each trial once, at its report number `at`."""

    def __init__(self, at: int = 1) -> None:
        self.at = at
        self.paused: set[str] = set()

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        if trial.trial_id in self.paused or result["training_iteration"] < self.at:
            return self.CONTINUE
        self.paused.add(trial.trial_id)
        return self.PAUSE


class LastFirst(FIFOScheduler):
    """Starts the trial that came last; pauses each trial when it reaches iteration 2, 4, 6 ... for the first time."""

    def __init__(self) -> None:
        self.paused_at: set[tuple[str, int]] = set()

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        moment = (trial.trial_id, result["training_iteration"])
        if result["training_iteration"] % 2 or moment in self.paused_at:
            return self.CONTINUE
        self.paused_at.add(moment)
        return self.PAUSE

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        waiting = [t for t in tune_controller.get_live_trials() if t.status in ("PENDING", "PAUSED")]
        return waiting[-1] if waiting else None


class Reader(Callback):
    """Reads the journal along, as another process may, and compares after each turn of the driver's loop."""

    def __init__(self) -> None:
        self.follower: RunFollower | None = None

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        if self.follower is None:
            self.follower = RunFollower(run_path())
        self.follower.read_new()
        check_story(self.follower.run, trials)


def check_story(story: Story, trials: list[Trial]) -> None:
    """The journal tells the same as the run's own memory."""
    assert [trial.trial_id for trial in story.trials] == [trial.trial_id for trial in trials]
    for read, kept in zip(story.trials, trials, strict=True):
        seen = view_of(read)
        wrong = {name: (seen[name], value) for name, value in view_of(kept).items() if seen[name] != value}
        assert not wrong, f"trial {kept.trial_id}, as it was read and as it is"


def view_of(trial: Trial) -> dict[str, Any]:
    """What a reader of the journal knows of a trial."""
    return {
        "id": trial.trial_id,
        "number": trial.number,
        "name": trial.name,
        "tag": trial.experiment_tag,
        "path": trial.local_path,
        "config": trial.config,
        "drawn": trial.evaluated_params,
        "seed": trial.seed,
        "resources": trial.resources,
        # the record of a start says that it runs, also while its worker is not ready
        "status": RUNNING if trial.phase in OWNS_ACTOR else trial.status,
        "state": states.RUNNING if trial.phase in OWNS_ACTOR else trial.state,
        "attempt": trial.attempt.number,
        "reports": trial.progress.num_reports,
        "result": trial.last_result,
        "statistics": trial.metric_analysis,
        "checkpoints": [(kept.record, kept.result) for kept in trial.checkpoints],
        "next checkpoint": trial.next_checkpoint,
        "failures": trial.num_failures,
        "ending": trial.ending,
        "error": str(trial.error),
        "has begun": trial.is_finished() and trial.start_time is not None,
        "repeats": trial.repeats,
    }


# -- a scheduler by itself --------------------------------------------------------------------------------------------


@contextlib.contextmanager
def stand_ins(libraries: Mapping[str, Mapping[str, Any]], *users: str) -> Iterator[Any]:
    """Modules of these members in place of libraries that may not be here. Inside the `with` block, imports find them.

    Yields the first of the `users`, modules that are imported again since they import such a library themselves.
    """
    before = {each: sys.modules.pop(each, None) for each in (*libraries, *users)}
    for each, members in libraries.items():
        sys.modules[each] = types.ModuleType(each)
        vars(sys.modules[each]).update(members)
    try:
        yield importlib.import_module(users[0]) if users else None
    finally:
        for each, module in before.items():
            if module is None:
                sys.modules.pop(each, None)
            else:
                sys.modules[each] = module


def make_trial(number: int = 0, **details: Any) -> Trial:
    """A trial that no run owns: no process, no file, no clock."""
    return Trial("train", trial_id=f"t{number:04d}", number=number, **details)


def run_trial(trial: Trial) -> Trial:
    """Bring a waiting trial to RUNNING."""
    if trial.status == PAUSED:
        trial.move(Transition.UNPAUSE)
    trial.begin_attempt(trial.attempt.number + 1)
    trial.move(Transition.START)
    trial.move(Transition.TRAIN)
    return trial


class FakeContext:
    """The first argument of a scheduler's hooks, over a plain list of trials; requests are noted, not carried out."""

    def __init__(self, trials: Sequence[Trial] = ()):
        self.trials = list(trials)
        self.supply = "ENDED"
        self.search_alg: Any = None
        self.is_replaying = False
        self.requests: list[tuple[Any, ...]] = []

    def get_trials(self) -> list[Trial]:
        return self.trials

    def get_live_trials(self) -> list[Trial]:
        return [trial for trial in self.trials if not trial.is_finished()]

    def first_pending(self) -> Trial | None:
        return next((trial for trial in self.trials if trial.status == PENDING), None)

    def first_paused(self) -> Trial | None:
        return next((trial for trial in self.trials if trial.status == PAUSED), None)

    def stop_trial(self, trial: Trial, reason: str = "", facts: Any = None) -> None:
        self.requests.append(("stop", trial))

    def pause_trial(self, trial: Trial, should_checkpoint: bool = True) -> None:
        self.requests.append(("pause", trial, should_checkpoint))

    def exploit_trial(self, trial: Trial, donor: Trial, config: dict[str, Any], reason: str = "") -> None:
        self.requests.append(("exploit", trial, donor, config))


# -- a searcher by itself ---------------------------------------------------------------------------------------------


class FakeExperiment:
    """The part of an experiment that a search algorithm asks for."""

    def __init__(self, param_space: dict[str, Any] | None = None, num_samples: int = 1):
        self.param_space = param_space or {}
        self.num_samples = num_samples
        self.maker = TrialMaker("train", id_prefix="abcde")


class Recording(Searcher):
    """Suggests {"x": 0}, {"x": 1}, ... up to `limit`; `heard` has its calls with their arguments."""

    def __init__(self, limit: int | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.limit = limit
        self.count = 0
        self.heard: list[tuple[Any, ...]] = []

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        if self.count == self.limit:
            return Searcher.FINISHED
        self.count += 1
        self.heard.append(("suggest", trial_id))
        return {"x": self.count - 1}

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        self.heard.append(("result", trial_id, result))

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        self.heard.append(("complete", trial_id, result, error))

    def on_trial_error(self, trial_id: str) -> None:
        self.heard.append(("error", trial_id))

    def on_pause(self, trial_id: str) -> None:
        self.heard.append(("pause", trial_id))

    def on_unpause(self, trial_id: str) -> None:
        self.heard.append(("unpause", trial_id))

    def completed(self) -> list[str]:
        return [event[1] for event in self.heard if event[0] == "complete"]


class Listed(Searcher):
    """Suggests the given configurations, in order; takes any space."""

    def __init__(self, *suggestions: Any):
        super().__init__()
        self.suggestions = list(suggestions)

    def set_search_properties(self, metric: Any, mode: Any, config: Any, **spec: Any) -> bool:
        return True

    def suggest(self, trial_id: str) -> Any:
        return self.suggestions.pop(0) if self.suggestions else Searcher.FINISHED


def play(searcher: Searcher, function: Callable[[Any], Any], count: int, first: int = 0) -> list[tuple[Any, Any]]:
    """Try so many configurations, one after the other; where the function returns None, the trial fails."""
    played = []
    for number in range(first, first + count):
        config = searcher.suggest(str(number))
        assert isinstance(config, dict)
        value = function(config)
        searcher.on_trial_complete(str(number), {"loss": value}, error=value is None)
        played.append((config, value))
    return played


def best(played: list[tuple[Any, Any]]) -> float:
    return float(min(value for _, value in played if value is not None))


def bowl(config: dict[str, float]) -> float:
    return float(sum((value - 0.3) ** 2 for value in config.values()))


def basic(space: dict[str, Any], num_samples: int = 1, seed: int = 7, **kwargs: Any) -> BasicVariantGenerator:
    """A BasicVariantGenerator over one experiment."""
    generator = BasicVariantGenerator(**kwargs)
    generator.set_seed(seed)
    generator.add_configurations(FakeExperiment(space, num_samples))
    return generator


def suggesting(searcher: Searcher, space: dict[str, Any] | None = None, num_samples: int = 10) -> SearchGenerator:
    """A SearchGenerator over one experiment."""
    generator = SearchGenerator(searcher)
    generator.set_seed(7)
    generator.set_search_properties("loss", "min", space or {}, num_samples=num_samples)
    generator.add_configurations(FakeExperiment(space, num_samples))
    return generator


def all_trials(algorithm: SearchAlgorithm, limit: int = 1000) -> list[Trial]:
    """Ask until the algorithm is finished, completing nothing."""
    trials: list[Trial] = []
    while not algorithm.is_finished() and len(trials) < limit:
        trial = algorithm.next_trial()
        if trial is not None:
            trials.append(trial)
    return trials


def configs(algorithm: SearchAlgorithm, limit: int = 1000) -> list[dict[str, Any]]:
    """The configurations of `all_trials`."""
    return [trial.config for trial in all_trials(algorithm, limit)]


_DOMAINS: list[Any] = [
    tune.uniform(-1, 1),
    tune.uniform(2, 2),
    tune.loguniform(1e-9, 1e3),
    tune.quniform(-0.3, 0.9, 0.1),
    tune.qloguniform(0.001, 0.1, 0.001),
    tune.randint(-3, 4),
    tune.lograndint(1, 1000),
    tune.qrandint(3, 50, 7),
    tune.qlograndint(8, 1024, 8),
    tune.qrandint(1, 9, 1),
    tune.choice([1, 1.0, True, None, "a", float("inf")]),
    tune.choice([[1], (2,), {"k": 1}, len]),
    tune.choice(range(1000)),  # Ax takes no more
    tune.sample_from(lambda: 1),
    "constant",
]


def spaces(*more: Any, names: Sequence[str] = ("a", "b", "a/b"), leaves: Sequence[Any] = _DOMAINS) -> Any:
    """A strategy of hypothesis: nested and conditional spaces of domains of every kind, and of `more`."""
    from hypothesis import strategies as st

    return st.dictionaries(
        st.sampled_from(list(names)),
        st.recursive(
            st.sampled_from([*leaves, *more]),
            lambda inner: st.one_of(
                st.dictionaries(st.sampled_from("xy"), inner, min_size=1, max_size=2),
                st.lists(inner, min_size=1, max_size=2),
                st.lists(st.dictionaries(st.sampled_from("pq"), inner, max_size=2), min_size=1, max_size=3).map(
                    tune.choice
                ),
            ),
            max_leaves=6,
        ),
        min_size=1,
        max_size=3,
    )


def check_suggestions(space: Any, searcher: Searcher, again: Callable[[list[Any]], Searcher]) -> None:
    """The suggestions of a searcher lie in the space; given to another one as points, they come back.

    Args:
        space: The space.
        searcher: Of `loss`, to be minimised.
        again: Makes another one that evaluates these points first.
    """
    from minitune.space.domains import fits
    from minitune.space.parameters import config_key

    searcher.set_search_properties(None, None, space)
    suggested: list[Any] = []
    for number in range(14):
        suggested.append(searcher.suggest(str(number)))
        assert fits(space, suggested[-1])
        searcher.on_trial_complete(str(number), {"loss": float(number % 3)})
    second = again(suggested[-2:])
    second.set_search_properties(None, None, space)
    assert [config_key(second.suggest(name)) for name in "ab"] == list(map(config_key, suggested[-2:]))


def check_that_nothing_comes_twice(space: Any, searcher: Searcher, seed: int) -> None:
    """With `on_duplicate="resample"` each configuration is another one, or the search ends and says why."""
    from minitune.space.domains import fits
    from minitune.space.parameters import config_key

    study = tune.Study(space, searcher, mode="min", seed=seed, num_samples=15, on_duplicate="resample")
    keys = set()
    while (config := study.ask()) is not None:
        assert fits(space, config)
        assert config_key(config) not in keys
        keys.add(config_key(config))
        study.tell(config, len(keys) % 4)
    assert len(keys) == 15 or study.end_reason


# -- a trainable by itself --------------------------------------------------------------------------------------------


def settle(value: Any) -> Any:
    """The value, or that of its Future, within the bound."""
    return value.result(BOUND_S) if isinstance(value, Future) else value


class FakeActor:
    """The object of a trial on a thread of its own. Strict turns, as a driver keeps them."""

    def __init__(self, name: str, factory: Callable[..., Any], allocation: Allocation):
        self.thread = ActorThread(name)
        making = self.thread.ask("make", lambda: factory(self.thread, allocation=allocation))
        try:
            self._object = making.result(BOUND_S)
        except BaseException:
            self.thread.end(BOUND_S)
            raise

    def train(self) -> Future[Report]:
        return self.thread.ask("train", self._object.train)

    def save(self) -> Any:
        return self.thread.ask("save", self._object.save).result(BOUND_S)

    def restore(self, path: str, metrics: Mapping[str, Any]) -> None:
        self.thread.ask("restore", lambda: self._object.restore(path, metrics)).result(BOUND_S)

    def reset(self, fields: tuple[Any, ...], allocation: Allocation | None) -> bool:
        self.thread.is_stopped = False
        reset: bool = self.thread.ask("reset", lambda: self._object.reset(fields, allocation)).result(BOUND_S)
        return reset

    def stop(self) -> Future[None]:
        """Done once the code of the trial has ended."""
        self.thread.stop()
        return self.thread.ask("stop", getattr(self._object, "stop", lambda: None))


class FakeDriver:
    """The smallest driver: starts trial actors on one thread each. `close` stops them."""

    def __init__(self, directory: Path):
        self.directory = directory
        self._actors: list[FakeActor] = []

    def info(self, name: str = "t_00000", **changes: Any) -> TrialInfo:
        directory = self.directory / name
        directory.mkdir(exist_ok=True)
        fields: dict[str, Any] = {
            "trial_id": name,
            "name": f"fn_{name}",
            "directory": str(directory),
            "experiment_name": "exp",
            "resources": Resources([{"CPU": 2}]),
            "seed": 17,
            "config": {},
        }
        return TrialInfo(**{**fields, **changes})

    def start(
        self,
        trainable: Any,
        config: Mapping[str, Any] | None = None,
        allocation: Allocation | None = None,
        **changes: Any,
    ) -> FakeActor:
        """The actor of a new trial; `changes` are fields of `TrialInfo`."""
        info = self.info(config=dict(config or {}), **changes)
        factory = functools.partial(make_trial_actor, hold(trainable), info.resources, fields=info.fields())
        actor = FakeActor(info.trial_id, factory, allocation or Allocation())
        self._actors.append(actor)
        return actor

    def close(self) -> None:
        for actor in self._actors:
            settle(actor.stop())
            assert actor.thread.end(BOUND_S)


def pull(actor: Any) -> Report:
    """One answered `train()`; it must survive the way through a pipe."""
    fields = settle(actor.train())
    return Report(*pickle.loads(pickle.dumps(fields)))


def reports_of(actor: Any) -> list[Report]:
    """All reports up to the one that says that the trial is done."""
    reports = [pull(actor)]
    while not reports[-1].done:
        reports.append(pull(actor))
    return reports


def values_of(actor: Any, key: str) -> list[Any]:
    """The reported values of one key, in order."""
    return [report.metrics[key] for report in reports_of(actor) if report.metrics is not None]


# -- a script as a process, seen from outside ------------------------------------------------------------------------


def variables_of_scripts(**changes: str | None) -> dict[str, str]:
    """The variables with which a script starts: it can import the package and `script_kit`. None
    removes one."""
    given = {**os.environ, **changes}
    places = (str(REPOSITORY), str(REPOSITORY / "tests"), given.get("PYTHONPATH"))
    given["PYTHONPATH"] = os.pathsep.join(filter(None, places))
    return {name: value for name, value in given.items() if value is not None}


class Script:
    """Scripts and commands of a user, each as a process of its own; the fixture `script` closes it.

        driver = script.start(SCRIPTS / "a_script.py", "argument", VARIABLE="value")
        script.wait_for_reports()
        driver.send_signal(signal.SIGTERM)
        stdout, stderr = script.finish(driver)
        assert [record["type"] for record in script.records()][-1] == "close"

    `directory` is the working directory; runs lie below `storage`. A variable that is None is removed.
    """

    def __init__(self, directory: Path):
        self.directory = directory
        self.storage = directory / "results"
        self._started: list[subprocess.Popen[str]] = []
        self._count = 0

    def write(self, source: str | Path) -> Path:
        """Write a script to a file of its own; of a path, copy the file. Returns the place."""
        if isinstance(source, Path):
            return Path(shutil.copy(source, self.directory))
        self._count += 1
        path = self.directory / f"script_{self._count}.py"
        path.write_text(textwrap.dedent(source))
        return path

    def start(self, source: str | Path, *arguments: str, **environment: str | None) -> subprocess.Popen[str]:
        """Write a script and start it."""
        return self.start_command([sys.executable, str(self.write(source)), *arguments], **environment)

    def start_command(
        self, command: Sequence[str], stdin: str | None = None, cwd: Path | None = None, **environment: str | None
    ) -> subprocess.Popen[str]:
        """Start a command that can import the package. Without `stdin` its standard input is empty."""
        given = variables_of_scripts(**{"MINITUNE_STORAGE_PATH": str(self.storage), **environment})
        process = subprocess.Popen(
            command,
            env=given,
            cwd=cwd or self.directory,
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        if stdin is not None and process.stdin is not None:
            process.stdin.write(stdin)
            process.stdin.close()
            process.stdin = None
        return process

    def start_minitune(self, *arguments: str) -> subprocess.Popen[str]:
        """Start the command `minitune`."""
        return self.start_command([sys.executable, "-m", "minitune", *arguments])

    def finish(self, process: subprocess.Popen[str], bound_s: float = 60) -> tuple[str, str]:
        """Wait for the end of a process; returns its stdout and stderr. `bound_s` is scaled."""
        return process.communicate(timeout=scaled_s(bound_s))

    def run(self, source: str | Path, *arguments: str, **environment: str | None) -> str:
        """Run a script to its end, which must be a good one; returns its stdout."""
        process = self.start(source, *arguments, **environment)
        stdout, stderr = self.finish(process)
        assert process.returncode == 0, f"exit code {process.returncode}\n{stdout}\n{stderr}"
        return stdout

    def run_command(self, command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, good or bad; options as for `start_command`."""
        process = self.start_command(command, **options)
        stdout, stderr = self.finish(process)
        return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)

    def run_minitune(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command `minitune` to its end, good or bad."""
        process = self.start_minitune(*arguments)
        stdout, stderr = self.finish(process)
        return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)

    def records(self, run: str = RUN, **fields: Any) -> list[dict[str, Any]]:
        """The whole records in a run's journal, as plain JSON, that have these values: `records(type="result")`."""
        found = records_in(self.storage / run / "journal")
        return [record for record in found if all(record.get(name) == value for name, value in fields.items())]

    def trial_directories(self) -> list[Path]:
        """The directories of the run's trials, in the order of their names."""
        return sorted(path.parent for path in (self.storage / RUN).glob("*/params.json"))

    def wait_for_reports(self) -> None:
        """Wait until two trials have a report in their files."""

        def have_reported() -> bool:
            return sum(path.stat().st_size > 0 for path in (self.storage / RUN).glob("*/result.json")) >= 2

        self.wait_until(have_reported)

    def wait_until(self, condition: Callable[[], object], bound_s: float = 30) -> None:
        """See `wait_until`."""
        wait_until(condition, bound_s=bound_s)

    def close(self) -> None:
        """End the processes that still run."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate()


def is_gone(pid: int) -> bool:
    """Whether a process is dead. A zombie is: where no process reaps them, dead orphans stay in the list.

    One whose main thread alone has ended looks like a zombie, but has other threads.
    """
    try:
        process = psutil.Process(pid)
        return process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1
    except psutil.NoSuchProcess:  # or `ZombieProcess`, where a zombie does not show its threads
        return True


def descendants_of(process: subprocess.Popen[Any]) -> list[psutil.Process]:
    """The processes below a script: its zygote and its workers, at this moment."""
    return psutil.Process(process.pid).children(recursive=True)


def marked_processes(marker: str) -> list[psutil.Process]:
    """The living processes that have a marker in a value of their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if any(marker in value for value in process.environ().values()):
                found.append(process)
        except (psutil.Error, OSError):
            continue  # it has ended, or belongs to another user
    return found


def read_pids(path: Path, count: int) -> list[int]:
    """Wait until a file has `count` whole lines, and read them as process ids."""
    wait_until(lambda: path.exists() and path.read_text().count("\n") >= count, f"{count} pids stand in {path}")
    return [int(line) for line in path.read_text().split()]


def control_group(controllers: Mapping[str, str], limit: int) -> str:
    """A new control group with a limit, or "" where none can be made (that needs an administrator).

    Args:
        controllers: By directory of a controller, the file that takes the limit; the first that works is used.
        limit: The limit.
    """
    for parent, file in controllers.items():
        path = os.path.join(parent, f"minitune-test-{os.getpid()}")
        try:
            os.mkdir(path)
        except OSError:
            continue
        try:
            Path(path, file).write_text(str(limit))
        except OSError:
            os.rmdir(path)
            continue
        return path
    return ""


# -- injuries ----------------------------------------------------------------------------------------------------------


class CutOff(Exception):
    """Ends a run in the middle, as an error of the driver would."""


class CutAfter(Callback):
    """Ends the run at its result number `results`, which counts all trials.

    The one that is recorded for a resume cuts nothing.

    Args:
        results: The number of the result.
        how: "raise" raises `CutOff`; "exit" is `sys.exit(1)`; "SIGINT" is a Ctrl-C.
    """

    def __init__(self, results: int, how: str = "raise"):
        self.results = results
        self.how = how
        self.heard = 0

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        self.heard += 1
        if self.heard != self.results:
            return
        if self.how == "SIGINT":
            os.kill(os.getpid(), signal.SIGINT)
        elif self.how == "exit":
            raise SystemExit(1)
        else:
            raise CutOff

    def __reduce__(self) -> tuple[type, tuple[int]]:
        return CutAfter, (0,)


def cut(trainable: Any, space: Any = None, *, results: int, how: str = "raise", **settings: Any) -> None:
    """Run until so many results have been reported, and end there; see `CutAfter`."""
    callbacks = [CutAfter(results, how), *settings.pop("callbacks", ())]
    try:
        grid = fit(trainable, space, callbacks=callbacks, **settings)
    except (TuneError, SystemExit):
        assert how != "SIGINT"
    else:
        assert how == "SIGINT", "the run came to its end before it was cut"
        assert grid.interrupted


def raiser(error: BaseException) -> Callable[..., Any]:
    """A function that raises `error`, with whichever arguments."""

    def raising(*args: Any, **kwargs: Any) -> Any:
        raise error

    return raising


class Injured:
    """A function that works, except at some calls. Put it in the place of the real one:

        full = Injured(os.write, OSError(errno.ENOSPC, "full"), at=[3])
        monkeypatch.setattr(os, "write", full)

    Args:
        real: The function.
        injury: Raised at those calls; or a function, called in place of the real one with the same arguments.
        at: The numbers of these calls, counted from 1; None means all.
        where: Only calls whose arguments it accepts count.
    """

    def __init__(
        self,
        real: Callable[..., Any],
        injury: BaseException | Callable[..., Any],
        at: Iterable[int] | None = None,
        where: Callable[..., object] = lambda *args, **kwargs: True,
    ):
        self._real = real
        self._injury = raiser(injury) if isinstance(injury, BaseException) else injury
        self._at = None if at is None else set(at)
        self._where = where
        self.calls = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._where(*args, **kwargs):
            return self._real(*args, **kwargs)
        self.calls += 1
        is_hurt = self._at is None or self.calls in self._at
        return (self._injury if is_hurt else self._real)(*args, **kwargs)


class Trace:
    """The order in which functions were called; `lines` has one line for each call.

    trace = Trace(monkeypatch)
    trace.watch(os, "replace", lambda source, target: f"rename to {Path(target).name}")

    A call is noted when it begins. A describing function that returns None leaves the call out.
    """

    def __init__(self, monkeypatch: Any):
        self.lines: list[str] = []
        self._monkeypatch = monkeypatch

    def watch(self, owner: Any, name: str, describe: Callable[..., str | None] | None = None) -> None:
        """Note the calls of a function of a module or class; it works as before."""
        real = getattr(owner, name)

        @functools.wraps(real)
        def noted(*args: Any, **kwargs: Any) -> Any:
            line = name if describe is None else describe(*args, **kwargs)
            if line is not None:
                self.lines.append(line)
            return real(*args, **kwargs)

        self._monkeypatch.setattr(owner, name, noted)


@contextlib.contextmanager
def file_size_limit(limit_bytes: int) -> Iterator[None]:
    """Inside of the block no file can become larger than this."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def shorten(path: Path, count: int) -> None:
    """Take so many bytes off the end of a file."""
    os.truncate(path, path.stat().st_size - count)


def table_in(text: str) -> list[dict[str, str]]:
    """The first framed table in a text: its rows, by header."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    head, *rows = ([cell.strip() for cell in line.strip("|").split(" | ")] for line in lines)
    return [dict(zip(head, row, strict=True)) for row in rows]
