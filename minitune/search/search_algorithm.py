"""SearchAlgorithm makes the trials of a run; SearchGenerator makes them from the suggestions of a searcher.

It is saved with the run, so that a resumed run continues with the same numbers and draws.
"""

from __future__ import annotations

import logging
import random
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from minitune.base.randomness import GlobalDraws
from minitune.base.saved import Saved
from minitune.experiment.trial import EarlierRun, Repeat, Trial
from minitune.experiment.trial_maker import TrialMaker
from minitune.search.filters import FilteredSearcher, Rules
from minitune.search.searcher import (
    Metric,
    Repeated,
    Searcher,
    call_set_search_properties,
    cannot_learn,
    layers_of,
)
from minitune.search.wrappers import ConcurrencyLimiter
from minitune.space.tree import (
    find_unresolved,
    format_tag,
    has_unresolved_values,
    leaves,
    overlay,
    path_text,
    topmost,
)
from minitune.space.variants import complete_config

logger = logging.getLogger("minitune")


class SearchedExperiment(Protocol):
    """The part of an experiment that a search algorithm uses."""

    param_space: dict[str, Any]
    num_samples: int
    """Rounds; -1 for a search without end."""
    maker: TrialMaker


Experiments = SearchedExperiment | Iterable[SearchedExperiment]
"""An experiment, or a list of one."""


@dataclass
class PlainExperiment:
    """The description of an experiment, for a search algorithm that is used without a run."""

    param_space: dict[str, Any]
    num_samples: int
    maker: TrialMaker


class SearchAlgorithm(Saved):
    """Base class. Most users want a `Searcher` instead.

    A run calls `set_search_properties`, `set_seed` and `add_configurations` in this order, then `next_trial` until
    `is_finished()`. A resumed run calls `set_state` after `add_configurations` with the same experiment.
    """

    _STATE: tuple[str, ...] | None = ("_finished",)  # without the experiment, which a new object gets

    draws_late = False
    """Whether it is asked only for trials that can start now, as it learns from each result, and may end at any time.
    """

    _finished = False

    # -- setting up ----------------------------------------------------------------------------------------------

    def set_search_properties(self, metric: Metric, mode: str | list[str] | None, config: Any, **spec: Any) -> bool:
        """Take over the settings of the run; see `Searcher.set_search_properties`.

        Raises:
            ValueError: If `config` has domains that the search algorithm does not search.
        """
        return True

    def set_seed(self, seed: int) -> None:
        """Seed all random choices, unless the user has done so. Called before the first trial."""

    def set_rules(self, rules: Rules) -> None:
        """Obey the user's rules for configurations, if there are any. Called before `set_search_properties`."""
        raise ValueError(
            f"on_duplicate and constraints do not work with {type(self).__name__}, which makes its trials itself; "
            "override set_rules() there, or write a Searcher"
        )

    def learn_from(self, runs: Sequence[EarlierRun]) -> None:
        """Learn from earlier runs; see `Searcher.learn_from`."""
        raise cannot_learn(self)

    def add_configurations(self, experiments: Experiments) -> None:
        """Take over the experiment whose trials will be made: itself, or a list of it."""
        raise NotImplementedError(f"{type(self).__name__} must override add_configurations()")

    @property
    def metric(self) -> Metric:
        """The name of the metric to optimise, or None."""
        return None

    @property
    def max_running(self) -> int | None:
        """How many of its trials, new or resumed, may run at a time; None for no limit."""
        return None

    @property
    def total_samples(self) -> int:
        """How many trials there will be; `sys.maxsize` for a search without end."""
        return 0

    @property
    def end_reason(self) -> str:
        """Why the search has ended before all samples; empty if it has not."""
        return ""

    # -- the loop --------------------------------------------------------------------------------------------------

    def next_trial(self) -> Trial | None:
        """Make the next trial; None if there is none now, or no more at all: see `is_finished`."""
        raise NotImplementedError(f"{type(self).__name__} must override next_trial()")

    def adopt(self, trial_id: str, config: Mapping[str, Any]) -> None:
        """Take over a trial with a given configuration; see `Searcher.adopt`. By default the next trial is dropped."""
        self.next_trial()

    def is_finished(self) -> bool:
        """Whether all trials have been made."""
        return self._finished

    def set_finished(self) -> None:
        """Make no more trials."""
        self._finished = True

    def add_samples(self, samples: int) -> None:
        """Continue for so many more rounds, even if all trials have been made; 0 if the experiment itself asks for
        more.

        Raises:
            NotImplementedError: If this search algorithm cannot.
        """
        if samples:
            raise NotImplementedError(f"{type(self).__name__} must override add_samples() for a run to be extended")
        self._finished = False

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Called for every result that does not end the trial; `result` is flattened."""

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Called when the trial has ended; see `Searcher.on_trial_complete`."""

    def on_trial_error(self, trial_id: str) -> None:
        """Called for every failure of the trial, also if the trial is retried."""

    def on_pause(self, trial_id: str) -> None:
        """Called when the trial is paused."""

    def on_unpause(self, trial_id: str) -> None:
        """Called when a paused trial is resumed."""


def only_experiment(experiments: Experiments, known: SearchedExperiment | None) -> SearchedExperiment:
    """The experiment that a search algorithm is given; `known` is one that it was given before.

    Raises:
        ValueError: If there are several, or none.
    """
    given = list(experiments) if isinstance(experiments, Iterable) else [experiments]
    if known is not None or len(given) != 1:
        raise ValueError(
            f"a search algorithm serves exactly one experiment, but got {len(given) + (known is not None)}; "
            "run the others separately, each with its own search algorithm"
        )
    return given[0]


class SearchGenerator(SearchAlgorithm):
    """Turns suggestions into trials, and tells the searcher of each suggestion's end exactly once.

    The values of a suggestion replace those of the space at all depths. The rest, such as functions, is drawn here with
    a generator that is seeded by (seed, trial number).
    """

    _STATE = ("_finished", "_count", "_seed", "_live")

    draws_late = True

    def __init__(self, searcher: Searcher):
        if not isinstance(searcher, Searcher):
            raise TypeError(f"searcher must be a Searcher, but got a {type(searcher).__name__}")
        self.searcher = searcher
        self._experiment: SearchedExperiment | None = None
        self._count = 0  # of the trials so far
        self._added = 0  # samples beyond those of the experiment, which is not this object's to change
        self._seed = random.SystemRandom().getrandbits(63)
        self._draws: GlobalDraws | None = None  # for the next suggestion
        self._live: set[str] = set()  # the ids of suggestions whose end the searcher does not know yet

    @property
    def _passes_on_to(self) -> Searcher:
        return self.searcher

    @property
    def metric(self) -> Metric:
        return self.searcher.metric

    @property
    def max_running(self) -> int | None:
        if isinstance(self.searcher, ConcurrencyLimiter):
            return self.searcher.max_concurrent
        return None

    @property
    def total_samples(self) -> int:
        if self._experiment is None:
            return 0
        if self._experiment.num_samples == -1:
            return sys.maxsize
        return self._experiment.num_samples + self._added

    @property
    def end_reason(self) -> str:
        for one in layers_of(self.searcher):
            if isinstance(one, FilteredSearcher):
                return one.end_reason
        return ""

    def set_rules(self, rules: Rules) -> None:
        """The filter goes between the innermost searcher and its wrappers."""
        *wrappers, searcher = layers_of(self.searcher)
        holder: Any = wrappers[-1] if wrappers else self
        holder.searcher = FilteredSearcher(searcher, rules)

    def set_search_properties(self, metric: Metric, mode: str | list[str] | None, config: Any, **spec: Any) -> bool:
        """See `SearchAlgorithm.set_search_properties`. Warns if the searcher keeps another metric or mode."""
        takes_space = call_set_search_properties(self.searcher.set_search_properties, metric, mode, config, spec)
        if not takes_space and has_unresolved_values(config):
            path = path_text(next(find_unresolved(config))[0])
            raise ValueError(
                f"{self._own_name()} has a search space of its own, so param_space must hold constants "
                f"only, but got a domain at {path!r}; pass the space to only one of them"
            )
        for name, given, kept in (("metric", metric, self.searcher.metric), ("mode", mode, self.searcher.mode)):
            several = [kept] if isinstance(kept, str) else kept or []  # the searcher may decide by one of them
            if given is not None and kept is not None and given not in (kept, *several):
                logger.warning("the searcher is configured already: %s=%r is ignored, it has %r", name, given, kept)
        return takes_space

    def learn_from(self, runs: Sequence[EarlierRun]) -> None:
        self.searcher.learn_from(runs)

    def set_seed(self, seed: int) -> None:
        self._seed = seed
        self.searcher.set_seed(seed)

    def add_configurations(self, experiments: Experiments) -> None:
        """See `SearchAlgorithm.add_configurations`.

        Raises:
            ValueError: If there are several, or one was given before.
        """
        experiment = only_experiment(experiments, self._experiment)
        if experiment.num_samples < -1:
            raise ValueError(f"num_samples must be -1 (endless) or >= 0, but got {experiment.num_samples}")
        self._experiment = experiment

    def next_trial(self) -> Trial | None:
        if self._experiment is None or self.is_finished():
            return None
        maker = self._experiment.maker
        trial_id = maker.next_id()
        with self._lent():
            suggestion = self.searcher.suggest(trial_id)
        if isinstance(suggestion, str) and suggestion == Searcher.FINISHED:
            self.set_finished()
            return None
        if suggestion is None:
            return None
        if not isinstance(suggestion, dict):
            raise TypeError(
                "suggest() must return a dict, None or Searcher.FINISHED, but "
                f"{self._own_name()} returned {suggestion!r}"
            )
        self._live.add(trial_id)
        try:
            merged, fixed = overlay(self._experiment.param_space, suggestion)
            # The searched values: those that were suggested, and those that are drawn here.
            paths = topmost(fixed + [path for path, _ in find_unresolved(merged)])
            config = complete_config(merged, random.Random(f"{self._seed}/{self._count}"))
            searched = leaves(config, paths)
            evaluated = {path_text(path): value for path, value in searched.items()}
            trial = maker.make(config, evaluated, format_tag(maker.count, searched))
            if isinstance(suggestion, Repeated):
                trial.set_repeats(Repeat(suggestion.trial_id))
        except BaseException:
            # The searcher must be told of the end of each suggestion, even if no trial could be made of it.
            self.on_trial_complete(trial_id, error=True)
            raise
        self._goes_on()
        return trial

    def is_finished(self) -> bool:
        return self._finished or (self._experiment is not None and self._count >= self.total_samples)

    def set_finished(self) -> None:
        super().set_finished()
        self.searcher.on_search_end()

    def add_samples(self, samples: int) -> None:
        self._added += samples
        self._finished = False

    def adopt(self, trial_id: str, config: Mapping[str, Any]) -> None:
        with self._lent():
            self.searcher.adopt(trial_id, config)
        self._live.add(trial_id)
        self._goes_on()

    @contextmanager
    def _lent(self) -> Iterator[None]:
        """In the `with` block, the global generators, from which a user's searcher may draw, are seeded by trial."""
        if self._draws is None:  # one stream for each trial, however often the searcher has no suggestion at first
            self._draws = GlobalDraws(random.Random(f"{self._seed}/suggest/{self._count}"))
        with self._draws.lent():
            yield

    def _goes_on(self) -> None:
        """The next trial is that of the next number, unless this was the last one."""
        self._count += 1
        self._draws = None
        if self.is_finished():
            self.searcher.on_search_end()

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        if trial_id in self._live:
            self.searcher.on_trial_result(trial_id, result)

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Passed on once; a second call, and one for an unknown trial, has no effect."""
        if trial_id in self._live:
            self._live.discard(trial_id)
            self.searcher.on_trial_complete(trial_id, result=result, error=error)

    def on_trial_error(self, trial_id: str) -> None:
        if trial_id in self._live:
            self.searcher.on_trial_error(trial_id)

    def on_pause(self, trial_id: str) -> None:
        if trial_id in self._live:
            self.searcher.on_pause(trial_id)

    def on_unpause(self, trial_id: str) -> None:
        if trial_id in self._live:
            self.searcher.on_unpause(trial_id)

    def get_state(self) -> dict[str, Any]:
        """The state that is saved. It has the states of wrappers, but not that of the innermost searcher."""
        wrappers = [(type(wrapper).__name__, wrapper.get_state()) for wrapper in layers_of(self.searcher)[:-1]]
        return {**super().get_state(), "wrappers": wrappers}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over what `get_state` returned.

        Raises:
            ValueError: If the searcher is wrapped in other ways than the saved one.
        """
        saved = [name for name, _ in state["wrappers"]]
        wrappers = layers_of(self.searcher)[:-1]
        own = [type(wrapper).__name__ for wrapper in wrappers]
        if saved != own:
            raise ValueError(f"the searcher must be wrapped as when it was saved: in {saved}, but got {own}")
        super().set_state(state)
        for wrapper, (_, inner) in zip(wrappers, state["wrappers"], strict=True):
            wrapper.set_state(inner)

    def _own_name(self) -> str:
        """The class of the innermost searcher, which the user knows."""
        return type(layers_of(self.searcher)[-1]).__name__
