"""The learning curves of a past run, from its journal, for simulations."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from minitune.base.numbers import known_number
from minitune.error import TuneError
from minitune.record import journal, records
from minitune.record.layout import RunDirectory, no_run, run_path
from minitune.record.story import Effect, Story
from minitune.result import AUTO_RESULT_KEYS, TIME_THIS_ITER_S, TRAINING_ITERATION

# The keys of a result that depend on the run and are not a part of the learning curve.
_RUN_KEYS = frozenset(AUTO_RESULT_KEYS) - {TRAINING_ITERATION, "timesteps_total"}

Curve = list[tuple[dict[str, Any], float]]
"""(metrics, seconds) for each result."""


def read_curves(path: str | os.PathLike[str]) -> dict[str, Curve]:
    """Read the curve of each trial of a run that has results, by its id, in order of submission.

    Results that a rollback has undone, and all after an exploit, are left out. Blocks. A driver may be running.
    Unpickles nothing.

    Raises:
        FileNotFoundError: If the directory holds no run.
        TuneError: If the run has no results, or its journal cannot be read.
    """
    directory = run_path(path)
    run = RunDirectory(directory)
    if not os.path.isfile(run.journal):
        raise FileNotFoundError(no_run(directory))
    story = Story(directory, has_details=False)
    curves = _curves_of(story.follow(journal.read(run.journal)))
    if not story.trials and run.has_trials():
        raise run.lost_journal()
    if not curves:
        raise TuneError(f"the run in {directory} has no results yet")
    return curves


def _curves_of(effects: Iterable[Effect]) -> dict[str, Curve]:
    curves: dict[str, Curve] = {}
    mixed: set[str] = set()
    for effect in effects:
        trial = effect.trial
        # After an exploit, a curve belongs to two configurations.
        if trial is None or trial.trial_id in mixed:
            continue
        trial_id = trial.trial_id
        if effect.kind == records.TRIAL:
            if effect.replaced is not None:
                curves.pop(effect.replaced.trial_id, None)
            curves[trial_id] = []
        elif effect.kind == records.RESULT:
            metrics = effect.record["metrics"]
            seconds = known_number(metrics.get(TIME_THIS_ITER_S)) or 0.0
            kept = {key: value for key, value in metrics.items() if key not in _RUN_KEYS}
            curves[trial_id].append((kept, max(0.0, float(seconds))))
        elif effect.kind == records.ROLLBACK:
            del curves[trial_id][effect.record["number"] :]
        elif effect.kind == records.EXPLOIT:
            mixed.add(trial_id)
    return {trial_id: curve for trial_id, curve in curves.items() if curve}
