"""Runs without processes, plug-ins that write down what they are told, and trainables that do next to nothing."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
    Tuner,
    get_checkpoint,
    report,
)
from minitune.clock import VirtualClock
from minitune.execution import journal
from minitune.execution.devices import Machine
from minitune.execution.inline import InlineTrialExecutor

RUN = "run"


# -- running -------------------------------------------------------------------------------------------------------


def make_tuner(
    trainable: Any,
    space: Any = None,
    *,
    name: str = RUN,
    callbacks: Any = None,
    stop: Any = None,
    failure: FailureConfig | None = None,
    checkpoint: CheckpointConfig | None = None,
    verbose: int = 0,
    progress_reporter: Any = None,
    **tune: Any,
) -> Tuner:
    """A Tuner of an inline run; what is not named here goes to `TuneConfig`."""
    return Tuner(
        trainable,
        param_space=space,
        tune_config=TuneConfig(**{"executor": "inline", **tune}),
        run_config=RunConfig(
            name=name,
            callbacks=callbacks,
            stop=stop,
            failure_config=failure,
            checkpoint_config=checkpoint,
            verbose=verbose,
            progress_reporter=progress_reporter,
        ),
    )


def fit(trainable: Any, space: Any = None, **settings: Any) -> ResultGrid:
    """Run it; see `make_tuner`."""
    return make_tuner(trainable, space, **settings).fit()


def resume(trainable: Any, *, errored: bool = False, run_config: RunConfig | None = None, **tune: Any) -> ResultGrid:
    """Go on with the run of this test; with `tune`, under another `TuneConfig`."""
    tune_config = TuneConfig(**{"executor": "inline", **tune}) if tune else None
    path = run_path()
    return Tuner.restore(
        str(path), trainable, resume_errored=errored, tune_config=tune_config, run_config=run_config
    ).fit()


def run_path(name: str = RUN) -> Path:
    """Where the run of this test lies."""
    return Path(os.environ["MINITUNE_STORAGE_PATH"]) / name


def journal_of(name: str = RUN) -> list[dict[str, Any]]:
    """The records of the run of this test."""
    return list(journal.read(run_path(name) / "journal"))


def virtual_executor(cpus: float = 4) -> InlineTrialExecutor:
    """An executor on whose clock only `sleep` takes time."""
    return InlineTrialExecutor(Machine({"CPU": cpus}, ()), VirtualClock())


# -- trainables -----------------------------------------------------------------------------------------------------


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


def restored_state(default: int = 0) -> int:
    """The state in the checkpoint that the trial goes on from."""
    checkpoint = get_checkpoint()
    return default if checkpoint is None else int(Path(checkpoint.path, "state").read_text())


def counting(n: int) -> Callable[[dict[str, Any]], None]:
    """A function that counts to `n`, with a checkpoint at each report."""

    def counter(config: dict[str, Any]) -> None:
        for i in range(restored_state() + 1, n + 1):
            report_state(i, {"n": i})

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


# -- plug-ins that remember ---------------------------------------------------------------------------------------


class Log:
    """What happened, in order, as lines such as `callback.on_trial_result 0 RUNNING n=1`."""

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
    """FIFO, or what `decide(trial, result)` says."""

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


def raiser(error: BaseException) -> Callable[..., Any]:
    """A function that raises `error`, whatever it gets."""

    def raising(*args: Any, **kwargs: Any) -> Any:
        raise error

    return raising


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


class LastFirst(FIFOScheduler):
    """Starts what came last, and pauses every trial when it reaches iteration 2, 4, 6, ... for the first time."""

    def __init__(self) -> None:
        self.paused_at: set[tuple[str, int]] = set()

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        milestone = (trial.trial_id, result["training_iteration"])
        if result["training_iteration"] % 2 or milestone in self.paused_at:
            return self.CONTINUE
        self.paused_at.add(milestone)
        return self.PAUSE

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        waiting = [t for t in tune_controller.get_live_trials() if t.status in ("PENDING", "PAUSED")]
        return waiting[-1] if waiting else None
