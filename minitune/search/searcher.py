"""Searcher: proposes configurations and is told their results.

A subclass has `suggest` and, if it learns, `on_trial_complete`. All hooks run in the driver, one at a time.
"""

from __future__ import annotations

import inspect
import logging
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

from minitune.base import files, snapshots
from minitune.base.checks import shown
from minitune.base.pickling import dumps_by_value
from minitune.base.text import warn_once
from minitune.experiment.goal import Metric as Metric
from minitune.experiment.goal import check_objectives
from minitune.experiment.lifecycle import ERROR
from minitune.experiment.trial import EarlierRun, Trial
from minitune.result import DONE, flatten
from minitune.space.tree import has_unresolved_values

logger = logging.getLogger("minitune")

Suggestion = dict[str, Any] | str | None

_ASKS = 100
"""How often `adopt` asks a searcher that has no suggestion now: it may hesitate for some calls."""


class Searcher:
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
    CKPT_FILE_TMPL = "searcher-state-{}.pkl"

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

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        """Take over a limit of concurrent trials, and return whether the searcher keeps it; by default False."""
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

    def add_evaluated_trials(self, trials_or_analysis: Any, metric: str) -> None:
        """Learn from earlier trials: one, a list, or an object with `trials`, such as an analysis. `metric` is the
        flattened name of the objective's value.

        Raises:
            NotImplementedError: If this searcher cannot, in general or from these values.
        """
        if type(self).add_evaluated_point is Searcher.add_evaluated_point:
            self.add_evaluated_point({}, 0.0)  # says that it cannot
        trials = getattr(trials_or_analysis, "trials", trials_or_analysis)
        if isinstance(trials_or_analysis, Trial):
            trials = [trials_or_analysis]
        if not isinstance(trials, Iterable) or isinstance(trials, (str, bytes, dict)):
            raise TypeError(f"trials or an analysis must be given, but got a {type(trials_or_analysis).__name__}")
        count = 0
        for trial in trials:
            result = flatten(trial.last_result)
            if metric in result:
                count += 1
                has_failed = trial.status == ERROR
                pruned = not has_failed and not result.get(DONE, False)
                self.add_evaluated_point(
                    TriedConfig(trial.current_config), result[metric], error=has_failed, pruned=pruned
                )
        if not count:
            logger.warning("no trial has reported %r: the searcher has learned nothing from earlier trials", metric)

    def learn_from(self, runs: Sequence[EarlierRun]) -> None:
        """Learn from earlier runs. Called at most once, when space, metric and mode are known, before `suggest`.

        Raises:
            ValueError: If this searcher cannot, or there is nothing to learn from.
        """
        raise cannot_learn(self)

    # -- state -------------------------------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """The state that is saved; by default all attributes."""
        return dict(self.__dict__)

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over what `get_state` returned."""
        self.__dict__.update(state)

    def save(self, checkpoint_path: str) -> None:
        """Write the state to a file. Blocks."""
        files.atomic_write(checkpoint_path, dumps_by_value(self.get_state()))

    def restore(self, checkpoint_path: str) -> None:
        """Read the state from a file that `save` has written. Blocks. It is unpickled: read only what you trust."""
        with open(checkpoint_path, "rb") as file:
            self.set_state(pickle.load(file))

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        """Write the state to a directory. A crash leaves the old state or the new one. Blocks.

        A searcher whose `save` raises NotImplementedError is left out, with a warning.
        """
        try:
            with in_one_step(os.path.join(checkpoint_dir, self.CKPT_FILE_TMPL.format(session_str))) as temporary:
                self.save(temporary)
        except NotImplementedError:
            logger.warning("%s cannot be saved: it does not implement save()", type(self).__name__)

    def restore_from_dir(self, checkpoint_dir: str) -> None:
        """Read the newest state from a directory: that of a run, or one for `save_to_dir`. Blocks.

        Raises:
            RuntimeError: If there is none.
        """
        with newest_state(checkpoint_dir, self.CKPT_FILE_TMPL, type(self)) as path:
            self.restore(path)


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

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        return self.searcher.set_max_concurrency(max_concurrent)

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
        return deepcopy({name: value for name, value in self.__dict__.items() if name != "searcher"})

    def save(self, checkpoint_path: str) -> None:
        """Write the inner searcher's state, to be restored with and without the wrapper."""
        self.searcher.save(checkpoint_path)

    def restore(self, checkpoint_path: str) -> None:
        self.searcher.restore(checkpoint_path)

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        self.searcher.save_to_dir(checkpoint_dir, session_str)

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


# -- shared with the search algorithms --------------------------------------------------------------------------


def checked_points(points: Any) -> list[Mapping[str, Any]]:
    """`points_to_evaluate` as a list of dicts."""
    given = points
    if points is None:
        given = []
    is_list = isinstance(given, Iterable) and not isinstance(given, (Mapping, str))
    given = list(given) if is_list else []
    if not is_list or not all(isinstance(point, Mapping) for point in given):
        raise TypeError(f"points_to_evaluate must be a list of dicts, but got {shown(points)}")
    return given


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
    if takes_all:
        known = spec
    else:
        known = {name: value for name, value in spec.items() if name in {p.name for p in parameters}}
    return bool(hook(metric, mode, config, **known))


@contextmanager
def in_one_step(path: str) -> Iterator[str]:
    """The `with` block writes the file to the path that it gets; it appears complete or not at all."""
    temporary = os.path.join(os.path.dirname(path), files.temporary_name())
    try:
        yield temporary
        if os.path.exists(temporary):
            os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def newest_file(directory: str, template: str) -> str | None:
    """The newest file whose name matches `template` with any session; None if there is none."""
    paths = [os.path.join(directory, name) for name in _matching(files.names(directory), template)]
    return max(paths, key=lambda path: (os.stat(path).st_mtime_ns, path), default=None)


def _matching(names: Iterable[str], template: str) -> list[str]:
    from fnmatch import fnmatchcase

    pattern = template.format("*")
    return [name for name in names if fnmatchcase(name, pattern)]


@contextmanager
def newest_state(directory: str, template: str, kind: type) -> Iterator[str]:
    """The file of the newest state of a class, in a directory of states or of a run. Blocks."""
    path = newest_file(directory, template)
    if path is not None:
        yield path
        return
    contents = {}
    snapshot = newest_file(directory, snapshots.NAME)
    if snapshot is not None:
        _, state = snapshots.decode_states(files.read_bytes(snapshot)).get(snapshots.SEARCHER, ("", {}))
        if isinstance(state, dict):
            contents = {name: state[name] for name in _matching(state, template)}
        else:
            own, of_searcher = pickle.loads(state)
            contents = {template.format("snapshot"): dumps_by_value(of_searcher if issubclass(kind, Searcher) else own)}
    if not contents:
        raise RuntimeError(f"no state of a {kind.__name__} ({template}) lies in {directory}")
    ((name, data),) = contents.items()
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as temporary:
        path = os.path.join(temporary, name)
        files.atomic_write(path, data, files.BLOB_MODE)
        yield path
