"""AutoSearch: a Gaussian process and Parzen estimators take turns, and both learn from all trials."""

from __future__ import annotations

import math
import random
from typing import Any

from minitune.base.checks import is_real
from minitune.search.gaussian_process import GaussianProcess, Scales
from minitune.search.parzen import Model, Observation, Ranking
from minitune.search.tpe import TPESearch

_MOST_PARAMETERS = 20


class AutoSearch(TPESearch):
    """Takes turns between a Gaussian process and the model of `TPESearch`; needs no other library.

    A Gaussian process finds the optimum of a smooth function in far fewer trials. The Parzen estimators stay good where
    the objective has many optima, is noisy, or has conditional parameters. So from `n_initial_points` on, every other
    suggestion is that of the process, and both are told everything.

    The Parzen estimators work alone where the process cannot: with several objectives, with parameters below a
    category, with more than 20 parameters, and where trials are stopped early, so that their values do not compare.

    The arguments are those of `TPESearch`.
    """

    _scales: Scales | None = None

    def get_state(self) -> dict[str, Any]:
        """See `Searcher.get_state`."""
        return {**super().get_state(), "scales": None if self._scales is None else dict(vars(self._scales))}

    def set_state(self, state: dict[str, Any]) -> None:
        """See `Searcher.set_state`."""
        super().set_state(state)
        self._scales = None if state["scales"] is None else Scales(**state["scales"])

    def _propose(
        self, model: Model, ranking: Ranking, number: int, rng: random.Random
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Every other suggestion is that of the process."""
        group, policy = model.only_group, self._policy
        if number % 2 and group is not None and policy == "last" and len(ranking) >= self.n_initial_points:
            grounds, points = group.grounds, group.kernels.points
            sign = {"min": 1.0, "max": -1.0}.get(str(self._mode))
            ended = [each for each in self._ended if each.number in points]
            values = [math.nan if sign is None else _value_of(each, sign) for each in ended]
            if len(grounds.axes) + len(grounds.sizes) <= _MOST_PARAMETERS and any(v == v for v in values):
                self._scales = self._scales or Scales()
                pending = [points[each.number] for each in self._live.values() if each.number in points]
                known = [points[each.number] for each in ended]
                process = GaussianProcess(grounds, known, values, pending, self._scales, rng)
                if (found := model.configuration(group.decode(process.suggest()))) is not None:
                    return found
        return super()._propose(model, ranking, number, rng)


def _value_of(observation: Observation, sign: float) -> float:
    """The value, smaller is better; NaN for a failure."""
    value = observation.value
    has_value = not observation.has_failed and is_real(value) and math.isfinite(value)
    return sign * value if has_value else math.nan
