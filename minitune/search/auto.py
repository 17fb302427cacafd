"""AutoSearch: a Gaussian process and Parzen estimators take turns, and both learn from all trials."""

from __future__ import annotations

import random
from itertools import islice
from typing import Any

from minitune.search.gaussian_process import MOST_POINTS, GaussianProcess, Scales
from minitune.search.parzen import Model, Ranking
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
        group = model.only_group
        is_plain = group is not None and self._policy == "last" and isinstance(self._mode, str)
        if number % 2 and group is not None and is_plain and len(ranking) >= self.n_initial_points:
            grounds, points = group.grounds, group.kernels.points
            better = ranking.best(points, 0.5, MOST_POINTS // 2)
            if better and len(grounds.axes) + len(grounds.sizes) <= _MOST_PARAMETERS:
                others = (each.number for each in reversed(self._ended))
                newest = (other for other in others if other in points and other not in better)
                known = [*better, *islice(newest, MOST_POINTS - len(better))]
                live = [each.number for each in self._live.values()]
                self._scales = self._scales or Scales()
                process = GaussianProcess(
                    grounds,
                    [points[each] for each in known],
                    [ranking.value(each) for each in known],
                    [points[each] for each in live if each in points and each not in ranking],
                    self._scales,
                    rng,
                )
                if (found := model.configuration(group.decode(process.suggest()))) is not None:
                    return found
        return super()._propose(model, ranking, number, rng)
