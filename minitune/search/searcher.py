"""Searcher: proposes configurations and is told their results.

A subclass has `suggest` and, if it learns, `on_trial_complete`. All hooks run in the driver, one at a time.
"""

from __future__ import annotations

import inspect
import logging
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from minitune.base import files, snapshots
from minitune.base.checks import shown
from minitune.base.pickling import dumps_by_value
from minitune.base.saved import Saved
from minitune.base.text import warn_once
from minitune.experiment.goal import Metric as Metric
from minitune.experiment.goal import check_objectives
from minitune.experiment.trial import EarlierRun
from minitune.space.tree import has_unresolved_values

logger = logging.getLogger("minitune")

Suggestion = dict[str, Any] | str | None

_ASKS = 100
"""How often `adopt` asks a searcher that has no suggestion now: it may hesitate for some calls."""


class Searcher(Saved):
    """Base of all search algorithms that learn.

    Args:
        metric: Name of the flattened result to optimise, or a list of names for several objectives.
        mode: `"min"` or `"max"`; for several objectives a list of the same length, in which `"obs"` marks one that is
            only observed.

    Raises:
        ValueError: If `mode` is none of these, or the lengths differ.

    Examples:
        >>> class Halving(Searcher):
        ...     x = 1.0
        ...     def suggest(self, trial_id):
        ...         self.x /= 2
        ...         return {"x": self.x}
        >>> Halving(metric="loss", mode="min").suggest("trial_0")
        {'x': 0.5}
    """

    FINISHED = "FINISHED"
    """`suggest` returns this to end the search."""

    max_concurrent: int = 0
    """At most so many of its trials run at a time, or 0 for no limit."""
    _metric: Metric = None
    _mode: str | list[str] | None = None

    def __init__(self, metric: Metric = None, mode: str | list[str] | None = None):
        check_objectives(metric, mode)
        self._metric = metric
        self._mode = mode

    @property
    def metric(self) -> Metric:
        """The name of the metric to optimise, a list of names, or None while unknown."""
        return self._metric

    @property
    def mode(self) -> str | list[str] | None:
        """`"min"`, `"max"`, a list, or None while unknown."""
        return self._mode

    @property
    def own_space(self) -> dict[str, Any] | None:
        """The search space that the user gave to the searcher, if it consists of domains; None by default."""
        return None

    def first_points(self) -> Sequence[Mapping[str, Any]]:
        """The points to evaluate, which the searcher will suggest first; by default none."""
        return ()

    # -- setting up --------------------------------------------------------------------------------------------

    def set_search_properties(self, metric: Metric, mode: str | list[str] | None, config: Any, **spec: Any) -> bool:
        """Take over the settings of the run. Called once, before the first suggestion.

        Args:
            metric: The run's metric, or None.
            mode: The run's mode, or None.
            config: The search space.
            **spec: `num_samples`, `stop`, `time_budget_s` of the run; `stops_early`, whether its scheduler may end
                trials before their time.

        Returns:
            True if the searcher now searches `config`; False if it has a space of its own, and then `config` may hold
            no domains. By default the searcher takes metric and mode if it has none, and returns False.
        """
        if self._metric is None:
            self._metric = metric
        if self._mode is None:
            self._mode = mode
        return False

    def set_seed(self, seed: int) -> None:
        """Seed all random choices, unless the user has done so. Called before the first suggestion."""

    # -- the loop ------------------------------------------------------------------------------------------------

    def suggest(self, trial_id: str) -> Suggestion:
        """Propose a configuration.

        Args:
            trial_id: The other hooks use this name for the trial.

        Returns:
            Values, nested like the search space; None if there is no suggestion now; `FINISHED` to end the search.

        Raises:
            ValueError: If it lacks a space or a mode, or cannot search the space.
        """
        raise NotImplementedError(f"{type(self).__name__} must override suggest()")

    def adopt(self, trial_id: str, config: Mapping[str, Any]) -> None:
        """Take over a trial with a given, complete configuration, such as one of the run that is resumed. Its results
        follow.

        By default the searcher is asked for a suggestion, whose values are dropped, so that what it counts or draws
        goes on. Override this method to learn from the given values in any case.
        """
        from minitune.space.guesses import agrees

        for _ in range(_ASKS):
            suggestion = self.suggest(trial_id)
            if suggestion is not None:
                break
        is_known = isinstance(suggestion, dict) and (has_unresolved_values(suggestion) or agrees(suggestion, config))
        if not is_known:
            warn_once(
                f"the searcher {type(self).__name__} proposes another configuration than before for trial {trial_id}: "
                "the recorded one is used, but its results count for the proposed one (logged once); override adopt()",
                about=f"adopt {type(self).__name__}",
            )

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Called for every result that does not end the trial; `result` is flattened."""

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Called exactly once for every suggestion that became a trial, however the trial ended.

        Args:
            trial_id: The name given to `suggest`.
            result: The last result, flattened; None if the trial ended while it was waiting or paused, or failed.
            error: Whether the trial has failed for good.
        """

    def on_suggestion_refused(self, trial_id: str) -> None:
        """Called at once for a suggestion that becomes no trial: it was tried before, or violates a constraint.

        By default the searcher is told of a failed trial. Override it if the values should not count as bad.
        """
        self.on_trial_complete(trial_id, result=None, error=True)

    def on_trial_error(self, trial_id: str) -> None:
        """Called for every failure of the trial, also if the trial is retried."""

    def on_pause(self, trial_id: str) -> None:
        """Called when the trial is paused."""

    def on_unpause(self, trial_id: str) -> None:
        """Called when a paused trial is resumed."""

    def on_search_end(self) -> None:
        """Called, perhaps several times, when no more suggestions are needed. Trials may still run."""

    # -- warm start ------------------------------------------------------------------------------------------------

    def add_evaluated_point(
        self,
        parameters: dict[str, Any],
        value: float,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> None:
        """Learn from a configuration that was tried elsewhere, with its value of the metric, or its failure.

        Raises:
            NotImplementedError: If this searcher cannot.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot learn from points of other runs")

    def learn_from(self, runs: Sequence[EarlierRun]) -> None:
        """Learn from earlier runs. Called at most once, when space, metric and mode are known, before `suggest`.

        Raises:
            ValueError: If this searcher cannot, or there is nothing to learn from.
        """
        raise cannot_learn(self)

    # -- state -------------------------------------------------------------------------------------------------------

    def save(self, checkpoint_path: str) -> None:
        """Write the state to a file. Blocks."""
        files.atomic_write(checkpoint_path, dumps_by_value(self.get_state()))

    def restore(self, checkpoint_path: str) -> None:
        """Read the state from a file that `save` has written. Blocks. It is unpickled: read only what you trust."""
        with open(checkpoint_path, "rb") as file:
            self.set_state(pickle.load(file))

    def restore_from_dir(self, checkpoint_dir: str) -> None:
        """Read the newest state of a searcher of this class from a run's directory. Blocks. It is unpickled, too.

        Raises:
            RuntimeError: If there is none.
        """
        name, state = snapshots.newest_states(checkpoint_dir).get(snapshots.SEARCHER, ("", b""))
        if type(self).__qualname__ not in name.split("/"):
            raise RuntimeError(f"no state of a {type(self).__name__} lies in {checkpoint_dir}")
        _, found = pickle.loads(state)
        self.set_state(found)


class SearcherWrapper(Searcher):
    """A searcher around another one. It passes everything on; subclasses change some of it."""

    def __init__(self, searcher: Searcher):
        if not isinstance(searcher, Searcher):
            raise TypeError(
                f"searcher must be a Searcher, but got {shown(searcher)}; the default search algorithm "
                "has its own max_concurrent"
            )
        self.searcher = searcher

    @property
    def _passes_on_to(self) -> Searcher:  # for `base.plugin_calls`, which names the user's own plug-in
        return self.searcher

    @property
    def metric(self) -> Metric:
        return self.searcher.metric

    @property
    def mode(self) -> str | list[str] | None:
        return self.searcher.mode

    def set_search_properties(self, metric: Metric, mode: str | list[str] | None, config: Any, **spec: Any) -> bool:
        return call_set_search_properties(self.searcher.set_search_properties, metric, mode, config, spec)

    def set_seed(self, seed: int) -> None:
        self.searcher.set_seed(seed)

    def suggest(self, trial_id: str) -> Suggestion:
        return self.searcher.suggest(trial_id)

    def adopt(self, trial_id: str, config: Mapping[str, Any]) -> None:
        self.searcher.adopt(trial_id, config)

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        self.searcher.on_trial_result(trial_id, result)

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        self.searcher.on_trial_complete(trial_id, result=result, error=error)

    def on_trial_error(self, trial_id: str) -> None:
        self.searcher.on_trial_error(trial_id)

    def on_pause(self, trial_id: str) -> None:
        self.searcher.on_pause(trial_id)

    def on_unpause(self, trial_id: str) -> None:
        self.searcher.on_unpause(trial_id)

    def on_search_end(self) -> None:
        self.searcher.on_search_end()

    def add_evaluated_point(
        self,
        parameters: dict[str, Any],
        value: float,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> None:
        self.searcher.add_evaluated_point(parameters, value, error, pruned, intermediate_values)

    def learn_from(self, runs: Sequence[EarlierRun]) -> None:
        self.searcher.learn_from(runs)

    def get_state(self) -> dict[str, Any]:
        """The wrapper's own state; the inner searcher has its own."""
        return {name: value for name, value in super().get_state().items() if name != "searcher"}

    def save(self, checkpoint_path: str) -> None:
        """Write the inner searcher's state, to be restored with and without the wrapper."""
        self.searcher.save(checkpoint_path)

    def restore(self, checkpoint_path: str) -> None:
        self.searcher.restore(checkpoint_path)

    def restore_from_dir(self, checkpoint_dir: str) -> None:
        self.searcher.restore_from_dir(checkpoint_dir)


def layers_of(searcher: Searcher) -> list[Searcher]:
    """A searcher and those inside it, from the outside in. The last one is the user's own, the others are wrappers."""
    found = [searcher]
    while isinstance(found[-1], SearcherWrapper):
        found.append(found[-1].searcher)
    return found


class TriedConfig(dict[str, Any]):
    """Marks the configuration of an earlier trial: searchers leave out what the space lacks, such as old constants."""


class Repeated(dict[str, Any]):
    """A suggestion that is the configuration of an earlier trial, to learn how much its value changes.

    Attributes:
        trial_id: The id of that trial.
    """

    def __init__(self, config: Mapping[str, Any], trial_id: str):
        super().__init__(config)
        self.trial_id = trial_id


def repeated_by(suggestion: Any) -> str:
    """The id of the trial that a suggestion repeats; empty if it repeats none."""
    return suggestion.trial_id if isinstance(suggestion, Repeated) else ""


# -- shared with the search algorithms --------------------------------------------------------------------------


def checked_points(points: Any) -> list[Mapping[str, Any]]:
    """`points_to_evaluate` as a list of dicts."""
    if points is None:
        return []
    found: list[Any] = [None]
    if isinstance(points, Iterable) and not isinstance(points, (Mapping, str)):
        found = list(points)
    if not all(isinstance(point, Mapping) for point in found):
        raise TypeError(f"points_to_evaluate must be a list of dicts, but got {shown(points)}")
    return found


def require_mode(searcher: Searcher) -> None:
    """Refuse to search without a mode."""
    if searcher.mode is None:
        raise ValueError(
            f"{type(searcher).__name__} needs a metric and a mode, but got metric={searcher.metric!r}, mode=None: give "
            "them to it or to TuneConfig; a Study needs only the mode"
        )


def cannot_learn(searcher: object) -> ValueError:
    """The error of a searcher that cannot learn from earlier runs."""
    return ValueError(
        f"{type(searcher).__name__} cannot learn from earlier runs: use the searcher 'auto', 'tpe' or 'bohb', or leave "
        "out warm_start"
    )


def no_space(searcher: Searcher) -> ValueError:
    """The error of a searcher that is asked before it has a search space."""
    return ValueError(
        f"{type(searcher).__name__} has no search space: give it as space=..., or to Tuner(param_space=...)"
    )


def call_set_search_properties(
    hook: Callable[..., bool], metric: Metric, mode: str | list[str] | None, config: Any, spec: dict[str, Any]
) -> bool:
    """Call `set_search_properties`, which in older subclasses has no `**spec`."""
    parameters = inspect.signature(hook).parameters.values()
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    return bool(hook(metric, mode, config, **(spec if takes_all else {})))
