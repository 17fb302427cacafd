"""Old keywords of `run` and `Experiment`: renamed ones are translated; others have no effect, and a warning says so."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import FunctionType
from typing import Any

from minitune.base.calls import unknown_argument
from minitune.base.checks import require_flag, require_metric
from minitune.base.text import warn_once
from minitune.config import CheckpointConfig, as_config, default_storage_path
from minitune.space.domains import sample_from
from minitune.space.tree import assign_value, copy_tree, find_constants, path_text

DEFAULT_RESULTS_DIR = default_storage_path()
"""The default directory of runs."""

_WITHOUT_EFFECT = frozenset(
    {
        "freeze_trial_list",
        "global_checkpoint_period",
        "queue_trials",
        "ray_auto_init",
        "reuse_existing",
        "server_port",
        "sync_function",
        "sync_on_checkpoint",
        "sync_to_cloud",
        "sync_to_driver",
        "trial_executor",
        "upload_dir",
        "with_server",
    }
)
"""Keywords for a cluster, a server or Ray itself."""


def modern(function: Callable[..., Any], old: Mapping[str, Any]) -> dict[str, Any]:
    """Translate old keywords of a function or class to present ones. The log has one warning for each.

    Raises:
        TypeError: If Ray never had the keyword, or it is `loggers`.
    """
    found: dict[str, Any] = {}
    called = function.__name__
    for name, value in old.items():
        new = _RENAMED.get(name)
        if new is not None:
            found[new] = value
            warn_once(f"{called}({name}=...) is deprecated: pass {new}")
        elif name in _WITHOUT_EFFECT:
            warn_once(f"{called}({name}=...) has no effect on one machine")
        elif name == "loggers":
            raise TypeError(f"{called}() takes no loggers: pass subclasses of LoggerCallback in callbacks")
        else:
            raise unknown_argument(called, name, inspect.signature(function).parameters)
    return found


_RENAMED = {"repeat": "num_samples", "trial_resources": "resources_per_trial"}

CHECKPOINT_KEYWORDS = frozenset(
    {"checkpoint_at_end", "checkpoint_freq", "checkpoint_score_attr", "keep_checkpoints_num"}
)
"""Arguments of `run` and `Experiment` that are fields of `CheckpointConfig` now."""

OLD_KEYWORDS = _WITHOUT_EFFECT | _RENAMED.keys() | CHECKPOINT_KEYWORDS


def with_checkpoint_keywords(
    config: CheckpointConfig | Mapping[str, Any] | None,
    keep_checkpoints_num: int | None = None,
    checkpoint_score_attr: str | None = None,
    checkpoint_freq: int = 0,
    checkpoint_at_end: bool = False,
) -> CheckpointConfig:
    """A checkpoint config, changed by the arguments that older scripts pass besides it.

    Raises:
        ValueError: If an argument has an invalid value.
    """
    changes: dict[str, Any] = {}
    if keep_checkpoints_num is not None:
        _warn_checkpoint_keyword("keep_checkpoints_num", "num_to_keep")
        changes["num_to_keep"] = keep_checkpoints_num
    require_metric("checkpoint_score_attr", checkpoint_score_attr)
    if checkpoint_score_attr is not None:
        _warn_checkpoint_keyword("checkpoint_score_attr", "checkpoint_score_attribute and checkpoint_score_order")
        changes["checkpoint_score_attribute"] = checkpoint_score_attr.removeprefix("min-").removeprefix("max-")
        # Ray wrote the order into the name: `min-loss`.
        changes["checkpoint_score_order"] = "min" if checkpoint_score_attr.startswith("min-") else "max"
    if checkpoint_freq:
        _warn_checkpoint_keyword("checkpoint_freq", "checkpoint_frequency")
        changes["checkpoint_frequency"] = checkpoint_freq
    require_flag("checkpoint_at_end", checkpoint_at_end)
    if checkpoint_at_end:
        _warn_checkpoint_keyword("checkpoint_at_end", "checkpoint_at_end")
        changes["checkpoint_at_end"] = True
    return replace(as_config("checkpoint_config", config, CheckpointConfig), **changes)


def _warn_checkpoint_keyword(name: str, field: str) -> None:
    text = f"{name} is deprecated: pass {field} in run(..., checkpoint_config=CheckpointConfig(...))"
    warnings.warn(text, DeprecationWarning, stacklevel=4)


def with_called_functions(space: Any) -> Any:
    """A search space with `sample_from` around each `lambda spec: ...`, as Ray called these until version 0.6."""
    # The user may use the same dict for another run, with another meaning of its functions.
    space = copy_tree(space)
    for path, value in list(find_constants(space)):
        if isinstance(value, FunctionType) and list(inspect.signature(value).parameters) == ["spec"]:
            space = assign_value(space, path, sample_from(value))
            text = f"config[{path_text(path)!r}] is a function of spec, and each trial calls it: write sample_from(...)"
            warn_once(text, "functions of spec")
    return space


class RuntimeEnv(dict[str, Any]):
    """An environment for `init(runtime_env=...)`. It has no effect: trials have the environment of the script."""


def function(value: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself. Early versions of Ray Tune called every function in a configuration without this mark."""
    return value
