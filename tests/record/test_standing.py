"""The state of a run, as a reader of its directory finds it."""

from __future__ import annotations

from pathlib import Path

import pytest
from kit import fit, report_n, run_path

from minitune.record import standing
from minitune.record.reading import RunFollower
from minitune.record.story import Story


def test_a_run_that_ends_while_it_is_looked_at_was_not_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Path(fit(report_n(1)).experiment_path, "journal")
    whole = journal.read_bytes()
    journal.write_bytes(b"".join(whole.splitlines(keepends=True)[:-1]))
    looks = []

    def look(run: Story) -> standing.Standing:
        found = standing_of(run)
        looks.append(found.name)
        journal.write_bytes(whole)  # the driver ends after its records were read
        return found

    standing_of = standing.standing_of
    monkeypatch.setattr(standing, "standing_of", look)
    has_new, state = standing.read_on(RunFollower(journal.parent))
    assert (has_new, looks, state.name) == (True, ["killed", "finished"], "finished")


def test_trials_of_a_run_that_goes_on_wait_for_its_driver_again() -> None:
    fit(report_n(5), num_samples=2, max_concurrent_trials=1)
    journal = Path(run_path(), "journal")
    lines = journal.read_bytes().splitlines(keepends=True)
    cut = next(number for number, line in enumerate(lines) if b'"type":"result"' in line)
    journal.write_bytes(b"".join(lines[: cut + 1]))
    follower = RunFollower(run_path())
    standing.read_on(follower)
    assert follower.run.trials[0].state == "interrupted"
    opened = next(line for line in lines if b'"type":"open"' in line)
    with journal.open("ab") as file:
        file.write(opened)
    follower.read_new()
    assert follower.run.trials[0].state == "pending"
