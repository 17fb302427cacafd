"""Keywords that `run` and `Experiment` once took: renamed ones are translated, others are named and ignored."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from minitune.base.text import warn_once
from minitune.config import default_storage_path
from minitune.resources import Resources

DEFAULT_RESULTS_DIR = default_storage_path()
"""Default directory of runs."""

_WITHOUT_EFFECT = frozenset(
    {
        "freeze_trial_list",
        "global_checkpoint_period",
        "queue_trials",
        "ray_auto_init",
        "reuse_existing",
        "server_port",
        "sync_function",
        "sync_to_cloud",
        "sync_to_driver",
        "trial_executor",
        "upload_dir",
        "with_server",
    }
)
"""They concerned a cluster, a server or Ray itself."""


def modern(function: str, old: Mapping[str, Any], takes: frozenset[str]) -> dict[str, Any]:
    """Give old keywords their names of today. Each one is named in one warning.

    Args:
        function: The function that was called, for messages.
        old: The keywords that it does not know.
        takes: Which of today's keywords it has: `num_samples`, `callbacks`, `resources_per_trial`.

    Returns:
        Today's keywords and their values.

    Raises:
        TypeError: If a keyword was never one of Ray's.
    """
    found: dict[str, Any] = {}
    for name, value in old.items():
        new, convert = _RENAMED.get(name, (None, None))
        if convert is not None and new in takes:
            found[new] = convert(value)
            warn_once(f"{function}({name}=...) is deprecated: pass {new}")
        elif name in _WITHOUT_EFFECT:
            warn_once(f"{function}({name}=...) has no effect on one machine")
        else:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")
    return found


def _callbacks(loggers: Any) -> list[Any]:
    from minitune.legacy.loggers import callbacks_of

    return callbacks_of(loggers)


_RENAMED: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "loggers": ("callbacks", _callbacks),
    "repeat": ("num_samples", lambda value: value),
    "trial_resources": ("resources_per_trial", lambda value: value),
}

OLD_KEYWORDS = _WITHOUT_EFFECT | _RENAMED.keys()


class RuntimeEnv(dict[str, Any]):
    """An environment for `init(runtime_env=...)`, which has no effect: trials see the environment of the script."""


def resources_to_json(resources: Resources | None) -> str | None:
    """A request for resources as JSON text.

    Args:
        resources: The request, or None.
    """
    return None if resources is None else json.dumps({"bundles": [dict(b) for b in Resources.of(resources).bundles]})


def json_to_resources(text: str | Mapping[str, Any] | None) -> Resources | None:
    """The request of `resources_to_json`; a mapping such as `{"cpu": 1}`, or its JSON text, is understood too."""
    if text is None:
        return None
    value = json.loads(text) if isinstance(text, str) else text
    return Resources(value["bundles"]) if "bundles" in value else Resources.of(value)
