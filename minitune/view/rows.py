"""A trial as a row: what every view of a run shows of its trials, decided once.

`row_of` makes the row of a trial, of a live run or of a journal, and `columns` a table of rows. `facts_of_trial` has
all digits and all metrics, for programs, and `listed_fields` are those that are shown by default.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
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


# -- a row -------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class TrialRow:
    """A trial as views show it.

    Attributes:
        number: Its position in the order of submission.
        state: Its state, see `Trial.state`.
        ended: The same with more about its end: `stopped at 4 by ASHA`.
        error: Its error on one line; empty if it has none.
        params: Those that it has of the searched ones, or of those that were asked for, by path.
        metrics: Its latest values by flattened name, in the order of their columns.
        node: The address of its machine, or None.
        repeats: The id of the trial that it confirms, or None.
        quiet_s: In the live view, the seconds since its last report.
    """

    name: str
    number: int = 0
    trial_id: str = ""
    state: str = ""
    ended: str = ""
    error: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    node: str | None = None
    repeats: str | None = None
    quiet_s: float | None = None

    @property
    def is_running(self) -> bool:
        """Whether it is running."""
        return self.state == states.RUNNING


def row_of(trial: Trial, metrics: Iterable[str], params: Iterable[str] = ()) -> TrialRow:
    """The row of a trial."""
    values = {name: shown_metric(trial, name) for name in metrics}
    return TrialRow(
        number=trial.number,
        trial_id=trial.trial_id,
        name=trial.name,
        state=trial.state,
        ended=ended(trial),
        error=last_line(trial),
        params=shown_params(trial, tuple(params) or parameter_names([trial])),
        metrics={name: value for name, value in values.items() if value is not None},
        node=trial.progress.metrics.get(NODE_IP),
        repeats=trial.repeats and trial.repeats.trial_id,
    )


def rows_of(trials: Iterable[Trial], metrics: Collection[str], params: Collection[str] = ()) -> list[TrialRow]:
    """The rows of trials; see `row_of`."""
    return [row_of(trial, metrics, params) for trial in trials]


def facts_of_trial(trial: Trial, goal: Goal, params: Iterable[str]) -> dict[str, Any]:
    """A trial as a flat dict for programs, with all its metrics and its whole configuration.

    The names are those of columns; `params` are the parameters that have one. A metric with one of our own names is
    left out.
    """
    result = {key: value for key, value in trial.progress.metrics.items() if key != TRIAL_ID}
    aims = {name: shown_metric(trial, name) for name in goal.metrics}
    automatic = {key: result.pop(key) for key in AUTO_RESULT_KEYS if key in result}
    own = {
        "trial": trial.number,
        TRIAL_ID: trial.trial_id,
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

_SHOWN = (
    Field("name", "Trial name", 0, lambda row: row.name, WHOLE),
    Field("ended", "status", _STATUS_RANK, lambda row: row.ended, WHOLE, state=lambda row: row.state),
    Field("repeats", "repeats", _REPEATS_RANK, lambda row: row.repeats, WHOLE),
)
_NODE = Field(NODE_IP, "node", _LAST_RANK, lambda row: row.node, WHOLE)


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


def columns(
    rows: Sequence[TrialRow],
    goal: Goal,
    params: Mapping[str, str],
    metrics: Mapping[str, str],
    cell: int = 20,
    least: int = 0,
) -> Table:
    """A table of trials: name, status, parameters, metrics, and the node if there are several.

    A parameter or metric has at most `cell` characters, and a metric of the user's at least `least`.
    """
    reported = [name for name in metrics if any(name in row.metrics for row in rows)]
    aims = goal.metrics or reported[:1]
    fields = [*_SHOWN]
    fields += [Field(name, params[name], _PARAMETER_RANK, _from_params(name), cell) for name in params]
    for name in reported:
        width = 0 if name in _METRIC_RANKS else least
        fields.append(Field(name, metrics[name], metric_rank(name, aims), _from_metrics(name), cell, width))
    if len({row.node for row in rows} - {None}) > 1:  # on a cluster
        fields.append(_NODE)
    return table_of(rows, fields)


def _from_params(name: str) -> Callable[[TrialRow], Any]:
    return lambda row: _shown_choice(row.params, name)


def _shown_choice(params: Mapping[str, Any], name: str) -> Any:
    value = params.get(name)
    if value is None and name in params:
        return "None"  # a choice of the user's, unlike a parameter that the trial does not have
    return value


def _from_metrics(name: str) -> Callable[[TrialRow], Any]:
    return lambda row: row.metrics.get(name)


def trials_table(
    trials: Sequence[Trial], goal: Goal, params: Mapping[str, str], metrics: Mapping[str, str], cell: int = 20
) -> Table:
    """A table of trials; see `columns`. By default it has all searched parameters."""
    params = params or {name: name for name in parameter_names(trials)}
    return columns(rows_of(trials, metrics, params), goal, params, metrics, cell)


# -- facts as columns --------------------------------------------------------------------------------------------------
def shown_fact(row: Mapping[str, Any], name: str) -> Any:
    """The fact with this name as tables and filters take it; None if there is none."""
    if name.startswith(f"{CONFIG}/"):
        return _shown_choice(row, name)
    return row.get(name)


def fact_field(name: str, rank: int = 0) -> Field:
    """A fact of `facts_of_trial`, or of a run, under its own name."""
    state = (lambda row: row.get("status", row.get("state"))) if name in _STATE_NAMES else None
    return Field(name, name, rank, partial(shown_fact, name=name), state=state)


def listed_fields(trials: Sequence[Trial], goal: Goal) -> list[Field]:
    """What `minitune ls` shows of trials, under the names that its options take."""
    fields = [
        fact_field("trial"),
        fact_field(TRIAL_ID, _LAST_RANK),
        fact_field("status", _STATUS_RANK)._replace(get=lambda row: row["ended"] or row["status"]),
        fact_field("repeats", _REPEATS_RANK),
    ]
    fields += [fact_field(f"{CONFIG}/{name}", _PARAMETER_RANK) for name in parameter_names(trials)]
    fields += [fact_field(name, metric_rank(name, goal.metrics)) for name in metric_columns(trials, goal)]
    if len({trial.progress.metrics.get(NODE_IP) for trial in trials} - {None}) > 1:
        fields.append(fact_field(NODE_IP, _LAST_RANK))
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
