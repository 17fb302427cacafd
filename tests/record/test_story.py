"""What a reader of a journal says of a run that several drivers have continued."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from kit import CutAfter, EndAfter, counting, cut, fit, journal_of, report_n, resume, run_path

from minitune import TuneError, grid_search, report
from minitune.record.reading import read_overview, read_run

THREE = {"i": grid_search([0, 1, 2])}


def test_the_time_of_a_run_is_that_of_all_its_drivers() -> None:
    fit(report_n(2))
    for _ in range(2):
        resume(report_n(2), add_samples=1)
    took = [record["took_s"] for record in journal_of() if record["type"] == "close"]
    assert len(took) == 3
    assert read_run(run_path()).worked_s == pytest.approx(sum(took))


@pytest.mark.parametrize("choice", ["resume_errored", "restart_errored"])
def test_a_trial_that_goes_on_had_not_ended_before(choice: str) -> None:
    fit(counting(3, bad=[0]), THREE)
    resume(counting(3), **{choice: True})
    run = read_run(run_path())
    assert run.driver.ended_before == {trial.trial_id for trial in run.trials[1:]}


def test_each_driver_gives_a_trial_all_its_attempts_again(tmp_path: Path) -> None:
    mark = tmp_path / "has failed"

    def train(config: dict[str, Any]) -> None:
        report({"n": 1})
        if not mark.exists():
            mark.touch()
            raise ValueError("on purpose")
        report({"n": 2})

    cut(train, results=2, max_failures=1)
    assert [trial.num_failures for trial in read_run(run_path()).trials] == [1]
    resume(train)
    assert [trial.num_failures for trial in read_run(run_path()).trials] == [0]


def test_a_run_that_got_more_samples_goes_on_with_them_after_it_was_killed() -> None:
    assert len(fit(counting(2), num_samples=3, stop=EndAfter(2), max_concurrent_trials=1)) == 1
    with pytest.raises(TuneError):
        resume(counting(2), add_samples=2, stop=EndAfter(99), callbacks=[CutAfter(1)])
    assert len(resume(counting(2), stop=EndAfter(99))) == 5


def test_a_timestamp_of_the_users_that_is_no_number_is_no_time_of_the_run() -> None:
    fit(report_n(1, timestamp="late"))
    run = read_run(run_path())
    assert run.updated_s == run.noted_s > 0


def test_an_unfinished_run_has_changed_when_its_journal_has() -> None:
    journal = Path(fit(report_n(1)).experiment_path, "journal")
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-1]))
    changed_s = read_overview(journal.parent).updated_s + 100
    os.utime(journal, (changed_s, changed_s))
    assert read_overview(journal.parent).updated_s == pytest.approx(changed_s, abs=1)
