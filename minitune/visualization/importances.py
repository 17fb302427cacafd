"""Importances: which parameters the objective depends on, and how reliable this estimate is.

A random forest learns the objective from the parameters, as in Hutter, Hoos and Leyton-Brown (2014). The importance of
a parameter is the permutation importance of Breiman (2001, section 10) on unseen trials: how much worse predictions
become when its values are shuffled. The objective is replaced by its rank, so that one diverged trial does not decide
everything; so are numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from minitune.base.checks import is_real
from minitune.base.table import Column, Table, as_html
from minitune.visualization.history import RunHistory, RunLike, TrialHistory, history_of

WITHOUT_MODEL = "`pip install scikit-learn` adds a model, which knows interactions"
_FEWEST = 10
_FEWEST_RANKED = 3
_GROUPS = 6
"""The most groups of similar numbers of a parameter. Not measured, as are the numbers below: more trees and repeats
take longer, fewer let importances differ from call to call.
"""
_MOST = 2000
"""Of more trials, the model learns from an even choice of so many."""
_FOLDS = 5
_REPEATS = 3
_TREES = 64
_SEED = 0
_SURE = 0.5
_UNSURE = 0.2
"""From the first R² on, importances are called reliable; below the second one, unreliable. Chosen, not measured."""
_SPREAD = 1 / 3
"""If the standard deviation of the largest importance is a larger share of it, importances are rough at best.
Chosen, not measured.
"""


@dataclass(frozen=True)
class Importances:
    """The importances of a run's parameters.

    Attributes:
        std: The standard deviation of each importance over folds and repetitions.
        r2: The share of the variance of the objective's ranks that is explained on unseen trials: 1 is all, 0 nothing;
            it may be negative.
    """

    mean: dict[str, float]
    std: dict[str, float]
    r2: float
    num_trials: int

    @property
    def confidence(self) -> str:
        """How reliable the importances are, as text."""
        explained = f"the model explains {max(self.r2, 0):.0%} of the ranks of {self.num_trials} trials"
        first = next(iter(self.mean), None)
        spread = self.std[first] if first is not None else 0.0
        if self.r2 < _UNSURE:
            return f"unreliable: {explained} that it has not seen; more trials may help"
        if first is not None and spread > _SPREAD * self.mean[first]:
            doubt = f"the importance of {first} varies by ±{spread:.2f} from one part of the trials to another"
            return f"rough: {explained} that it has not seen, but {doubt}; more trials may help"
        level = "reliable" if self.r2 >= _SURE else "rough"
        return f"{level}: {explained} that it has not seen"

    def _repr_html_(self) -> str:
        """Shown by notebooks."""
        names = list(self.mean)
        means = [round(self.mean[name], 3) for name in names]
        spreads = [round(self.std[name], 3) for name in names]
        table = Table([Column("parameter", names), Column("importance", means), Column("±", spreads)])
        return as_html([table, self.confidence])

    def __str__(self) -> str:
        width = max((len(name) for name in self.mean), default=0)
        lines = [f"{name:<{width}}  {value:6.3f} ± {self.std[name]:.3f}" for name, value in self.mean.items()]
        return "\n".join([*lines, self.confidence])


def get_param_importances(run: RunLike, *, metric: str | None = None, mode: str | None = None) -> Importances:
    """Estimate how much each parameter matters for the objective.

    Args:
        run: See `plots`. Blocks for seconds. Of more than 2,000 trials, 2,000 are used.
        metric: The objective; by default the run's.
        mode: `"min"` or `"max"`; by default the run's.

    Raises:
        ImportError: If scikit-learn is not installed.
        FileNotFoundError: If there is no run.
        ValueError: If fewer than 10 trials have a finite objective, no parameter has varied, or there is no metric or
            mode.
    """
    try:
        import numpy
        from sklearn.compose import make_column_transformer
        from sklearn.ensemble import RandomForestRegressor
        from sklearn.inspection import permutation_importance
        from sklearn.model_selection import KFold
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import OneHotEncoder
    except ImportError as error:
        raise ImportError("parameter importances need scikit-learn: pip install scikit-learn") from error
    history = history_of(run, metric, mode)
    trials, names = _compared(history, _FEWEST)
    columns = [_column([trial.params.get(name) for trial in trials]) for name in names]
    inputs = numpy.array(columns, dtype=object).T
    one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    texts = [i for i, column in enumerate(columns) if isinstance(column[0], str)]
    values = numpy.array([trial.value for trial in trials])
    ranks = numpy.searchsorted(numpy.sort(values), values, side="left") / len(values)
    unexplained = 0.0
    increases = []
    for fitted, held in KFold(_FOLDS, shuffle=True, random_state=_SEED).split(inputs):
        forest = RandomForestRegressor(_TREES, min_samples_leaf=2, max_features=0.7, random_state=_SEED)
        model = make_pipeline(make_column_transformer((one_hot, texts), remainder="passthrough"), forest)
        model.fit(inputs[fitted], ranks[fitted])
        unexplained += float(((model.predict(inputs[held]) - ranks[held]) ** 2).sum())
        shuffled = permutation_importance(
            model,
            inputs[held],
            ranks[held],
            scoring="neg_mean_squared_error",
            n_repeats=_REPEATS,
            random_state=_SEED,
        )
        increases.append(shuffled.importances)
    variance = float(((ranks - ranks.mean()) ** 2).sum())
    r2 = 1 - unexplained / variance if variance else 0.0
    by_name = numpy.hstack(increases)  # a row for each parameter
    means = numpy.maximum(0.0, by_name.mean(axis=1))
    means /= means.sum() or 1.0
    # The spread is that of shares, as the importances are. How much worse the predictions become in all differs between
    # folds, which says nothing about the parameters.
    shares = numpy.maximum(0.0, by_name)
    shares /= numpy.maximum(shares.sum(axis=0), 1e-300)
    spreads = shares.std(axis=1)
    order = numpy.argsort(-means, kind="stable")
    mean = {names[i]: float(means[i]) for i in order}
    std = {names[i]: float(spreads[i]) for i in order}
    return Importances(mean, std, r2, len(trials))


def _compared(history: RunHistory, fewest: int) -> tuple[list[TrialHistory], list[str]]:
    """The trials whose values tell something, and the parameters that have more than one value in them."""
    trials = history.scored()
    if len(trials) < fewest:
        raise ValueError(
            f"importances need at least {fewest} trials with a finite objective; this run has {len(trials)}"
        )
    if len(trials) > _MOST:
        trials = [trials[i * len(trials) // _MOST] for i in range(_MOST)]
    names = [path for path in history.params if len({str(trial.params.get(path)) for trial in trials}) > 1]
    if not names:
        raise ValueError("importances need a parameter with more than one value; no parameter of this run has more")
    return trials, names


def without_model_text(found: Importances, why: str = WITHOUT_MODEL) -> str:
    """What importances by ranks are worth, and why there are no others."""
    return f"by the ranks of {found.num_trials} trials, each parameter alone; {why}"


def rank_importances(history: RunHistory) -> Importances:
    """Estimate how much each parameter alone explains of the objective, without a model. Takes milliseconds.

    The trials are cut into groups of equal size by the parameter, or by category. The importance is the correlation
    ratio (Pearson 1905) of the objective's ranks, without what chance explains.

    Raises:
        ValueError: If fewer than 3 trials have a finite objective, or no parameter has varied.
    """
    trials, names = _compared(history, _FEWEST_RANKED)
    order = sorted(range(len(trials)), key=lambda i: trials[i].value)
    ranks = [0.0] * len(trials)
    for rank, i in enumerate(order):
        ranks[i] = float(rank)
    explained = {name: _explained([trial.params.get(name) for trial in trials], ranks) for name in names}
    total = sum(explained.values())
    shares = {name: share / total if total else 0.0 for name, share in explained.items()}
    ordered = sorted(shares, key=lambda name: -shares[name])
    mean = {name: shares[name] for name in ordered}
    return Importances(mean, dict.fromkeys(ordered, 0.0), max(explained.values()), len(trials))


def _explained(values: Sequence[Any], ranks: Sequence[float]) -> float:
    """The part of the variance of the ranks that groups of similar values explain, from 0 to 1, without chance."""
    count = len(values)
    column = _column(values)
    groups: dict[Any, list[float]] = {}
    if isinstance(column[0], str) or (2 * len(set(column)) <= count and len(set(column)) <= _GROUPS):
        for value, rank in zip(column, ranks, strict=True):
            groups.setdefault(value, []).append(rank)
    else:
        wanted = max(2, min(_GROUPS, count // 4))
        for rank, i in enumerate(sorted(range(count), key=lambda i: column[i])):
            groups.setdefault(rank * wanted // count, []).append(ranks[i])
    middle = sum(ranks) / count
    whole = sum((rank - middle) ** 2 for rank in ranks)
    between = sum(len(group) * (sum(group) / len(group) - middle) ** 2 for group in groups.values())
    free = count - len(groups)
    if free <= 0 or not whole:
        return 0.0
    return max(0.0, 1 - (1 - between / whole) * (count - 1) / free)


def _column(values: Sequence[Any]) -> list[int] | list[str]:
    """The values of a parameter: the ranks of numbers if all of them are numbers, otherwise texts."""
    numbers = [v for v in values if is_real(v)]
    if len(numbers) < sum(v is not None for v in values):
        return [str(v) for v in values]
    ranks = {number: rank for rank, number in enumerate(sorted(set(numbers)))}
    return [-len(ranks) if v is None else ranks[v] for v in values]
