"""`tuner.pkl`: configs and space of a run, so that it can be resumed; each component pickled on its own."""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

from minitune.base.files import BLOB_MODE, new_file
from minitune.config import CheckpointConfig, RunConfig
from minitune.error import RunNotFoundError, TuneError, UntrustedStateError
from minitune.execution.pickled import ObjectStore, is_large, short_text
from minitune.execution.storage import RunDirectory, check_trusted, is_run
from minitune.pickling import dumps_for_later, loads_referring
from minitune.tune_config import TuneConfig

logger = logging.getLogger("minitune")

_CHECKPOINTS = "checkpoint_configs"
_LARGE = "large_values"
"""The part with the names of the large values, which lie among the run's objects."""
_NONE = pickle.dumps([])
_LOST = b""
"""In place of the pickle of what has none."""


@dataclass(frozen=True)
class RecordedTuner:
    """What `tuner.pkl` holds.

    Attributes:
        trainable_name: Name of the trainable, which itself is not in it.
        param_space: The search space.
        tune_config: How it was searched.
        run_config: How it was run.
        checkpoint_configs: Which checkpoints each experiment kept.
        lost: Names of the settings that could not be pickled, such as `tune_config.search_alg`.
        objects: What the large values in it come from: while somebody holds that, they are loaded once.
    """

    trainable_name: str
    param_space: dict[str, Any]
    tune_config: TuneConfig
    run_config: RunConfig
    checkpoint_configs: Sequence[CheckpointConfig] = ()
    lost: tuple[str, ...] = ()
    objects: ObjectStore | None = None


@dataclass(frozen=True)
class TunerContent:
    """The content of a `tuner.pkl` that is to be written.

    Attributes:
        parts: Pickles by name.
        large: The large values that they refer to, by their places here.
    """

    parts: dict[str, bytes]
    large: list[Any]


def dump_tuner(recorded: RecordedTuner) -> TunerContent:
    """Pickle what a `tuner.pkl` is to hold. What cannot be pickled is left out, with a warning, and spoils nothing.

    Args:
        recorded: What it is to hold.
    """
    parts: dict[str, bytes] = {"trainable_name": pickle.dumps(recorded.trainable_name)}
    large: list[Any] = []
    _add(parts, large, "param_space", recorded.param_space)
    parts[_CHECKPOINTS] = pickle.dumps(list(recorded.checkpoint_configs))
    for name in ("tune_config", "run_config"):
        config = getattr(recorded, name)
        for entry in fields(config):
            if entry.name == "executor" and not isinstance(config.executor, str):
                logger.info("tune_config.executor is an object and is not recorded: pass it again to resume this run")
                continue
            _add(parts, large, f"{name}.{entry.name}", getattr(config, entry.name))
    return TunerContent(parts, large)


def write_tuner_file(run: RunDirectory, content: TunerContent, objects: ObjectStore, *, sync: bool) -> None:
    """Write `tuner.pkl`: before the first record, so that a run that has begun can be resumed.

    Args:
        run: The run's directory.
        content: From `dump_tuner`.
        objects: Where large values go.
        sync: True to bring all to the disk before returning; blocks for it.

    Raises:
        TuneError: If it cannot be written.
    """
    try:
        names = [objects.put(value, short_text(value)).name for value in content.large]
        if sync:
            objects.sync()
        with new_file(run.tuner, BLOB_MODE, sync) as file:
            pickle.dump({**content.parts, _LARGE: pickle.dumps(names)}, file)
    except OSError as error:
        raise TuneError(f"{run.tuner} cannot be written ({error.strerror or error}); check path and disk") from error


def _add(parts: dict[str, bytes], large: list[Any], name: str, value: Any) -> None:
    """Add the pickle of a value, and what is large in it."""
    if value is None or isinstance(value, (str, int, float, bool)):
        parts[name] = pickle.dumps(value)
        return
    found: list[Any] = []

    def refer(part: Any) -> int | None:
        if not is_large(part):
            return None
        found.append(part)
        return len(large) + len(found) - 1

    try:
        parts[name] = dumps_for_later(value, name, refer)
    except TypeError as error:
        logger.warning("%s; to resume this run it must be passed again", error)
        parts[name] = _LOST
    else:
        large.extend(found)


def load_tuner_file(run: RunDirectory) -> RecordedTuner:
    """Read `tuner.pkl`. This executes code of whoever wrote it.

    Args:
        run: The run's directory.

    Raises:
        TuneError: If there is no run, or the file cannot be read; the text says which part.
        UntrustedStateError: If somebody else may have written it.
    """
    if not is_run(run.path):
        raise RunNotFoundError(f"there is no run in {run.path}; restore needs the directory that fit() has written")
    try:
        parts = _parts(run)
        trainable_name = pickle.loads(parts["trainable_name"])
        names: list[str] = pickle.loads(parts.pop(_LARGE, _NONE))
    except UntrustedStateError:
        raise
    except Exception as error:  # a damaged pickle raises whatever its bytes happen to say
        raise TuneError(
            f"{run.tuner} cannot be read ({type(error).__name__}: {error}); without it the run cannot go on"
        ) from error
    objects = ObjectStore.to_read(run.objects)
    load = partial(_load, run, parts, lambda place: objects.load(names[place], keep=True))
    tune_config = _config(load, parts, "tune_config", TuneConfig())
    run_config = _config(load, parts, "run_config", RunConfig())
    storage, name = os.path.split(run.path)
    run_config = replace(run_config, name=name, storage_path=storage, local_dir=None)
    lost = tuple(name for name, data in parts.items() if data == _LOST)
    space = {} if "param_space" in lost else load("param_space")
    checkpoints = load(_CHECKPOINTS) if _CHECKPOINTS in parts else [run_config.checkpoint_config]
    return RecordedTuner(trainable_name, space, tune_config, run_config, checkpoints, lost, objects)


def load_checkpoint_configs(run: RunDirectory) -> Sequence[CheckpointConfig]:
    """Which checkpoints each experiment of a run kept; nothing, and a warning, where the run's file does not say so.

    Args:
        run: The run's directory.

    Raises:
        UntrustedStateError: If somebody else may have written the file.
    """
    try:
        configs: Sequence[CheckpointConfig] = pickle.loads(_parts(run)[_CHECKPOINTS])
    except UntrustedStateError:
        raise
    except Exception as error:
        logger.warning("%s does not say which checkpoints were kept (%r): pass checkpoint_config", run.tuner, error)
        return ()
    return configs


def _parts(run: RunDirectory) -> dict[str, bytes]:
    check_trusted(run.path)
    check_trusted(run.tuner)
    with open(run.tuner, "rb") as file:
        parts: dict[str, bytes] = pickle.load(file)
    return parts


def _config(load: Callable[[str], Any], parts: dict[str, bytes], name: str, default: Any) -> Any:
    known = {entry.name for entry in fields(default)}
    prefix = f"{name}."
    values = {
        key.removeprefix(prefix): load(key)
        for key in parts
        if key.startswith(prefix) and key.removeprefix(prefix) in known and parts[key] != _LOST
    }
    return replace(default, **values)


def _load(run: RunDirectory, parts: dict[str, bytes], resolve: Callable[[int], Any], name: str) -> Any:
    try:
        return loads_referring(parts[name], resolve)
    except Exception as error:
        raise TuneError(f"{name} in {run.tuner} cannot be loaded ({type(error).__name__}: {error})") from error
