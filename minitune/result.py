"""The names of the automatic result keys, and `Report`, the form of one report on its way to the driver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from minitune.base.checks import shown
from minitune.checkpoint import CheckpointRecord

TIMESTAMP = "timestamp"
CHECKPOINT_DIR_NAME = "checkpoint_dir_name"
SHOULD_CHECKPOINT = "should_checkpoint"
DONE = "done"
TRAINING_ITERATION = "training_iteration"
TRIAL_ID = "trial_id"
EXPERIMENT_ID = "experiment_id"
DATE = "date"
TIME_THIS_ITER_S = "time_this_iter_s"
TIME_TOTAL_S = "time_total_s"
PID = "pid"
HOSTNAME = "hostname"
NODE_IP = "node_ip"
NODE_IP_VARIABLE = "MINITUNE_NODE_IP"
"""The environment variable with the address of a trial's machine, if that is not the driver's machine."""
CONFIG = "config"
TIME_SINCE_RESTORE = "time_since_restore"
ITERATIONS_SINCE_RESTORE = "iterations_since_restore"
TIMESTEPS_THIS_ITER = "timesteps_this_iter"
TIMESTEPS_TOTAL = "timesteps_total"
TIMESTEPS_SINCE_RESTORE = "timesteps_since_restore"
EXPERIMENT_TAG = "experiment_tag"
TRIAL_INFO = "trial_info"
EPISODES_THIS_ITER = "episodes_this_iter"  # a name for scripts of Ray Tune: nothing counts episodes
EPISODES_TOTAL = "episodes_total"
EPISODE_REWARD_MEAN = "episode_reward_mean"
MEAN_LOSS = "mean_loss"
MEAN_ACCURACY = "mean_accuracy"
RESULT_DUPLICATE = "__duplicate__"
DEFAULT_METRIC = "_metric"

OF_THE_CLOCK = (TIME_TOTAL_S, TIME_SINCE_RESTORE, TIME_THIS_ITER_S, TIMESTAMP)
"""The keys of a result that the clock sets."""

AUTO_RESULT_KEYS = (
    TIMESTAMP,
    CHECKPOINT_DIR_NAME,
    SHOULD_CHECKPOINT,
    DONE,
    TIMESTEPS_TOTAL,
    TRAINING_ITERATION,
    TRIAL_ID,
    DATE,
    TIME_THIS_ITER_S,
    TIME_TOTAL_S,
    PID,
    HOSTNAME,
    NODE_IP,
    CONFIG,
    TIME_SINCE_RESTORE,
    ITERATIONS_SINCE_RESTORE,
    TIMESTEPS_SINCE_RESTORE,
    EXPERIMENT_TAG,
)
"""The keys that minitune adds to a user's metrics, in the order of `result.json`."""

_AUTOMATIC = frozenset((*AUTO_RESULT_KEYS, EXPERIMENT_ID))
"""These, and those that results of Ray Tune have besides."""

DEBUG_METRICS = (TRIAL_ID, EXPERIMENT_ID, DATE, TIMESTAMP, PID, HOSTNAME, NODE_IP, CONFIG)
"""Automatic keys that are no measurements."""

EXPR_RESULT_FILE = "result.json"
EXPR_PROGRESS_FILE = "progress.csv"
EXPR_PARAM_FILE = "params.json"
EXPR_ERROR_FILE = "error.txt"
"""The names of the files in a trial's directory."""
EXPR_COMMAND_FILE = "command.json"
"""The file of a trial of `minitune run` with the command line of its program, as a list of words."""

DEFAULT_RESULT_KEYS = (TRAINING_ITERATION, TIME_TOTAL_S, MEAN_ACCURACY, MEAN_LOSS)
DEFAULT_EXPERIMENT_INFO_KEYS = ("trainable_name", EXPERIMENT_TAG, TRIAL_ID)
DEFAULT_EXPERIMENT_NAME = "default"
CONFIG_PREFIX = "config"
EXPR_PARAM_PICKLE_FILE = "params.pkl"
EXPR_ERROR_PICKLE_FILE = "error.pkl"
"""Constants that scripts import from Ray Tune. No run writes the two files."""

_SCALARS = frozenset((str, int, float, bool, type(None)))
_TEXT = frozenset((str,))
# The keys after `config` in a result.
_BEHIND_CONFIG = frozenset((TIME_SINCE_RESTORE, ITERATIONS_SINCE_RESTORE, TIMESTEPS_SINCE_RESTORE))
# The maximum number of nested levels. A deeper value probably contains itself, so a walk over it would never end.
_MAX_LEVELS = 100
_DEEPEST = 1_000  # of a configuration


class Report(NamedTuple):
    """A worker's reply to `train()`.

    Attributes:
        metrics: The user's metrics, then the automatic keys, without `config`. None if a function has returned without
            new ones, so that the last result comes again with `done`, or if only a checkpoint is new.
        done: Whether the trial has ended by itself with this report.
        has_returned: Whether the metrics are a return value: no report follows.
    """

    metrics: dict[str, Any] | None
    checkpoint: CheckpointRecord | None = None
    done: bool = False
    has_returned: bool = False


MISSING = object()
"""The return value of `lookup` for a missing metric."""


def complete(metrics: Mapping[str, Any], config: dict[str, Any]) -> dict[str, Any]:
    """Complete a result for plug-ins and files: add the trial's configuration as `config`.

    Inside the package, results have none.
    """
    result: dict[str, Any] = {}
    for name, value in metrics.items():
        if name in _BEHIND_CONFIG:
            result.setdefault(CONFIG, config)
        result[name] = value
    result.setdefault(CONFIG, config)
    return result


def own_metrics(result: Mapping[str, Any]) -> dict[str, Any]:
    """The user's metrics of a result, nested or flattened: without the automatic keys, and what is below them."""
    # A plug-in may be given a result whose names are no texts.
    return {name: value for name, value in result.items() if str(name).partition("/")[0] not in _AUTOMATIC}


def flatten(result: Mapping[Any, Any], delimiter: str = "/") -> dict[str, Any]:
    """Turn nested mappings into one level, in a new dict, level by level as in Ray Tune.

    `{"eval": {"loss": 1}}` becomes `{"eval/loss": 1}`. Keys become strings, and empty mappings stay.

    Raises:
        RecursionError: If there are too many levels.
    """
    flat: dict[str, Any] = {}
    levels: list[tuple[str, Mapping[Any, Any]]] = [("", result)]
    depth = 0
    while levels:
        deeper: list[tuple[str, Mapping[Any, Any]]] = []
        for prefix, level in levels:
            for key, value in level.items():
                name = f"{prefix}{key}"
                # `_is_level`, without a call for each value
                if type(value) in _SCALARS or not (isinstance(value, (dict, Mapping)) and value):
                    flat[name] = value
                else:
                    deeper.append((f"{name}{delimiter}", value))
        levels = deeper
        depth += 1
        if depth > _DEEPEST:
            raise RecursionError(f"a mapping has more than {_DEEPEST} levels, or contains itself")
    return flat


def flat_row(result: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten a result to a row of a data frame. Nested metrics come last, empty mappings are left out."""
    row: dict[str, Any] = {}
    nested: dict[str, Any] = {}
    for key, value in result.items():
        # Nearly all values are plain, and `isinstance` with an abstract class is slow.
        is_flat = type(value) in _SCALARS or not isinstance(value, Mapping)
        (row if is_flat else nested)[key] = value
    for key, value in flatten(nested).items():
        if type(value) in _SCALARS or not isinstance(value, Mapping):
            row[key] = value
    return row


def with_text_keys(metrics: Mapping[Any, Any]) -> dict[str, Any]:
    """Metrics in which each key is a text, at all levels; any other key is replaced by its text.

    Call this where an error is that of the trial or the plug-in, because a key's methods may raise anything.

    Raises:
        TypeError: If a key has no text, or two keys of a mapping have the same one.
        ValueError: If a mapping contains itself or has too many levels.
    """
    if _is_plain(metrics):
        return dict(metrics)
    return _with_text_keys(metrics, 0)


def _with_text_keys(level: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    if depth > _MAX_LEVELS:
        raise ValueError(f"metrics must be nested at most {_MAX_LEVELS} levels deep, but got {shown(dict(level))}")
    texts: dict[str, Any] = {}
    for key, value in level.items():
        text = key if type(key) is str else _text_of(key)
        if text in texts:
            raise TypeError(f"each key of the metrics must have its own text, but two have {text!r}")
        texts[text] = _with_text_keys(value, depth + 1) if _is_level(value) else value
    return texts


def _is_plain(result: Mapping[Any, Any]) -> bool:
    """Whether a result has texts and scalars alone, as nearly all have. A fast check, which may say no to others."""
    return (
        type(result) is dict and _TEXT.issuperset(map(type, result)) and _SCALARS.issuperset(map(type, result.values()))
    )


def _is_level(value: Any) -> bool:
    """Whether a value is a level of its own. A check for `Mapping` is slow, and nearly all values are scalars."""
    return type(value) not in _SCALARS and isinstance(value, Mapping) and bool(value)


def _text_of(key: Any) -> str:
    try:
        return str.__str__(key) if isinstance(key, str) else str(key)
    except Exception as error:
        raise TypeError(
            f"each key of the metrics must have a text, but str() of {shown(key)} raised {type(error).__name__}; "
            "use a text as the key"
        ) from error


def lookup(result: Mapping[str, Any], name: str) -> Any:
    """The value of a metric by its flattened name, such as `eval/loss`; `MISSING` if the result lacks it."""
    value = result.get(name, MISSING)
    if value is MISSING or (isinstance(value, Mapping) and value):
        return flatten(result).get(name, MISSING)
    return value


def assign(result: dict[str, Any], name: str, value: Any) -> bool:
    """Replace a metric by its flattened name, in copies of the levels; return whether there is one."""
    if name in result:
        result[name] = value
        return True
    for key, inner in result.items():
        if isinstance(inner, Mapping) and name.startswith(f"{key}/"):
            level = dict(inner)
            if assign(level, name.removeprefix(f"{key}/"), value):
                result[key] = level
                return True
    return False


def unflatten(flat: Mapping[str, Any], delimiter: str = "/") -> dict[str, Any]:
    """Undo `flatten`: `{"eval/loss": 1}` becomes `{"eval": {"loss": 1}}`.

    Raises:
        TypeError: If one key is the beginning of another, such as `eval` and `eval/loss`.
    """
    kind: type[dict[str, Any]] = type(flat) if isinstance(flat, dict) else dict
    nested = kind()
    for key, value in flat.items():
        *way, last = key.split(delimiter)
        level = nested
        for part in way:
            level = level.setdefault(part, kind())
            if not isinstance(level, dict):
                raise TypeError(f"a key must not lead through the value of another, but {key!r} does at {part!r}")
        level[last] = value
    return nested
