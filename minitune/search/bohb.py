"""TuneBOHB: BOHB's searcher under Ray Tune's name. It is `TPESearch` with `early_stop="rung"`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from minitune.base.checks import is_real, is_whole, require, shown
from minitune.base.text import warn_once
from minitune.search.searcher import Metric
from minitune.search.tpe import TPESearch
from minitune.space.distributions import own_space

_OPTIONS = {"min_points_in_model": "n_initial_points", "num_samples": "n_candidates"}
"""The options of BOHB's own package that this model has, with their names here. `top_n_percent` is a share here."""
_OTHER_OPTIONS = ("bandwidth_factor", "min_bandwidth", "random_fraction")


class TuneBOHB(TPESearch):
    """Searches as BOHB does; use it with the scheduler `HyperBandForBOHB`. It needs no other package.

    The model learns from the highest rung that at least ten trials have reached (Falkner et al., "BOHB", ICML 2018);
    see `TPESearch`.

    Args:
        space: A dict; by default the run's.
        bohb_config: BOHB's own `min_points_in_model`, `top_n_percent` and `num_samples`. Other options have no effect,
            and cause a warning.
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
        super().__init__(
            own_space(space) if isinstance(space, Mapping) else space,
            metric,
            mode,
            points_to_evaluate,
            early_stop="rung",
            seed=seed,
            **_model_options(bohb_config),
        )
        self.max_concurrent = max_concurrent


def _model_options(given: Mapping[str, Any] | None) -> dict[str, Any]:
    require(given is None or isinstance(given, Mapping), "bohb_config: None or a dict", given)
    options: dict[str, Any] = {}
    for name, value in (given or {}).items():
        if name == "top_n_percent":
            require(is_real(value) and 0 < value < 100, "top_n_percent: a number with 0 < top_n_percent < 100", value)
            options["gamma"] = value / 100
        elif name in _OPTIONS:
            if value is not None:
                options[_OPTIONS[name]] = value
        elif name in _OTHER_OPTIONS:
            warn_once(f"bohb_config: {name}={shown(value)} has no effect: this model has no such option")
        else:
            known = ", ".join([*_OPTIONS, "top_n_percent", *_OTHER_OPTIONS])
            raise ValueError(f"bohb_config must hold some of {known}, but got {name!r}")
    return options
