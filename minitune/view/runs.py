"""Runs as rows: those below a directory, or some side by side.

A list of runs is read again and again by a page. So a run that has ended is not read again before it changes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from minitune.base import clock
from minitune.base.text import date, duration
from minitune.error import TuneError
from minitune.experiment.goal import Goal
from minitune.record.layout import find_runs
from minitune.record.reading import journal_version
from minitune.record.standing import RUNNING_RUN, Standing, read_standing
from minitune.record.story import Story
from minitune.result import CONFIG, flat_row
from minitune.view.best import best_of
from minitune.view.colors import DAMAGED
from minitune.view.facts import counts_by_key
from minitune.view.rows import WHOLE, Field, Row, fact_field


class RunList:
    """The runs below a directory. Its methods block while runs are read."""

    def __init__(self, directory: str):
        self._directory = directory
        self._known: dict[str, tuple[object, Row]] = {}  # by path: the journal's version, and the row

    def paths(self) -> dict[str, str]:
        """The runs' directories by name."""
        return {os.path.relpath(path, self._directory): path for path in find_runs(self._directory)}

    def rows(self) -> list[Row]:
        """The `run_row` of each run, the newest first. A damaged one has a name, a path and `why`, and comes last."""
        rows = [self._row(name, path) for name, path in self.paths().items()]
        return sorted(rows, key=lambda row: -row.get("begun_s", 0.0))

    def _row(self, name: str, path: str) -> Row:
        try:
            version = journal_version(path)
            known = self._known.get(path)
            if known is None or known[0] != version or known[1]["state"] == RUNNING_RUN:
                known = self._known[path] = version, run_row(name, *read_standing(path))
            return known[1]
        except (TuneError, OSError, ValueError) as error:
            return {"name": name, "state": DAMAGED, "why": str(error), "path": path}


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


def goal_of_row(row: Mapping[str, Any]) -> str | None:
    """What the run optimises, as text."""
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
    Field("metric", "metric", 5, goal_of_row),
    fact_field("best", 4),
    Field("worked_s", "duration", 6, _took),
    Field("begun_s", "age", 7, _age),
)
"""What a table shows of a `run_row`."""


def side_fields(rows: Sequence[Row]) -> list[Field]:
    """What is shown of runs side by side: also the best trial of each, and its parameters, but not its age."""
    params = dict.fromkeys(name for row in rows for name in row if name.startswith(f"{CONFIG}/"))
    return [*RUN_FIELDS[:-1], fact_field("best_trial", 4), *(fact_field(name, 4) for name in params)]
