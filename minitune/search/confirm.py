"""Confirm: with `TuneConfig(confirm=k)`, the most promising trials are run again when the search has ended.

The best value of a noisy objective is a lucky one. A repeat has the configuration of its trial, another seed, and a
mark on record (`Trial.repeats`); `goal.confirmations` compares the means. It ends where its trial has ended.

Which repeats are missing follows from the trials of the run, so there is no state: a resume adds exactly these. With a
time budget the search has nine tenths of it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from minitune.experiment.goal import Goal
from minitune.experiment.lifecycle import TERMINATED
from minitune.experiment.trial import Repeat, Trial
from minitune.experiment.trial_maker import TrialMaker
from minitune.result import TRAINING_ITERATION
from minitune.search.search_algorithm import SearchAlgorithm
from minitune.space.parameters import config_key
from minitune.space.tree import format_tag

CONFIRMED = 3
"""How many trials a run repeats: `benchmarks/FINDINGS.md`, *Confirm*."""
_RESERVE = 0.1
"""The share of a time budget that is left to the repeats. Not measured: with less, more of them are cut off; with more,
the search ends earlier.
"""


class Confirm:
    """Stands around a search algorithm: when that and all of its trials have ended, it proposes the repeats.

    Everything else is passed on, and the search algorithm does not know the repeats.

    Args:
        count: How many repeats each of the chosen trials gets.
        maker: The maker of the run's trials.
        time_left: Returns the share of the time budget that is left, from 1 to 0.
        trials: Returns the trials of the run.
        cuts: Whether a scheduler may stop trials early: a repeat has no scheduler, so it gets the number of iterations
            that its trial had.
    """

    draws_late = True  # the search must be able to end in time

    def __init__(
        self,
        search_alg: SearchAlgorithm,
        count: int,
        metric: str,
        mode: str,
        maker: TrialMaker,
        time_left: Callable[[], float],
        trials: Callable[[], Sequence[Trial]],
        *,
        cuts: bool,
    ):
        self.__wrapped__ = search_alg
        self._count = count
        self._metric = metric
        self._mode = mode
        self._maker = maker
        self._time_left = time_left
        self._trials = trials
        self._cuts = cuts
        self._chosen: list[Trial] | None = None  # the trials to repeat, once the search is over

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__wrapped__, name)

    @property
    def next_trial(self) -> Callable[[], Trial | None]:
        """See `SearchAlgorithm.next_trial`. That of the search itself until it is over, since errors name its class."""
        if self._time_left() <= _RESERVE and not self.__wrapped__.is_finished():
            self.__wrapped__.set_finished()
        return self._next_repeat if self._is_over() else self.__wrapped__.next_trial

    def is_finished(self) -> bool:
        """See `SearchAlgorithm.is_finished`: also while the last trials of the search run, as no other comes then."""
        return self.__wrapped__.is_finished() and not (self._is_over() and any(self._missing()))

    @property
    def total_samples(self) -> int:
        """See `SearchAlgorithm.total_samples`. Before the search is over, so many repeats as there may be."""
        if self._is_over():
            return len(self._trials()) + sum(1 for _ in self._missing())
        total = self.__wrapped__.total_samples
        return total if total == sys.maxsize else total + self._count * min(CONFIRMED, total)

    def add_samples(self, samples: int) -> None:
        """See `SearchAlgorithm.add_samples`. Other trials may be promising then."""
        self._chosen = None
        self.__wrapped__.add_samples(samples)

    def _is_over(self) -> bool:
        """Whether the search and all of its trials have ended."""
        if not self.__wrapped__.is_finished():
            return False
        return all(trial.is_finished() for trial in self._trials() if _confirmed(trial) is None)

    def _missing(self) -> Iterator[Trial]:
        """The trials to repeat, in rounds, once for each repeat that the run lacks. Blocks for up to 0.2 s of CPU."""
        trials = self._trials()
        if self._chosen is None:
            self._chosen = promising(trials, self._metric, self._mode, CONFIRMED)
        known = Counter(map(_confirmed, trials))
        for number in range(self._count):
            for trial in self._chosen:
                if known[trial.trial_id] <= number:
                    yield trial

    def _next_repeat(self) -> Trial | None:
        trial = next(self._missing(), None)
        if trial is None:
            return None
        tag = format_tag(self._maker.count, {("repeats",): trial.trial_id})
        made = self._maker.make(trial.current_config, trial.evaluated_params, tag)
        iterations = trial.progress.metrics.get(TRAINING_ITERATION)
        if not (self._cuts and isinstance(iterations, int)):  # a user may report any value under this name
            iterations = None
        made.set_repeats(Repeat(trial.trial_id, self._metric, self._mode, iterations))
        return made


def _confirmed(trial: Trial) -> str | None:
    """The id of the trial that it confirms; None if it is a trial of the search."""
    repeats = trial.repeats
    return None if repeats is None or repeats.is_suggested else repeats.trial_id


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
