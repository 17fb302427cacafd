"""TuneBOHB: BOHB's searcher under Ray Tune's name, which is `TPESearch`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from minitune.base.checks import is_whole, require
from minitune.base.text import warn_once
from minitune.search.searcher import Metric
from minitune.search.tpe import TPESearch


class TuneBOHB(TPESearch):
    """Searches as BOHB does; use it with the scheduler `HyperBandForBOHB`. It needs no other package.

    The model learns from the highest rung that at least ten trials have reached (Falkner et al., "BOHB", ICML 2018);
    see `TPESearch`.

    Args:
        space: A dict; by default the run's.
        bohb_config: Options of BOHB's own package, which have no effect and cause a warning.
        points_to_evaluate: Values for some or all parameters, tried first; the other ones are drawn.
        max_concurrent: How many of its trials may run at once, without paused ones; 0 for any number.

    Raises:
        ValueError: If an argument breaks its rule, or the space has a grid or a distribution without a domain.
    """

    _TAKES_SEVERAL = False

    def __init__(
        self,
        space: Any = None,
        bohb_config: Mapping[str, Any] | None = None,
        metric: Metric = None,
        mode: str | list[str] | None = None,
        points_to_evaluate: Sequence[Mapping[str, Any]] | None = None,
        seed: int | None = None,
        max_concurrent: int = 0,
    ):
        require(is_whole(max_concurrent) and max_concurrent >= 0, "max_concurrent: an int >= 0", max_concurrent)
        if bohb_config:
            warn_once("TuneBOHB(bohb_config=...) has no effect: those are options of BOHB's own package")
        super().__init__(space, metric, mode, points_to_evaluate, seed=seed)
        self.max_concurrent = max_concurrent
