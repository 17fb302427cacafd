"""A trial as a row: what every view of a run shows of its trials, decided once.

`row_of` is a trial as a flat dict, of a live run or of a journal, with all digits and all metrics, and `trial_fields`
are those of its facts that a table shows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from minitune.base.numbers import known_number
from minitune.base.table import Column, Table, short_repr
from minitune.base.text import cut, one_line
from minitune.experiment import states
from minitune.experiment.goal import Goal
from minitune.experiment.trial import Trial
from minitune.result import (
    AUTO_RESULT_KEYS,
    CONFIG,
    NODE_IP,
    TIME_TOTAL_S,
    TRAINING_ITERATION,
    TRIAL_ID,
    flat_row,
    flatten,
    own_metrics,
)
from minitune.space.tree import value_at_text
from minitune.view.colors import color_of

USUAL_METRICS = {
    "mean_accuracy": "acc",
    "mean_loss": "loss",
    TRAINING_ITERATION: "iter",
    TIME_TOTAL_S: "total time (s)",
    "timesteps_total": "ts",
    "episode_reward_mean": "reward",
}
"""The headers of the metrics that are shown by default if trials report them."""
METRICS_SHOWN = 4
"""The number of a run's own metrics that are shown by default."""
MAX_SHOWN_VALUES = 20
"""The maximum number of parameters or metrics in a line."""
_SCANNED_TRIALS = 20
"""The number of trials that are searched for metrics."""
WHOLE = 10_000
"""The maximum number of characters of a cell that is not cut."""
_ERROR_READ = 1000
_ERROR_LENGTH = 300
"""The numbers of characters of an error that are read, and shown."""
LISTED_CELL = 40
"""The most characters of a value in tables of commands."""
_ABSENT = object()


Row = dict[str, Any]
"""The facts about a trial or a run by the names of their columns."""


# -- a row -------------------------------------------------------------------------------------------------------------
def row_of(trial: Trial, params: Iterable[str], metrics: Iterable[str]) -> Row:
    """A trial with all its metrics and its whole configuration.

    `params` are the parameters that have a column, and `metrics` those whose last number stands in for one that the
    last report lacks. A metric with one of our own names is left out.
    """
    result = {key: value for key, value in trial.progress.metrics.items() if key != TRIAL_ID}
    aims = {name: shown_metric(trial, name) for name in metrics}
    automatic = {key: result.pop(key) for key in AUTO_RESULT_KEYS if key in result}
    own = {
        "trial": trial.number,
        TRIAL_ID: trial.trial_id,
        "trial_name": trial.name,
        "status": trial.state,
        "ended": ended(trial) if trial.state in states.ENDED else None,
        "repeats": trial.repeats and trial.repeats.trial_id,
    }
    return {
        **own,
        **flat_row(result),
        **{name: value for name, value in aims.items() if value is not None},
        **automatic,
        **flat_row({CONFIG: trial.reported_config}),
        **{f"{CONFIG}/{name}": value for name, value in shown_params(trial, params).items()},
        "failures": trial.num_failures,
        "error_message": last_line(trial) or None,  # "error" is a usual name of a metric
        "logdir": trial.local_path if trial.has_started else None,
        **own,
    }


def titled(trial: Trial) -> str:
    """The number and the id of a trial, such as `3 (1234_00003)`."""
    return f"{trial.number} ({trial.trial_id})"


# -- how a trial has ended ---------------------------------------------------------------------------------------------
def ended(trial: Trial) -> str:
    """The state of a trial, with more about its end: `finished`, `stopped at 4 by ASHA`, `interrupted at 2`."""
    text = trial.state
    if text not in (states.STOPPED, states.INTERRUPTED):
        return text
    if TRAINING_ITERATION in trial.progress.metrics:
        text += f" at {trial.progress.metrics[TRAINING_ITERATION]}"
    if trial.stopped_by:
        text += f" by {trial.stopped_by}"
    return text


def last_line(trial: Trial) -> str:
    """The error of a trial on one line; empty if it has none."""
    error = trial.error
    if error is None:
        return ""
    # its beginning: the class and the first words say more than the end
    return cut(" ".join(error.summary()[:_ERROR_READ].split()), _ERROR_LENGTH)


# -- columns -----------------------------------------------------------------------------------------------------------
class Field(NamedTuple):
    """A fact about trials or runs as a column. A narrow terminal keeps the columns of the lowest ranks.

    Attributes:
        most, least: See `Column`.
        state: The state of a row, whose colour its cell gets.
    """

    name: str
    header: str
    rank: int
    get: Callable[[Any], Any]
    most: int = LISTED_CELL
    least: int = 0
    state: Callable[[Any], str] | None = None


# Of a narrow table, the user reads the objective, the status and the parameters first. The user's other metrics say
# more than the time, and the node says least.
_OBJECTIVE_RANK = 1
_STATUS_RANK = 2
_PARAMETER_RANK = 3
_REPEATS_RANK = 4
_METRIC_RANKS = {TRAINING_ITERATION: 5, TIME_TOTAL_S: 7}
_OTHER_METRIC_RANK = 6
_LAST_RANK = 8
_STATE_NAMES = ("status", "ended", "state")
"""The facts whose cells have the colour of the state."""


def table_of(rows: Sequence[Any], fields: Iterable[Field]) -> Table:
    """A table of those fields that have a value."""
    made = []
    ranks = []
    for one in fields:
        values = [one.get(row) for row in rows]
        if any(value is not None for value in values):
            colors = [] if one.state is None else [color_of(one.state(row)) for row in rows]
            made.append(Column(one.header, values, one.most, one.least, colors))
            ranks.append(one.rank)
    return Table(made, sorted(range(len(made)), key=ranks.__getitem__))


def metric_rank(name: str, aims: Collection[str]) -> int:
    """The rank of a metric; `aims` are the objectives."""
    return _OBJECTIVE_RANK if name in aims else _METRIC_RANKS.get(name, _OTHER_METRIC_RANK)


def trials_table(
    trials: Sequence[Trial], goal: Goal, params: Mapping[str, str], metrics: Mapping[str, str], cell: int = 20
) -> Table:
    """A table of trials with their names; see `trial_fields`. By default it has all searched parameters."""
    params = params or {name: name for name in parameter_names(trials)}
    rows = [row_of(trial, params, metrics) for trial in trials]
    return table_of(rows, trial_fields(rows, NAMED, goal, params, metrics, cell))


# -- facts as columns --------------------------------------------------------------------------------------------------
def shown_fact(row: Mapping[str, Any], name: str) -> Any:
    """The fact with this name as tables and filters take it; None if there is none."""
    value = row.get(name)
    if value is None and name in row and name.startswith(f"{CONFIG}/"):
        return "None"  # a choice of the user's, unlike a parameter that the trial does not have
    return value


def fact_field(name: str, rank: int = 0) -> Field:
    """A fact of a row (`row_of`), or of a run, under its own name."""
    state = (lambda row: row.get("status", row.get("state"))) if name in _STATE_NAMES else None
    return Field(name, name, rank, partial(shown_fact, name=name), state=state)


NAMED = (fact_field("trial_name")._replace(header="Trial name", most=WHOLE),)
"""What tables of a run have first."""
LISTED = (fact_field("trial"), fact_field(TRIAL_ID, _LAST_RANK))
"""What `minitune ls` has first."""


def trial_fields(
    rows: Sequence[Row],
    first: Iterable[Field],
    goal: Goal,
    params: Mapping[str, str],
    metrics: Mapping[str, str],
    cell: int = LISTED_CELL,
    least: int = 0,
) -> list[Field]:
    """The fields of a table of trials: `first`, status, parameters, metrics, and the node if there are several.

    `params` and `metrics` have their headers. A parameter or metric has at most `cell` characters, and a metric of the
    user's at least `least`.
    """
    reported = [name for name in metrics if any(row.get(name) is not None for row in rows)]
    aims = goal.metrics or reported[:1]
    fields = [
        *first,
        fact_field("status", _STATUS_RANK)._replace(get=lambda row: row["ended"] or row["status"], most=WHOLE),
        fact_field("repeats", _REPEATS_RANK),
    ]
    for name, header in params.items():
        fields.append(fact_field(f"{CONFIG}/{name}", _PARAMETER_RANK)._replace(header=header, most=cell))
    for name in reported:
        width = 0 if name in _METRIC_RANKS else least
        field = fact_field(name, metric_rank(name, aims))
        fields.append(field._replace(header=metrics[name], most=cell, least=width))
    if len({row.get(NODE_IP) for row in rows} - {None}) > 1:  # on a cluster
        fields.append(fact_field(NODE_IP, _LAST_RANK)._replace(header="node"))
    return fields


def parameter_names(trials: Iterable[Trial]) -> list[str]:
    """The paths of the parameters that were searched, in the order in which they are shown."""
    # Sorted, so that a conditional parameter that a later trial has first does not move the columns of others.
    return sorted({path for trial in trials for path in trial.evaluated_params})


def metric_columns(
    trials: Iterable[Trial], goal: Goal, most: int = METRICS_SHOWN, usual: Mapping[str, str] = USUAL_METRICS
) -> dict[str, str]:
    """The headers of the metrics that are shown, in their order: objectives, other numbers, the usual ones."""
    aims = goal.metrics
    others = infer_metrics(trials, {*aims, *usual}, most - len(aims))
    return {name: usual.get(name, name) for name in (*aims, *others, *usual)}


def shown_params(trial: Trial, names: Iterable[str]) -> dict[str, Any]:
    """The parameters with these paths that the trial has."""
    found = {name: trial.shown_parameter(name, _ABSENT) for name in names}
    return {name: value for name, value in found.items() if value is not _ABSENT}


def shown_metric(trial: Trial, name: str) -> Any:
    """The last value of a metric by its flattened name; None if there is none.

    Trials are compared by their last numbers, so it may be that of an earlier report.
    """
    value = value_at_text(trial.progress.metrics, name)
    if value is None:
        return trial.progress.analysis.get(name, "last")
    return value


def shown_metrics(trial: Trial, goal: Goal) -> dict[str, Any]:
    """The user's metrics of a trial by flattened name, the objectives first; see `shown_metric`."""
    own = metrics_of(trial.progress.metrics)
    aims = {name: shown_metric(trial, name) for name in goal.metrics}
    return {name: value for name, value in (aims | own | aims).items() if value is not None or name in own}


def infer_metrics(trials: Iterable[Trial], known: Iterable[str], limit: int) -> list[str]:
    """The first few numeric metrics that trials have reported, without automatic keys and `known` ones."""
    known = set(known)
    found = dict[str, None]()
    # A run may have many thousands of trials, and this is asked for each redraw. Trials mostly report the same metrics.
    results = islice((trial.progress.metrics for trial in trials if trial.progress.metrics), _SCANNED_TRIALS)
    for name, value in (pair for result in results for pair in metrics_of(result).items()):
        if len(found) >= limit:
            break
        if name not in known and known_number(value) is not None:
            found[name] = None
    return list(found)


def metrics_of(result: Mapping[str, Any]) -> dict[str, Any]:
    """The user's metrics of a result, flattened."""
    try:
        return flatten(own_metrics(result))
    except Exception:  # nested too deeply, or a user's mapping raises
        return {}


def values_text(values: Mapping[str, Any], longest: int | None = None) -> str:
    """The first values as one line, such as `lr=0.1, act='relu'`."""
    parts = []
    for name, value in islice(values.items(), MAX_SHOWN_VALUES):
        text = one_line(short_repr(value))
        if longest is not None:
            text = cut(text, longest)
        parts.append(f"{one_line(name)}={text}")
    return ", ".join(parts)
