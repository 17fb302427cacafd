"""Runs that are cut short and gone on with, all in this process."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minitune import (
    Callback,
    Checkpoint,
    ResultGrid,
    RunConfig,
    Searcher,
    Trial,
    TuneConfig,
    TuneError,
    Tuner,
    get_checkpoint,
    report,
)
from minitune.execution import journal

RUN = "run"


def make_tuner(trainable: Any, space: Any = None, *, run: dict[str, Any] | None = None, **tune: Any) -> Tuner:
    """A Tuner of an inline run; `run` goes to `RunConfig`, what is not named here to `TuneConfig`."""
    return Tuner(
        trainable,
        param_space=space,
        tune_config=TuneConfig(**{"executor": "inline", **tune}),
        run_config=RunConfig(**{"name": RUN, "verbose": 0, **(run or {})}),
    )


def fit(trainable: Any, space: Any = None, **settings: Any) -> ResultGrid:
    """Run it; see `make_tuner`."""
    return make_tuner(trainable, space, **settings).fit()


def restore(trainable: Any, **settings: Any) -> Tuner:
    """The run of this test, restored."""
    return Tuner.restore(run_path(), trainable, **settings)


def run_path(name: str = RUN) -> Path:
    """Where the run of this test lies."""
    return Path(os.environ["MINITUNE_STORAGE_PATH"]) / name


def journal_of(name: str = RUN) -> list[dict[str, Any]]:
    """The records of the run of this test."""
    return list(journal.read(run_path(name) / "journal"))


class CutOff(Exception):
    """Ends a run in the middle."""


class CutAfter(Callback):
    """Ends the run at result number `results`; it does so once, however often the run is gone on with."""

    def __init__(self, results: int):
        self.left = results

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        self.left -= 1
        if self.left == 0:
            raise CutOff

    def get_state(self) -> dict[str, Any]:
        return {"left": self.left}

    def set_state(self, state: dict[str, Any]) -> None:
        self.left = state["left"]


def cut(trainable: Any, space: Any = None, *, results: int, run: dict[str, Any] | None = None, **tune: Any) -> None:
    """Run until so many results have been reported."""
    settings = dict(run or {})
    settings["callbacks"] = [CutAfter(results), *settings.get("callbacks", ())]
    with pytest.raises(TuneError):
        fit(trainable, space, run=settings, **tune)


def report_state(state: Any, metrics: dict[str, Any]) -> None:
    """Report `metrics` together with a checkpoint that holds `state`."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "state").write_text(str(state))
        report(metrics, checkpoint=Checkpoint.from_directory(directory))


def restored_state(default: int = 0) -> int:
    """The state in the checkpoint that the trial goes on from."""
    checkpoint = get_checkpoint()
    return default if checkpoint is None else int(Path(checkpoint.path, "state").read_text())


def counting(n: int, bad: list[int] | None = None) -> Callable[[dict[str, Any]], None]:
    """A function that counts to `n`, with a checkpoint at each report; where `i` is in `bad` it fails at 2."""

    def counter(config: dict[str, Any]) -> None:
        for k in range(restored_state() + 1, n + 1):
            if k == 2 and config.get("i") in (bad or ()):
                raise ValueError("no luck")
            report_state(k, {"n": k, "score": k * config.get("i", 1)})

    return counter


class Learner(Searcher):
    """Climbs: each suggestion follows from all that it has heard, and it keeps a list of that."""

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


def newest_state(stem: str, directory: Path | None = None) -> Any:
    """What lies in the newest state file of a component."""
    path = max((directory or run_path()).glob(f"{stem}-*.pkl"))
    return pickle.loads(path.read_bytes())
