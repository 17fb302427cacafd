"""SearchGenerator: trials from what a searcher suggests."""

from __future__ import annotations

import logging
import random
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from minitune._global_draws import GlobalDraws
from minitune.experiment.tags import Path, format_tag
from minitune.experiment.trial import Trial
from minitune.search.concurrency_limiter import ConcurrencyLimiter
from minitune.search.filtered_searcher import FilteredSearcher
from minitune.search.filters import Rules
from minitune.search.search_algorithm import ExperimentSpec, SearchAlgorithm, experiment_list
from minitune.search.searcher import Metric, Searcher, SearcherWrapper, call_set_search_properties
from minitune.search.space_tree import find_unresolved, has_unresolved_values, leaves, overlay, path_text, topmost
from minitune.search.variant_generator import complete

__all__ = ["SearchAlgorithm", "SearchGenerator"]

logger = logging.getLogger("minitune")


class SearchGenerator(SearchAlgorithm):
    """Turns suggestions into trials, and tells the searcher of each suggestion's end exactly once.

    A suggestion is laid deeply over the search space. What it leaves open is resolved here: functions, and domains
    that the searcher knows nothing of, with a generator seeded by (seed, trial number).

    Args:
        searcher: The searcher.

    Raises:
        TypeError: If it is none.
    """

    CKPT_FILE_TMPL = "search_gen_state-{}.pkl"

    def __init__(self, searcher: Searcher):
        if not isinstance(searcher, Searcher):
            raise TypeError(f"searcher must be a Searcher, but got a {type(searcher).__name__}")
        self.searcher = searcher
        self._experiment: ExperimentSpec | None = None
        self._count = 0
        self._seed = random.SystemRandom().getrandbits(63)
        self._draws: GlobalDraws | None = None
        self._live: set[str] = set()

    @property
    def metric(self) -> Metric:
        """See `SearchAlgorithm.metric`."""
        return self.searcher.metric

    @property
    def max_running(self) -> int | None:
        """See `SearchAlgorithm.max_running`."""
        return self.searcher.max_concurrent if isinstance(self.searcher, ConcurrencyLimiter) else None

    @property
    def total_samples(self) -> int:
        """See `SearchAlgorithm.total_samples`."""
        if self._experiment is None:
            return 0
        return sys.maxsize if self._experiment.num_samples == -1 else self._experiment.num_samples

    @property
    def end_reason(self) -> str:
        """See `SearchAlgorithm.end_reason`."""
        return next((one.end_reason for one in self._wrappers() if isinstance(one, FilteredSearcher)), "")

    def set_rules(self, rules: Rules) -> None:
        """See `SearchAlgorithm.set_rules`. The searcher itself is asked again, below what is wrapped around it."""
        holder: SearchGenerator | SearcherWrapper = self
        while isinstance(holder.searcher, SearcherWrapper):
            holder = holder.searcher
        holder.searcher = FilteredSearcher(holder.searcher, rules)

    def set_search_properties(self, metric: Metric, mode: str | list[str] | None, config: Any, **spec: Any) -> bool:
        """See `SearchAlgorithm.set_search_properties`. Warns if the searcher keeps another metric or mode."""
        takes_space = call_set_search_properties(self.searcher.set_search_properties, metric, mode, config, spec)
        if not takes_space and has_unresolved_values(config):
            path = path_text(next(find_unresolved(config))[0])
            raise ValueError(
                f"{self._own_name()} has a search space of its own, so param_space must hold constants "
                f"only, but got a domain at {path!r}; give the space to one of the two"
            )
        for name, given, kept in (("metric", metric, self.searcher.metric), ("mode", mode, self.searcher.mode)):
            several = list(kept) if isinstance(kept, (list, tuple)) else [kept]
            if isinstance(given, (list, tuple)):
                is_same = list(given) == several
            else:
                is_same = given in several  # one of several objectives is no other one
            if given is not None and kept is not None and not is_same:
                logger.warning("the searcher is configured already: %s=%r is ignored, it has %r", name, given, kept)
        return takes_space

    def set_seed(self, seed: int) -> None:
        """See `SearchAlgorithm.set_seed`."""
        self._seed = seed
        self.searcher.set_seed(seed)

    def add_configurations(
        self, experiments: ExperimentSpec | Iterable[ExperimentSpec] | Mapping[str, Mapping[str, Any]]
    ) -> None:
        """Take the experiment; a searcher serves one.

        Raises:
            ValueError: If there are several, or one was given before.
        """
        given = experiment_list(experiments)
        if self._experiment is not None or len(given) != 1:
            raise ValueError(
                f"a searcher serves exactly one experiment, but got {len(given) + (self._experiment is not None)}; "
                "run the others on their own, each with its searcher"
            )
        if given[0].num_samples < -1:
            raise ValueError(f"num_samples must be -1 (endless) or >= 0, but got {given[0].num_samples}")
        self._experiment = given[0]

    def next_trial(self) -> Trial | None:
        """See `SearchAlgorithm.next_trial`."""
        if self._experiment is None or self.is_finished():
            return None
        maker = self._experiment.maker
        trial_id = maker.next_id()
        if self._draws is None:  # one stream for each trial, however often the searcher has none to give at first
            self._draws = GlobalDraws(random.Random(f"{self._seed}/suggest/{self._count}"))
        with self._draws.lent():
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
            config, searched = self._configure(suggestion)
            evaluated = {path_text(path): value for path, value in searched.items()}
            trial = maker.make(config, evaluated, format_tag(maker.count, searched))
        except BaseException:
            # The searcher counts on hearing what became of its suggestion, also of one that makes no trial.
            self.on_trial_complete(trial_id, error=True)
            raise
        self._count += 1
        self._draws = None
        if self.is_finished():
            self.searcher.on_search_end()
        return trial

    def is_finished(self) -> bool:
        """See `SearchAlgorithm.is_finished`."""
        return self._finished or (self._experiment is not None and self._count >= self.total_samples)

    def set_finished(self) -> None:
        """See `SearchAlgorithm.set_finished`."""
        super().set_finished()
        self.searcher.on_search_end()

    def add_samples(self, samples: int) -> None:
        """See `SearchAlgorithm.add_samples`."""
        if self._experiment is not None and self._experiment.num_samples != -1:
            self._experiment.num_samples += samples
        self._finished = False

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Passed on while the trial is live."""
        if trial_id in self._live:
            self.searcher.on_trial_result(trial_id, result)

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Passed on once: the second time, and for trials of others, nothing happens."""
        if trial_id in self._live:
            self._live.discard(trial_id)
            self.searcher.on_trial_complete(trial_id, result=result, error=error)

    def on_trial_error(self, trial_id: str) -> None:
        """Passed on while the trial is live."""
        if trial_id in self._live:
            self.searcher.on_trial_error(trial_id)

    def on_pause(self, trial_id: str) -> None:
        """Passed on while the trial is live."""
        if trial_id in self._live:
            self.searcher.on_pause(trial_id)

    def on_unpause(self, trial_id: str) -> None:
        """Passed on while the trial is live."""
        if trial_id in self._live:
            self.searcher.on_unpause(trial_id)

    def get_state(self) -> dict[str, Any]:
        """See `SearchAlgorithm.get_state`. The states of wrappers are in it, that of the innermost searcher is not."""
        return {
            "finished": self._finished,
            "count": self._count,
            "seed": self._seed,
            "live": sorted(self._live),
            "wrappers": [(type(wrapper).__name__, wrapper.get_state()) for wrapper in self._wrappers()],
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """See `SearchAlgorithm.set_state`.

        Raises:
            ValueError: If the searcher is wrapped in other ways than the saved one.
        """
        saved, own = [name for name, _ in state["wrappers"]], [type(wrapper).__name__ for wrapper in self._wrappers()]
        if saved != own:
            raise ValueError(f"the searcher must be wrapped as when it was saved: in {saved}, but got {own}")
        super().set_state(state)
        self._count, self._seed, self._live = state["count"], state["seed"], set(state["live"])
        for wrapper, (_, inner) in zip(self._wrappers(), state["wrappers"], strict=True):
            wrapper.set_state(inner)

    def save_to_dir(self, dirpath: str, session_str: str = "default") -> None:
        """Write this state and, to a file of its own, the searcher's. Blocks."""
        self.searcher.save_to_dir(dirpath, session_str)
        super().save_to_dir(dirpath, session_str)

    def restore_from_dir(self, dirpath: str) -> None:
        """Read both states. Blocks.

        Raises:
            RuntimeError: If one is missing.
        """
        super().restore_from_dir(dirpath)
        self.searcher.restore_from_dir(dirpath)

    def _wrappers(self) -> Iterator[SearcherWrapper]:
        searcher = self.searcher
        while isinstance(searcher, SearcherWrapper):
            yield searcher
            searcher = searcher.searcher

    def _own_name(self) -> str:
        """The class that the user knows, whatever is wrapped around it."""
        searcher = self.searcher
        for wrapper in self._wrappers():
            searcher = wrapper.searcher
        return type(searcher).__name__

    def _configure(self, suggestion: dict[str, Any]) -> tuple[dict[str, Any], dict[Path, Any]]:
        """The whole configuration, and the searched parameters in it."""
        space = self._experiment.param_space if self._experiment is not None else {}
        merged, fixed = overlay(space, suggestion)
        searched = topmost(fixed + [path for path, _ in find_unresolved(merged)])
        config = complete(merged, random.Random(f"{self._seed}/{self._count}"))
        return config, leaves(config, searched)
