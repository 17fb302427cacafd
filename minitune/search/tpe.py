"""TPESearch: Bayesian optimisation with tree-structured Parzen estimators, in plain Python."""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

from minitune.base.calls import explains_calls
from minitune.base.checks import is_whole, require
from minitune.base.numbers import as_number, known_number
from minitune.base.text import warn_once
from minitune.experiment.goal import check_objectives
from minitune.experiment.trial import EarlierRun
from minitune.result import DEFAULT_METRIC, TRAINING_ITERATION
from minitune.search.foreign import SpaceSearcher, evaluated_values
from minitune.search.model import Model
from minitune.search.ranking import Observation, Ranking
from minitune.search.searcher import Metric, Suggestion, TriedConfig, no_space, repeated_by, require_mode
from minitune.space.guesses import agrees, guess_of, nested
from minitune.space.parameters import Parameter, parameters, space_size, values_of
from minitune.space.tree import assign_value, copy_tree, get_value

logger = logging.getLogger("minitune")


@explains_calls
class TPESearch(SpaceSearcher):
    """Searches with tree-structured Parzen estimators; needs no other library.

    See Watanabe, "Tree-structured Parzen estimator" (2023, arXiv 2304.11127), and `parzen`. Running trials count among
    the bad ones. If the scheduler may stop trials early, and there is one objective, those are compared at the highest
    step that ten have reached; else by their last values.

    Args:
        points_to_evaluate: Values for some parameters, tried first.
        n_initial_points: How many trials end before the model is used.
        seed: Has precedence over the run's.

    Raises:
        ValueError: If an argument is invalid, or the space has a grid.
    """

    _TAKES_SEVERAL = True
    _STATE: tuple[str, ...] = ("_seed", "_count", "_points_given", "_live", "_ended")

    def __init__(
        self,
        space: Mapping[str, Any] | None = None,
        metric: Metric = None,
        mode: str | list[str] | None = None,
        points_to_evaluate: Sequence[Mapping[str, Any]] | None = None,
        n_initial_points: int = 10,
        seed: int | None = None,
    ):
        super().__init__(metric, mode, points_to_evaluate, seed)
        require(space is None or isinstance(space, Mapping), "space: None or a dict", space)
        require(is_whole(n_initial_points) and n_initial_points >= 1, "n_initial_points: an int >= 1", n_initial_points)
        self.n_initial_points = n_initial_points
        self._has_own_space = bool(space)
        self._stops_early = False  # whether the scheduler does
        # Each suggestion draws with a generator of its own, made from this and its number. So a replay that skips some
        # calls, or a saved state, needs no state of a generator.
        if self._seed is None:
            self._seed = random.SystemRandom().getrandbits(63)
        self._count = 0  # of suggestions and of points that were evaluated elsewhere
        self._points_given = 0
        self._tries = 0  # how many suggestions were refused before the last one, for the same trial
        self._was_refused = False  # whether the last suggestion was refused
        # The observations are the truth. Model and ranking are made of them, and anew when they no longer fit.
        self._live: dict[str, Observation] = {}
        self._ended: list[Observation] = []
        self._model: Model | None = None  # until the space is known
        self._ranking: Ranking | None = None  # until it is needed, since the mode comes late
        self._draws_on = False
        self._has_named_end = False  # whether the warning about the end of a finite space was given
        if space:
            self._set_space(dict(space))

    def set_search_properties(self, metric: Metric, mode: str | list[str] | None, config: Any, **spec: Any) -> bool:
        takes_space = super().set_search_properties(metric, mode, config, **spec)
        self._stops_early = bool(spec.get("stops_early"))
        require_mode(self)
        check_objectives(self._metric, self._mode)
        return takes_space

    # -- the loop ------------------------------------------------------------------------------------------------

    def suggest(self, trial_id: str) -> Suggestion:
        model, ranking = self._ready()
        number, rng = self._begin(trial_id)
        if self._points_given < len(self._points):
            point = self._points[self._points_given]
            self._points_given += 1
            config, values = self._complete(model, point, rng)
        else:
            if model.left == 0 and model.count != 1 and not self._has_named_end and not self._draws_on:
                self._has_named_end = True
                logger.warning(
                    "all %d configurations of the search space have been tried: from now on, the search repeats some; "
                    "in Python, TuneConfig(on_duplicate='resample') ends it there",
                    model.count,
                )
            config, values = self._propose(model, ranking, number + self._tries, rng)
        observation = Observation(number, values, trial_id=trial_id, repeats=repeated_by(config))
        self._live[trial_id] = observation
        model.add(observation)
        return config

    def adopt(self, trial_id: str, config: Mapping[str, Any]) -> None:
        """See `Searcher.adopt`. A point to evaluate with the same values counts as tried, and so do those before it."""
        self._was_refused = False
        number, rng = self._begin(trial_id)
        for given, point in enumerate(self._points[self._points_given :], self._points_given + 1):
            if agrees(point, config):
                self._points_given = given
                break
        else:
            if self._points_given == len(self._points):
                self._skip(number, rng)
        tried = TriedConfig(copy_tree(dict(config)))
        observation = Observation(number, config=tried, trial_id=trial_id, repeats=repeated_by(config))
        self._live[trial_id] = observation
        self._take_up(observation)

    def _begin(self, trial_id: str) -> tuple[int, random.Random]:
        """The number of the next suggestion, and the generator of its draws. One in place of a refused suggestion has
        the same number and another generator, so a searcher that has adopted the trials goes on like the first one.
        """
        self.on_trial_complete(trial_id)  # an id that is used again belongs to a new trial
        if not self._was_refused:
            self._tries = 0
        self._was_refused = False
        number = self._count
        self._count += 1
        stream = f"{self._seed}/{number}"
        if self._tries:
            stream = f"{stream}/{self._tries}"
        return number, random.Random(stream)

    def _skip(self, number: int, rng: random.Random) -> None:
        """Called in place of a proposal, for a trial that is adopted. What a proposal changes must change here too."""

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        if trial_id in self._live:
            self._read(self._live[trial_id], result)
            self._rank(self._live[trial_id])

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """See `Searcher.on_trial_complete`. Without a result, the last one counts. A failed trial is the worst."""
        observation = self._live.pop(trial_id, None)
        if observation is None:
            return
        if result is not None:
            self._read(observation, result)
        if result is None and not error and not observation.step:
            # It never ran, so nothing is known about its configuration.
            if self._model is not None:
                self._model.remove(observation)
            return
        self._end(observation, error)

    def on_suggestion_refused(self, trial_id: str) -> None:
        """Its values do not count as bad. The suggestion in its place has other draws."""
        self.on_trial_complete(trial_id)
        self._count -= 1
        self._tries += 1
        self._was_refused = True

    # -- warm start ------------------------------------------------------------------------------------------------

    def add_evaluated_point(
        self,
        parameters: dict[str, Any],
        value: Any,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> None:
        """See `Searcher.add_evaluated_point`.

        Missing parameters, and values outside the space (with a warning), are allowed. The group of such a value does
        not learn from this configuration.

        Raises:
            ValueError: If `parameters` is not a dict, or has a parameter that the space does not have.
        """
        require(isinstance(parameters, Mapping), "parameters: a dict, as a configuration", parameters)
        given = copy_tree(dict(parameters))
        observation = Observation(self._count, config=given)
        self._count += 1
        if intermediate_values:
            warn_once(f"{type(self).__name__} learns from the value of a point: intermediate_values have no effect")
        observation.value = tuple(map(as_number, value)) if isinstance(value, (list, tuple)) else as_number(value)
        observation.step = 1
        observation.rows[1] = observation.value
        self._take_up(observation)
        self._end(observation, error)

    def learn_from(self, runs: Sequence[EarlierRun]) -> None:
        """Take up the trials of earlier runs like trials of its own, and try the best configuration of each run.

        Trials with a value outside of the space are left out.

        Raises:
            ValueError: If there are several objectives, or a run has no finite value of a configuration in the space.
        """
        if isinstance(self._metric, (list, tuple)):
            raise ValueError(
                f"warm_start needs one objective, but got metric={self._metric!r}; name one, or leave warm_start out"
            )
        model, _ = self._ready()
        metric = self._metric or DEFAULT_METRIC
        first: list[dict[str, Any]] = []
        for run in runs:
            scored: list[tuple[float, dict[str, Any]]] = []
            for config, metrics in run.tried:
                values = self._inside(config)
                if not values:
                    continue
                observation = Observation(self._count, values)
                self._count += 1
                model.add(observation)
                if metrics is not None:
                    self._read(observation, metrics)
                self._end(observation, metrics is None)
                value = (metrics or {}).get(metric, math.nan)
                if math.isfinite(value):
                    scored.append((value, values))
            if not scored:
                raise ValueError(
                    f"warm_start: no trial of the run in {run.path} has a configuration in this space and a finite "
                    f"{metric!r}; leave the run out, or search a wider space"
                )
            _, best = (min if self._mode == "min" else max)(scored, key=lambda each: each[0])
            if best not in first:
                first.append(best)
                # A resumed search draws the same values for parameters that the earlier run did not have.
                point, _ = model.draw_prior(random.Random(0), best)
                self._points.append(point)

    def _inside(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """The values of a configuration for the space's parameters; none if one of them lies outside."""
        outside: list[Parameter] = []
        given = nested(config, self._domains or {})
        values = values_of(self._domains, given, lambda parameter, value: outside.append(parameter))
        return {} if outside else values

    # -- state -------------------------------------------------------------------------------------------------------

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        self._ranking = None
        if self._domains is not None:
            self._set_space(self._domains)

    # -- within --------------------------------------------------------------------------------------------------------

    def _propose(
        self, model: Model, ranking: Ranking, number: int, rng: random.Random
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        if len(ranking) < self.n_initial_points:
            return model.propose(rng, None)
        return model.propose(rng, ranking, [each.number for each in self._live.values() if each.number not in ranking])

    def _set_space(self, space: dict[str, Any]) -> None:
        self._model = Model(space)
        self._draws_on = space_size(space) == math.inf  # a function may give each configuration another value
        super()._set_space(space)
        for observation in sorted([*self._ended, *self._live.values()], key=lambda each: each.number):
            self._take_up(observation)

    def _take_up(self, observation: Observation) -> None:
        if self._model is None:
            return
        if observation.config is not None:
            values, outside = evaluated_values(self._domains or {}, observation.config)
            observation.values = {**values, **dict.fromkeys(outside)}
            observation.config = None
        self._model.add(observation)

    def _ready(self) -> tuple[Model, Ranking]:
        if self._model is None:
            raise no_space(self)
        require_mode(self)
        if self._ranking is None:
            modes = list(self._mode) if isinstance(self._mode, (list, tuple)) else [self._mode or "min"]
            self._ranking = Ranking(modes, self._by_rung, [*self._ended, *self._live.values()])
        return self._model, self._ranking

    def _rank(self, observation: Observation) -> None:
        if self._ranking is not None:
            self._ranking.update(observation)

    @property
    def _by_rung(self) -> bool:
        """Whether trials are compared at the highest step that enough have reached."""
        return self._stops_early and not isinstance(self._metric, (list, tuple))

    def _read(self, observation: Observation, result: Mapping[str, Any]) -> None:
        step = known_number(result.get(TRAINING_ITERATION))
        observation.step = observation.step + 1 if step is None else step
        metric = self._metric or DEFAULT_METRIC
        if isinstance(metric, (list, tuple)):
            if not any(name in result for name in metric):
                return
            observation.value = tuple(as_number(result.get(name)) for name in metric)
        elif metric in result:
            observation.value = as_number(result[metric])
            if self._by_rung:
                observation.rows[float(observation.step)] = observation.value

    def _end(self, observation: Observation, has_failed: bool) -> None:
        observation.arrival = len(self._ended)
        observation.has_failed = has_failed
        self._ended.append(observation)
        self._rank(observation)

    def _complete(
        self, model: Model, point: Mapping[str, Any], rng: random.Random
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        guess = guess_of(self._domains or {}, point)
        known = values_of(self._domains, guess.space)
        config, values = model.draw_prior(rng, known)
        searched = {each.path for each in parameters(self._domains) if each.name in known}
        for path in guess.fixed:
            if path not in searched:
                config = assign_value(config, path, copy_tree(get_value(guess.space, path)))
        return config, values
