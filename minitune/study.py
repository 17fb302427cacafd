"""Study: a search by ask and tell, without a run. It has no trials, processes or files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minitune.base.calls import explains_calls
from minitune.base.checks import check_num_samples, is_whole, require, require_flag, shown
from minitune.base.numbers import as_objective, known_number, no_number
from minitune.base.seeds import component_seed, draw_global_seed
from minitune.experiment.goal import check_objectives, check_several, non_dominated
from minitune.experiment.trial import Trial
from minitune.experiment.trial_maker import TrialMaker
from minitune.result import DEFAULT_METRIC, DONE, TRAINING_ITERATION, flatten
from minitune.search.by_name import chosen_searcher
from minitune.search.filters import Rules
from minitune.search.search_algorithm import PlainExperiment, SearchAlgorithm, SearchGenerator
from minitune.search.searcher import Metric, Searcher, call_set_search_properties
from minitune.space.distributions import own_space
from minitune.space.parameters import config_key
from minitune.space.tree import copy_tree


@dataclass(frozen=True)
class Evaluation:
    """A configuration and its metrics."""

    config: dict[str, Any]
    metrics: dict[str, Any]

    @property
    def has_failed(self) -> bool:
        """Whether it has no metrics."""
        return not self.metrics


@explains_calls
class Study:
    """Asks for configurations and is told their values. Many may be open at once, and be told in any order.

    The same seed gives the same configurations as a run whose trials run one by one and report once. A study can be
    pickled if its searcher can.

    Args:
        space, on_duplicate, constraints, warm_start: As in a run.
        searcher: As `TuneConfig(search_alg=...)`.
        metric: A metric, or a list; without one, values are told as plain numbers.
        num_samples: How often the space is sampled; -1 for no end.
        points_to_evaluate: What `ask` returns first; a searcher that is an object has this argument itself.

    Examples:
        >>> from minitune import uniform
        >>> study = Study({"x": uniform(0, 1)}, "tpe", mode="min", num_samples=40, seed=0)
        >>> while (config := study.ask()) is not None:
        ...     study.tell(config, (config["x"] - 0.3) ** 2)
        >>> abs(study.best.config["x"] - 0.3) < 0.05
        True
    """

    def __init__(
        self,
        space: Mapping[str, Any],
        searcher: Searcher | SearchAlgorithm | str | None = None,
        metric: Metric = None,
        mode: str | list[str] | None = None,
        num_samples: int = -1,
        seed: int | None = None,
        on_duplicate: str = "allow",
        constraints: Sequence[Callable[[dict[str, Any]], bool]] | None = None,
        warm_start: Sequence[Any] | None = None,
        points_to_evaluate: Sequence[Mapping[str, Any]] | None = None,
    ):
        require(isinstance(space, Mapping), "space: a dict", space)
        require(seed is None or is_whole(seed), "seed: None or an int", seed)
        if isinstance(metric, (list, tuple)):
            check_several(metric, mode)
        else:
            check_objectives(metric, mode)
        rules = Rules.of(on_duplicate, constraints)
        found = chosen_searcher("searcher", searcher, points_to_evaluate)
        self._search_alg = SearchGenerator(found) if isinstance(found, Searcher) else found
        self._metric = metric
        self._mode = mode
        self._open: dict[str, tuple[Trial, dict[str, Any]]] = {}
        self._history: list[Evaluation] = []
        num_samples = check_num_samples(num_samples)
        given = own_space(space)
        if rules.refuse:  # from here on as in a run
            self._search_alg.set_rules(rules)
        self._search_alg.set_seed(component_seed(draw_global_seed() if seed is None else seed, "searcher"))
        # From here on as in a run, in the same order, so that a seed gives the same configurations.
        hook = self._search_alg.set_search_properties
        call_set_search_properties(hook, self._metric, self._mode, given, {"num_samples": num_samples})
        if warm_start is not None:
            from minitune.record.reading import read_earlier

            earlier = read_earlier(warm_start)
            if earlier:
                self._search_alg.learn_from(earlier)
        self._search_alg.add_configurations(PlainExperiment(given, num_samples, TrialMaker("study")))
        if isinstance(self._search_alg, SearchGenerator):
            self._metric = self._search_alg.searcher.metric or self._metric
            self._mode = self._search_alg.searcher.mode or self._mode

    # -- ask and tell ----------------------------------------------------------------------------------------------

    def ask(self) -> dict[str, Any] | None:
        """The next configuration, a copy for the caller; None if there is none, or none now: see `is_finished`.

        Raises:
            ValueError: If nothing fulfils the constraints, or the searcher cannot search the space.
        """
        trial = self._search_alg.next_trial()
        if trial is None:
            return None
        config: dict[str, Any] = copy_tree(trial.current_config)
        self._open[trial.trial_id] = (trial, config)
        return config

    def tell(self, config: Mapping[str, Any], value: Any = None, *, error: bool = False) -> None:
        """Tell the value of a configuration. NaN is the worst value.

        Args:
            config: One that `ask` has returned, or an equal dict, for the first equal one that is open.
            value: The metric's value, those of several objectives in order, or a dict of metrics with these, as plain
                numbers.
            error: True, without a value, if the configuration has failed.

        Raises:
            ValueError: If the configuration is not open, or there is no value of the metric.
        """
        require_flag("error", error)
        require(not error or value is None, "value: None for a configuration that has failed (error=True)", value)
        metrics = {} if error else self._metrics(value)
        trial, _ = self._open.pop(self._find(config))
        self._end(trial, metrics)

    @property
    def is_finished(self) -> bool:
        """Whether there will be no more configurations. Open ones can still be told."""
        return self._search_alg.is_finished()

    @property
    def end_reason(self) -> str:
        """Why the search has ended before `num_samples`; empty if it has not."""
        return self._search_alg.end_reason

    # -- results -----------------------------------------------------------------------------------------------------

    @property
    def open(self) -> list[dict[str, Any]]:
        """The configurations that were asked for and not told yet."""
        return [config for _, config in self._open.values()]

    @property
    def history(self) -> list[Evaluation]:
        """All evaluations, in the order in which they were told."""
        return list(self._history)

    @property
    def best(self) -> Evaluation | None:
        """The best evaluation, the first of equal ones; None if none has a number as its value.

        Raises:
            ValueError: If there is no mode, or there are several objectives.
        """
        if isinstance(self._metric, (list, tuple)):
            raise ValueError(f"several objectives have no best configuration: {self._metric}; see front")
        return max(self._scored(), key=lambda found: found[0], default=([], None))[1]

    @property
    def front(self) -> list[Evaluation]:
        """The evaluations that no other one beats, by being better in one objective and worse in none.

        Raises:
            ValueError: If there is no mode.
        """
        return non_dominated(self._scored())

    # -- within --------------------------------------------------------------------------------------------------------

    @property
    def _names(self) -> list[str]:
        if isinstance(self._metric, (list, tuple)):
            return list(self._metric)
        return [self._metric or DEFAULT_METRIC]

    def _metrics(self, value: Any) -> dict[str, Any]:
        """The told value as flattened metrics."""
        if isinstance(value, Mapping):
            metrics = flatten(value)
        elif isinstance(self._metric, (list, tuple)):
            good = isinstance(value, (list, tuple)) and len(value) == len(self._metric)
            require(good, f"value: a dict, or one value for each of {', '.join(self._metric)}", value)
            metrics = dict(zip(self._metric, value, strict=True))
        else:
            metrics = {self._names[0]: value}
        for name in self._names:
            try:
                metrics[name] = as_objective(metrics[name], name)
            except (KeyError, ValueError) as error:
                got = shown(value) if isinstance(error, KeyError) else no_number(metrics[name])
                raise ValueError(
                    f"value must be a number, or a dict with {name}, but got {got}; for a configuration that has "
                    "failed pass error=True"
                ) from None
        return metrics

    def _find(self, config: Any) -> str:
        # By identity first: equal configurations may be open twice, and each is told its own value.
        for trial_id, (_, given) in self._open.items():
            if given is config:
                return trial_id
        key = None
        if isinstance(config, Mapping):
            key = config_key(dict(config))
        for trial_id, (trial, _) in self._open.items():
            if config_key(trial.current_config) == key:
                return trial_id
        raise ValueError(
            f"config must be one that ask() has returned and whose result was not told yet, but got {shown(config)}"
        )

    def _end(self, trial: Trial, metrics: dict[str, Any]) -> None:
        if metrics:
            result = {TRAINING_ITERATION: 1, DONE: True, **metrics}
            self._search_alg.on_trial_complete(trial.trial_id, result=result)
        else:
            self._search_alg.on_trial_complete(trial.trial_id, error=True)
        self._history.append(Evaluation(trial.current_config, metrics))

    def _scored(self) -> list[tuple[list[float], Evaluation]]:
        """The evaluations with a number for each objective, after these numbers, the larger the better."""
        modes = [self._mode] if isinstance(self._mode, str) else list(self._mode or ())
        if not modes:
            raise ValueError("mode must be 'min' or 'max' for something to be best, but got None; give it to the Study")
        signs = {
            name: 1 if mode == "max" else -1 for name, mode in zip(self._names, modes, strict=True) if mode != "obs"
        }
        scored = []
        for one in self._history:
            values = [known_number(one.metrics.get(name)) for name in signs]
            scores = [sign * value for sign, value in zip(signs.values(), values, strict=True) if value is not None]
            if len(scores) == len(signs):
                scored.append((scores, one))
        return scored
