"""Names of the automatic result keys, and what one report is on its way to the driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from minitune._alias import submodules
from minitune.checkpoint import CheckpointRecord

__getattr__ = submodules(__name__)

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
"""Tells a trial the address of the machine that it runs on, where that is not the driver's."""
CONFIG = "config"
TIME_SINCE_RESTORE = "time_since_restore"
ITERATIONS_SINCE_RESTORE = "iterations_since_restore"
TIMESTEPS_THIS_ITER = "timesteps_this_iter"
TIMESTEPS_TOTAL = "timesteps_total"
TIMESTEPS_SINCE_RESTORE = "timesteps_since_restore"
EPISODES_THIS_ITER = "episodes_this_iter"
EPISODES_TOTAL = "episodes_total"
EXPERIMENT_TAG = "experiment_tag"
TRIAL_INFO = "trial_info"
EPISODE_REWARD_MEAN = "episode_reward_mean"
MEAN_LOSS = "mean_loss"
MEAN_ACCURACY = "mean_accuracy"
RESULT_DUPLICATE = "__duplicate__"
DEFAULT_METRIC = "_metric"

AUTO_RESULT_KEYS = (
    TIMESTAMP,
    CHECKPOINT_DIR_NAME,
    SHOULD_CHECKPOINT,
    DONE,
    TIMESTEPS_TOTAL,
    EPISODES_TOTAL,
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

DEBUG_METRICS = (TRIAL_ID, EXPERIMENT_ID, DATE, TIMESTAMP, PID, HOSTNAME, NODE_IP, CONFIG)
"""Automatic keys that are no measurements: they take no part in metric checks and analyses."""

EXPR_RESULT_FILE = "result.json"
EXPR_PROGRESS_FILE = "progress.csv"
EXPR_PARAM_FILE = "params.json"
EXPR_PARAM_PICKLE_FILE = "params.pkl"
EXPR_ERROR_FILE = "error.txt"
EXPR_ERROR_PICKLE_FILE = "error.pkl"
"""Names of the files in a trial's directory."""

DEFAULT_RESULT_KEYS = (TRAINING_ITERATION, TIME_TOTAL_S, MEAN_ACCURACY, MEAN_LOSS)
DEFAULT_EXPERIMENT_INFO_KEYS = ("trainable_name", EXPERIMENT_TAG, TRIAL_ID)
DEFAULT_EXPERIMENT_NAME = "default"
CONFIG_PREFIX = "config"
"""For scripts that import them, as from Ray Tune; nothing here depends on them."""

_SCALARS = frozenset((str, int, float, bool, type(None)))
_TEXT = frozenset((str,))
_MAX_LEVELS = 2_500
"""Levels of nesting. A value that goes deeper contains itself, and a walk over it would never end."""


@dataclass(frozen=True)
class Report:
    """The answer of a worker to `train()`.

    Attributes:
        metrics: The user's metrics followed by the automatic keys, but without `config`, which the driver adds (see
            `Trial.complete`). None when a function has returned and has nothing new to say: its last result counts
            again, with `done`. None with a checkpoint: only the checkpoint is new.
        checkpoint: The checkpoint that came with this report, already committed to the trial's directory, or None.
        done: True if the trial has ended by itself with this report.
        has_returned: True if these metrics are what a function has returned: there is nothing left to wait for.
    """

    metrics: dict[str, Any] | None
    checkpoint: CheckpointRecord | None = None
    done: bool = False
    has_returned: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        return Report, (self.metrics, self.checkpoint, self.done, self.has_returned)  # half the time of a dataclass's


def flatten(result: Mapping[Any, Any], delimiter: str = "/") -> dict[str, Any]:
    """Turn nested mappings into one level: `{"eval": {"loss": 1}}` becomes `{"eval/loss": 1}`.

    Args:
        result: Any mapping; keys that are not text are shown as text. Empty mappings stay as values.
        delimiter: What stands between the parts of a key.

    Returns:
        A new dict, level by level as in Ray Tune; values that are not mappings are the same objects.

    Raises:
        ValueError: If a mapping contains itself, or is nested as deeply as if it did.
    """
    # Nearly all results are scalars with one level of scalars below some of them.
    if type(result) is dict and _TEXT.issuperset(map(type, result)):
        if _SCALARS.issuperset(map(type, result.values())):
            return result.copy()
        flat, deeper = result.copy(), {}
        for name, inner in result.items():
            if type(inner) in _SCALARS:
                continue
            if type(inner) is dict and inner and _TEXT.issuperset(map(type, inner)):
                if not _SCALARS.issuperset(map(type, inner.values())):
                    return _flatten_deep(result, delimiter)
                del flat[name]
                prefix = f"{name}{delimiter}"
                for key, value in inner.items():
                    deeper[prefix + key] = value
            elif isinstance(inner, Mapping) and inner:
                return _flatten_deep(result, delimiter)
        flat.update(deeper)
        return flat
    return _flatten_deep(result, delimiter)


def unflatten(flat: Mapping[str, Any], delimiter: str = "/") -> dict[str, Any]:
    """Undo `flatten`: `{"eval/loss": 1}` becomes `{"eval": {"loss": 1}}`.

    Args:
        flat: A dict of one level; it stays as it is. All levels of the result are of its class.
        delimiter: Where keys are split.

    Raises:
        TypeError: If one key leads through the value of another.
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


def _flatten_deep(result: Mapping[Any, Any], delimiter: str) -> dict[str, Any]:
    """`flatten` for any nesting and any mappings."""
    flats: list[dict[str, Any]] = [{}]  # the flat items of each level
    levels = [("", iter(result.items()))]  # an explicit stack: reports may be nested deeper than Python's stack
    while levels:
        prefix, items = levels[-1]
        flat = flats[len(levels) - 1]
        for key, value in items:
            name = key if not prefix and isinstance(key, str) else f"{prefix}{key}"
            if type(value) in _SCALARS:  # nearly all are; to ask the abstract class is slow
                flat[name] = value
                continue
            if isinstance(value, Mapping) and value:
                levels.append((f"{name}{delimiter}", iter(value.items())))
                if len(levels) > len(flats):
                    flats.append({})
                break
            flat[name] = value
        else:
            levels.pop()
        if len(levels) > _MAX_LEVELS:
            raise ValueError(f"a result must be nested at most {_MAX_LEVELS} levels deep, but got {name[:80]!r}...")
    flat = flats[0]
    for deeper in flats[1:]:
        flat.update(deeper)
    return flat
