"""PastRun: the learning curves of a past run, from its journal, for simulations."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from minitune.base.numbers import known_number
from minitune.decision import STOP
from minitune.error import TuneError
from minitune.experiment.endings import EndKind
from minitune.experiment.lifecycle import Transition
from minitune.record import journal, records
from minitune.record.layout import RunDirectory, no_run, run_path
from minitune.record.story import Effect, Story
from minitune.result import AUTO_RESULT_KEYS, TIME_THIS_ITER_S, TRAINING_ITERATION

# The keys of a result that depend on the run and are not a part of the learning curve.
_RUN_KEYS = frozenset(AUTO_RESULT_KEYS) - {TRAINING_ITERATION, "timesteps_total", "episodes_total"}

# The endings of trials whose learning curve is whole. A scheduler's `max_t` cuts it: another scheduler may differ.
_WHOLE = frozenset((EndKind.RETURNED, EndKind.DONE, EndKind.CRITERION))

Curve = list[tuple[dict[str, Any], float]]
"""(metrics, seconds) for each result."""


@dataclass
class PastRun:
    """The learning curves of a past run. `simulate` accepts it as a curve.

    Attributes:
        curves: By trial id in order of submission, (metrics, seconds) for each result. Those that a rollback has
            undone, and all after an exploit, are left out.
        cut: The ids of trials that ended before the end of the trainable, a stop criterion, or the length of the
            longest curve.
        num_workers: The largest number of trials that ran at the same time.
    """

    path: str
    curves: dict[str, Curve] = field(default_factory=dict)
    configs: dict[str, dict[str, Any]] = field(default_factory=dict)
    cut: frozenset[str] = frozenset()
    metric: str | None = None
    mode: str | None = None
    took_s: float = 0.0
    num_workers: int = 1

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> PastRun:
        """Read the run in a directory. Blocks. A driver may be running. Unpickles nothing.

        Raises:
            FileNotFoundError: If the directory holds no run.
            TuneError: If the run has no results, or its journal cannot be read.
        """
        directory = run_path(path)
        run = RunDirectory(directory)
        file = run.journal
        if not os.path.isfile(file):
            raise FileNotFoundError(no_run(directory))
        past = cls(directory)
        story = Story(directory, has_details=False)
        past._fill(story.follow(journal.read(file)))
        if not story.trials and run.has_trials():
            raise run.lost_journal()
        if not past.curves:
            raise TuneError(f"the run in {directory} has no results yet")
        past.metric = story.setup.goal.metric
        past.mode = story.setup.goal.mode
        past.took_s = story.worked_s
        return past

    def _fill(self, effects: Iterable[Effect]) -> None:
        curves = self.curves
        ended: set[str] = set()  # ids of trials with a whole curve
        exploited: set[str] = set()
        running: set[str] = set()
        for effect in effects:
            kind = effect.kind
            trial = effect.trial
            # The workers of the driver before have ended with it.
            if kind == records.OPEN:
                running.clear()
            if trial is None:
                continue
            trial_id = trial.trial_id
            if effect.transition is Transition.TRAIN:
                running.add(trial_id)
                self.num_workers = max(self.num_workers, len(running))
            elif effect.transition is not None:
                running.discard(trial_id)
            # From here on its curve belongs to two configurations.
            if trial_id in exploited:
                continue
            if kind == records.TRIAL:
                if effect.replaced is not None:
                    curves.pop(effect.replaced.trial_id, None)
                curves[trial_id] = []
                self.configs[trial_id] = trial.current_config
            elif kind == records.RESULT:
                record = effect.record
                metrics = effect.record["metrics"]
                seconds = known_number(metrics.get(TIME_THIS_ITER_S)) or 0.0
                kept = {key: value for key, value in metrics.items() if key not in _RUN_KEYS}
                curves[trial_id].append((kept, max(0.0, float(seconds))))
                if records.ENDING in record or record["decision"] == STOP:
                    has_whole_curve = records.ending_of(record).kind in _WHOLE
                    if has_whole_curve:
                        ended.add(trial_id)
            elif kind == records.ROLLBACK:
                del curves[trial_id][effect.record["number"] :]
                ended.discard(trial_id)
            elif kind == records.EXPLOIT:
                exploited.add(trial_id)
            elif effect.transition is Transition.STOP and effect.ending is not None and effect.ending.kind in _WHOLE:
                ended.add(trial_id)
            elif effect.transition is Transition.FAIL:
                ended.discard(trial_id)
        self.curves = {trial_id: curve for trial_id, curve in curves.items() if curve}
        longest = max(map(len, self.curves.values()), default=0)
        self.cut = frozenset(
            trial_id
            for trial_id, curve in self.curves.items()
            if trial_id in exploited or (trial_id not in ended and len(curve) < longest)
        )

    @property
    def num_results(self) -> int:
        """The number of results of all curves together."""
        return sum(map(len, self.curves.values()))

    @property
    def training_s(self) -> float:
        """The training time of all curves together, in seconds."""
        return sum(seconds for curve in self.curves.values() for _, seconds in curve)
