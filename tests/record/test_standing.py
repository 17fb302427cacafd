"""The state of a run, as a reader of its directory finds it."""

from pathlib import Path

import pytest
from kit import counting, fit, report_n, run_path

from minitune import grid_search
from minitune.experiment.endings import Ending, EndKind
from minitune.record import standing
from minitune.record.layout import RunDirectory
from minitune.record.lock import RunLock
from minitune.record.reading import RunFollower, read_run


def test_a_run_that_ends_while_it_is_looked_at_was_not_killed(monkeypatch):
    journal = Path(fit(report_n(1)).experiment_path, "journal")
    whole = journal.read_bytes()
    journal.write_bytes(b"".join(whole.splitlines(keepends=True)[:-1]))
    looks = []

    def look(run):
        found = standing_of(run)
        looks.append(found.name)
        journal.write_bytes(whole)  # the driver ends after its records were read
        return found

    standing_of = standing.standing_of
    monkeypatch.setattr(standing, "standing_of", look)
    has_new, state = standing.read_on(RunFollower(journal.parent))
    assert (has_new, looks, state.name) == (True, ["killed", "finished"], "finished")


def test_trials_of_a_run_that_goes_on_wait_for_its_driver_again():
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


@pytest.mark.parametrize(
    ("kind", "name", "said", "can_go_on"),
    [
        (EndKind.FINISHED, "finished", "has ended", False),
        (EndKind.STOPPER, "stopped", "was stopped", False),
        (EndKind.FAIL_FAST, "stopped", "was stopped", False),
        (EndKind.INTERRUPTED, "interrupted", "was interrupted", True),
        (EndKind.ERROR, "failed", "has failed", True),
        (None, "killed", "was killed", True),
    ],
)
def test_a_run_that_has_ended_says_how_and_whether_it_can_go_on(kind, name, said, can_go_on):
    fit(report_n(1))
    run = read_run(run_path())
    run.driver.ending = None if kind is None else Ending.of(kind, "on purpose")
    run.total_samples = 3
    state = standing.standing_of(run)
    assert (state.name, state.said, state.can_go_on) == (name, said, can_go_on)
    assert ("minitune resume" in state.text) is can_go_on
    assert ("on purpose" in state.text) is (kind in (EndKind.STOPPER, EndKind.FAIL_FAST, EndKind.ERROR))
    assert list(state.counts(run).items()) == [("finished", 1), ("not started", 2)]


def test_a_run_that_goes_on_has_a_driver_and_trials_that_wait():
    fit(counting(2, bad=[1]), {"i": grid_search([0, 1])})
    run = read_run(run_path())
    run.driver.ending = None
    run.total_samples = 5
    lock = RunLock(RunDirectory(run.path).lock)
    lock.acquire()
    try:
        state = standing.standing_of(run)
    finally:
        lock.release()
    assert (state.name, state.said, state.can_go_on) == ("running", "goes on", False)
    assert list(state.counts(run).items()) == [("pending", 3), ("finished", 1), ("failed", 1)]
