"""Runs as rows: those below a directory, or some side by side.

A list of runs is read again and again by a page. So each run is read on from where it was read last time, and one that
has ended is not read again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from minitune.base import clock
from minitune.base.text import date, duration
from minitune.error import TuneError
from minitune.experiment.goal import Goal
from minitune.record.layout import RunDirectory, find_runs
from minitune.record.reading import RunFollower, read_overview
from minitune.record.standing import RUNNING_RUN, Standing, read_on, settle
from minitune.record.story import Story
from minitune.result import CONFIG, flat_row
from minitune.view.best import best_of
from minitune.view.colors import DAMAGED
from minitune.view.facts import counts_by_key
from minitune.view.rows import WHOLE, Field, Row, fact_field

_BEST_BYTES = 50_000_000
"""The best value of runs in a directory is told if their journal is not larger, which takes a second to read."""


class RunList:
    """The runs below a directory. Its methods block while runs are read."""

    def __init__(self, directory: str):
        self._directory = directory
        self._known: dict[str, tuple[tuple[int, int], Row]] = {}  # by path: the journal's state, and the row
        self._followers: dict[str, RunFollower] = {}  # by path, of the runs that go on

    def paths(self) -> dict[str, str]:
        """The runs' directories by name."""
        return {os.path.relpath(path, self._directory): path for path in find_runs(self._directory)}

    def rows(self) -> list[Row]:
        """The `run_row` of each run, the newest first. A damaged one has a name, a path and `why`, and comes last."""
        rows = [self._row(name, path) for name, path in self.paths().items()]
        return sorted(rows, key=lambda row: -row.get("begun_s", 0.0))

    def _row(self, name: str, path: str) -> Row:
        try:
            found = os.stat(RunDirectory(path).journal)
            key = found.st_size, found.st_mtime_ns
            if path in self._known and self._known[path][0] == key and self._known[path][1]["state"] != RUNNING_RUN:
                return self._known[path][1]
            row = run_row(name, *self._read(path, found.st_size))
        except (TuneError, OSError, ValueError) as error:
            self._followers.pop(path, None)
            return {"name": name, "state": DAMAGED, "why": str(error), "path": path}
        self._known[path] = key, row
        return row

    def _read(self, path: str, size_bytes: int) -> tuple[Story, Standing]:
        """A run and its state; without the results of trials if its journal is very large."""
        if size_bytes > _BEST_BYTES:
            overview = read_overview(path)
            if overview.damage is not None:
                raise overview.damage
            return overview, settle(overview)
        follower = self._followers.setdefault(path, RunFollower(path))
        _, state = read_on(follower)
        if state.name != RUNNING_RUN:
            self._followers.pop(path, None)
        return follower.run, state


def run_row(name: str, run: Story, state: Standing, goal: Goal | None = None) -> Row:
    """A run as a row: how far it is, its best trial by its own goal or by this one, and its times."""
    goal = goal or run.setup.goal
    metric, mode = goal.given
    best = best_of(run.trials, goal.metric, goal.mode) if goal.metric and goal.mode else None
    counts = counts_by_key(run, state)
    return {
        "name": name,
        "state": state.name,
        "total_trials": len(run.trials) + run.not_drawn,
        "total": run.total_samples,
        "trials": len(run.trials),
        "ended": sum(trial.is_finished() for trial in run.trials),
        **counts,
        "metric": metric,
        "mode": mode,
        "best": best and best.value,
        "best_trial": best and best.trial.number,
        **flat_row({CONFIG: best.trial.reported_config if best else {}}),
        "begun": date(run.setup.begun_s),
        "last_updated": date(run.updated_s),
        "worked_s": run.worked_s,
        "begun_s": run.setup.begun_s,
        "opened_s": run.driver.opened_s,
        "earlier_s": run.driver.earlier_s,  # how long drivers before the last one worked
        "trainable": run.setup.trainable_name,
        "path": run.path,
    }


def _progress(row: Mapping[str, Any]) -> str | None:
    return f"{row['ended']} of {row['total_trials']}" if "ended" in row else None


def _goal(row: Mapping[str, Any]) -> str | None:
    return str(Goal.of(row.get("metric"), row.get("mode"))) or None


def _took(row: Mapping[str, Any]) -> str | None:
    return duration(row["worked_s"]) if "worked_s" in row else None


def _age(row: Mapping[str, Any]) -> str | None:
    return duration(clock.current.time() - row["begun_s"]) if row.get("begun_s") else None


RUN_FIELDS = (
    fact_field("name")._replace(most=WHOLE),
    fact_field("state", 1),
    Field("ended", "progress", 2, _progress),
    Field("failed", "failed", 3, lambda row: row.get("failed") or None),
    Field("metric", "metric", 5, _goal),
    fact_field("best", 4),
    Field("worked_s", "duration", 6, _took),
    Field("begun_s", "age", 7, _age),
)
"""What a table shows of a `run_row`."""


def side_fields(rows: Sequence[Row]) -> list[Field]:
    """What is shown of runs side by side: also the best trial of each, and its parameters, but not its age."""
    params = dict.fromkeys(name for row in rows for name in row if name.startswith(f"{CONFIG}/"))
    return [*RUN_FIELDS[:-1], fact_field("best_trial", 4), *(fact_field(name, 4) for name in params)]
