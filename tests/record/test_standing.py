"""The state of a run, as a reader of its directory finds it."""

from __future__ import annotations

from pathlib import Path

import pytest
from kit import fit, report_n

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
