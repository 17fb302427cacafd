"""Runs whose trials have reported so often that a resume reads the sum of their results rather than each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from minitune import (
    ASHAScheduler,
    Callback,
    RunConfig,
    Stopper,
    Trial,
    TuneConfig,
    Tuner,
    grid_search,
    report,
)
from minitune.error import JournalCorruptError
from minitune.record.story import Decisions, read_decisions, read_run

REPORTS = 50
AWKWARD = (float("nan"), 1, True, 10**400, None, "text", -float("inf"), [1, {"a": 2}])


def train(config: dict[str, Any]) -> None:
    for step in range(REPORTS):
        report({"loss": config["x"] / (step + 1), "deep": {"step": step}, "odd": AWKWARD[step % len(AWKWARD)]})


class Watching(Callback):
    """Knows the trials of its run."""

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        self.trials = trials


def tuner(path: Path, watching: Watching, **tune_config: Any) -> Tuner:
    return Tuner(
        train,
        param_space={"x": grid_search([1.0, 2.0, 3.0])},
        tune_config=TuneConfig(metric="loss", mode="min", executor="inline", **tune_config),
        run_config=RunConfig(name="run", storage_path=str(path), verbose=0, callbacks=[watching]),
    )


def state(trials: list[Trial]) -> Any:
    return [
        (trial.status, repr(trial.last_result), repr(trial.metric_analysis), trial.report_count) for trial in trials
    ]


@pytest.mark.parametrize("scheduler", [None, ASHAScheduler(max_t=REPORTS, grace_period=REPORTS // 2)])
def test_a_run_that_is_read_or_resumed_is_what_it_was(tmp_path: Path, scheduler: Any) -> None:
    watching = Watching()
    tuner(tmp_path, watching, scheduler=scheduler).fit()
    before = state(watching.trials)
    assert state(read_run(tmp_path / "run").trials) == before
    decisions = Decisions()
    assert state(read_run(tmp_path / "run", decisions=decisions).trials) == before
    assert decisions.by_trial == read_decisions(tmp_path / "run").by_trial
    resumed = Watching()
    grid = Tuner.restore(str(tmp_path / "run"), train, run_config=RunConfig(callbacks=[resumed], verbose=0)).fit()
    assert state(resumed.trials) == before
    assert [len(result.get_rows()) for result in grid] == [trial.report_count for trial in watching.trials]


def test_a_stopper_of_the_users_hears_each_result_again(tmp_path: Path) -> None:
    class Counting(Stopper):
        heard = 0

        def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
            self.heard += 1
            return False

        def get_state(self) -> Any:
            raise RuntimeError("cannot be saved, so a resume tells it all that has happened")

    config = RunConfig(name="run", storage_path=str(tmp_path), verbose=0, stop=Counting())
    Tuner(train, param_space={"x": 1.0}, tune_config=TuneConfig(executor="inline"), run_config=config).fit()
    again = Counting()
    Tuner.restore(str(tmp_path / "run"), train, run_config=RunConfig(stop=again, verbose=0)).fit()
    assert again.heard == REPORTS


def test_a_damaged_result_is_found_although_its_sum_is_known(tmp_path: Path) -> None:
    tuner(tmp_path, Watching()).fit()
    journal = tmp_path / "run" / "journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    number = next(n for n, line in enumerate(lines) if b'"type":"result"' in line)
    lines[number] = lines[number].replace(b'"number":', b'"nunber":')
    journal.write_bytes(b"".join(lines))
    with pytest.raises(JournalCorruptError):
        Tuner.restore(str(tmp_path / "run"), train).fit()
    with pytest.raises(JournalCorruptError):
        read_run(tmp_path / "run")
