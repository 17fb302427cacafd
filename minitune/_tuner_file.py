"""`tuner.pkl`: configs and space of a run, so that it can be resumed; each component pickled on its own."""

from __future__ import annotations

import logging
import os
import pickle
from dataclasses import dataclass, fields, replace
from typing import Any

from minitune.base.files import BLOB_MODE, atomic_write
from minitune.config import RunConfig
from minitune.error import RunNotFoundError, TuneError
from minitune.execution.storage import RunDirectory, check_trusted, is_run
from minitune.pickling import dumps_for_later
from minitune.tune_config import TuneConfig

logger = logging.getLogger("minitune")

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
        lost: Names of the settings that could not be pickled, such as `tune_config.search_alg`.
    """

    trainable_name: str
    param_space: dict[str, Any]
    tune_config: TuneConfig
    run_config: RunConfig
    lost: tuple[str, ...] = ()


def dump_tuner(recorded: RecordedTuner) -> bytes:
    """The content of a `tuner.pkl`. What cannot be pickled is left out, with a warning, and spoils nothing else.

    Args:
        recorded: What it is to hold.
    """
    parts: dict[str, bytes] = {"trainable_name": pickle.dumps(recorded.trainable_name)}
    _add(parts, "param_space", recorded.param_space)
    for name in ("tune_config", "run_config"):
        config = getattr(recorded, name)
        for entry in fields(config):
            if entry.name == "executor" and not isinstance(config.executor, str):
                logger.info("tune_config.executor is an object and is not recorded: pass it again to resume this run")
                continue
            _add(parts, f"{name}.{entry.name}", getattr(config, entry.name))
    return pickle.dumps(parts)


def write_tuner_file(run: RunDirectory, data: bytes, *, sync: bool) -> None:
    """Write `tuner.pkl`: before the first record, so that a run that has begun can be resumed.

    Args:
        run: The run's directory.
        data: From `dump_tuner`.
        sync: True to bring it to the disk before returning; blocks for it.

    Raises:
        TuneError: If it cannot be written.
    """
    try:
        atomic_write(run.tuner, data, BLOB_MODE, sync)
    except OSError as error:
        raise TuneError(f"{run.tuner} cannot be written ({error.strerror or error}); check path and disk") from error


def _add(parts: dict[str, bytes], name: str, value: Any) -> None:
    if value is None or isinstance(value, (str, int, float, bool)):
        parts[name] = pickle.dumps(value)
        return
    try:
        parts[name] = dumps_for_later(value, name)
    except TypeError as error:
        logger.warning("%s; to resume this run it must be passed again", error)
        parts[name] = _LOST


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
    check_trusted(run.path)
    try:
        check_trusted(run.tuner)
        with open(run.tuner, "rb") as file:
            parts: dict[str, bytes] = pickle.load(file)
        trainable_name = pickle.loads(parts["trainable_name"])
    except Exception as error:  # a damaged pickle raises whatever its bytes happen to say
        raise TuneError(
            f"{run.tuner} cannot be read ({type(error).__name__}: {error}); without it the run cannot go on"
        ) from error
    tune_config = _config(run, parts, "tune_config", TuneConfig())
    run_config = _config(run, parts, "run_config", RunConfig())
    storage, name = os.path.split(run.path)
    run_config = replace(run_config, name=name, storage_path=storage, local_dir=None)
    lost = tuple(name for name, data in parts.items() if data == _LOST)
    space = {} if "param_space" in lost else _load(run, parts, "param_space")
    return RecordedTuner(trainable_name, space, tune_config, run_config, lost)


def _config(run: RunDirectory, parts: dict[str, bytes], name: str, default: Any) -> Any:
    known = {entry.name for entry in fields(default)}
    prefix = f"{name}."
    values = {
        key.removeprefix(prefix): _load(run, parts, key)
        for key in parts
        if key.startswith(prefix) and key.removeprefix(prefix) in known and parts[key] != _LOST
    }
    return replace(default, **values)


def _load(run: RunDirectory, parts: dict[str, bytes], name: str) -> Any:
    try:
        return pickle.loads(parts[name])
    except Exception as error:
        raise TuneError(f"{name} in {run.tuner} cannot be loaded ({type(error).__name__}: {error})") from error
