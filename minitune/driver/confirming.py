"""RepeatSource: with `TuneConfig(confirm=k)`, the most promising trials are run again when the search has ended.

The best value of a noisy objective is a lucky one. A repeat has the configuration of its trial, another seed, and a
mark on record (`Trial.repeats`); `goal.confirmations` compares the means.

Which trials are promising follows from those that the search has made, so a resume adds exactly the missing repeats.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from minitune.driver.hooks import Hooks
from minitune.driver.state import RunState
from minitune.experiment.goal import CONFIRMED, Goal
from minitune.experiment.lifecycle import TERMINATED
from minitune.experiment.trial import Repeat, Trial
from minitune.experiment.trial_maker import TrialMaker
from minitune.record import records
from minitune.record.recorder import Recorder
from minitune.space.parameters import config_key
from minitune.space.tree import format_tag
from minitune.stopper.stopper import time_left_s

_LATEST = 50
"""From so many of the latest trials follows how long a trial takes. Not measured: more remember trials of other sizes.
"""
_RESERVE = 1.1
"""The time that is kept for repeats, relative to the longest of these trials: a start takes time, too. Not
measured: with less, a repeat may be cut off; with more, the search ends earlier.
"""


class RepeatSource:
    """Makes the repeats of a run.

    Args:
        total: How many trials the run has on record, repeats included; None if its search has no end.
    """

    def __init__(
        self,
        state: RunState,
        hooks: Hooks,
        recorder: Recorder,
        maker: TrialMaker,
        metric: str,
        mode: str,
        count: int,
        total: int | None,
    ):
        self._state = state
        self._hooks = hooks
        self._recorder = recorder
        self._maker = maker
        self._metric = metric
        self._mode = mode
        self._count = count
        self._total = total
        self.has_budget = time_left_s(hooks.stopper) < math.inf

    def missing(self) -> Iterator[Trial]:
        """Make the repeats that the run lacks, one round after the other, when all other trials have ended.

        Blocks for up to 0.2 s of CPU.
        """
        trials = self._state.trials
        candidates = promising(trials, self._metric, self._mode, CONFIRMED)
        known = Counter(trial.repeats.trial_id for trial in trials if trial.repeats is not None)
        for number in range(self._count):
            for trial in candidates:
                if known[trial.trial_id] <= number:
                    yield self._repeat(trial)

    def note_total(self) -> None:
        """Record how many trials the run has."""
        total = len(self._state.trials)
        if total != self._total:
            self._recorder.record(records.extend(0, total))
            self._total = total

    def _repeat(self, trial: Trial) -> Trial:
        tag = format_tag(self._maker.ids.count, {("repeats",): trial.trial_id})
        made = self._maker.make(trial.current_config, trial.evaluated_params, tag)
        made.repeats = Repeat(trial.trial_id, self._metric, self._mode)
        return made

    def is_due(self) -> bool:
        """Whether the search must end now, to leave time for the repeats.

        It is assumed that all trials take as long as the longest one of late.
        """
        if not self.has_budget:
            return False
        state = self._state
        longest_s = max((trial.progress.training_s for trial in state.trials[-_LATEST:]), default=0.0)
        if not longest_s:
            return False
        at_once = max(1, len(state.running))
        rounds = math.ceil(CONFIRMED * self._count / at_once)
        rounds += 1  # until the trial that would be drawn now has ended, too
        return time_left_s(self._hooks.stopper) < _RESERVE * rounds * longest_s


def promising(trials: Sequence[Trial], metric: str, mode: str, count: int) -> list[Trial]:
    """The trials that are worth confirming, at most `count`, with different configurations.

    First those with the best estimates (see `search.estimate`), then those with the best last values. None has failed,
    or is a repeat.
    """
    from minitune.search.estimate import estimates

    able = [trial for trial in trials if trial.status == TERMINATED and trial.repeats is None]
    by_id = {trial.trial_id: trial for trial in able}
    order = [by_id[each.trial_id] for each in estimates(able, metric, mode)]
    order += Goal(metric, mode).ranked(able)
    chosen: dict[str, Trial] = {}
    for trial in order:
        chosen.setdefault(config_key(trial.current_config), trial)
        if len(chosen) == count:
            break
    return list(chosen.values())
