"""The files from which a run is resumed: `tuner.pkl` and `trainable.pkl`.

`tuner.pkl` holds the configs and the search space. Each component is pickled separately, so that one that cannot be
loaded does not affect the others. `trainable.pkl` holds the trainable, so that a trial can be run again without the
script.
"""

from __future__ import annotations

import logging
import os
import pickle
import sys
from dataclasses import fields, replace
from typing import Any, NamedTuple

from minitune.base.disk import refusal
from minitune.base.files import BLOB_MODE, atomic_write, new_file, search_path
from minitune.base.pickling import dumps_for_later, dumps_small, loads_referring, require_picklable
from minitune.base.shared_values import PYTHON, ObjectRef, ObjectStore, holds_code
from minitune.config import RunConfig
from minitune.error import RunNotFoundError, TuneError, UntrustedStateError
from minitune.record.layout import RunDirectory, is_run, no_run
from minitune.record.lock import check_trusted
from minitune.tune_config import TuneConfig

logger = logging.getLogger("minitune")

# The part with the version of Python that has pickled the others.
_PYTHON = "python"

# The part with what stands for the values of `put`. The values themselves are in the run's object store.
_PUT = "put_values"

# Replaces the pickle of a value that cannot be pickled.
_LOST = b""

# Larger trainables are not stored.
_LIMIT_BYTES = 10_000_000

_BOUND = "it has bound values, which are not stored"
_TOO_LARGE = f"it takes more than {_LIMIT_BYTES // 10**6} MB"


# -- tuner.pkl ---------------------------------------------------------------------------------------------------------


class RecordedTuner(NamedTuple):
    """The content of `tuner.pkl`.

    Attributes:
        lost: Names of settings that could not be pickled, such as `tune_config.search_alg`.
    """

    trainable_name: str
    param_space: dict[str, Any]
    tune_config: TuneConfig
    run_config: RunConfig
    lost: tuple[str, ...] = ()


class TunerContent(NamedTuple):
    """The content of a `tuner.pkl`: pickles by name, with indices of references of `put`."""

    parts: dict[str, bytes]
    references: list[ObjectRef]


def dump_tuner(recorded: RecordedTuner) -> TunerContent:
    """Pickle the content of a `tuner.pkl`. What cannot be pickled is left out, with a warning."""
    parts: dict[str, bytes] = {"trainable_name": pickle.dumps(recorded.trainable_name)}
    references: list[ObjectRef] = []
    _add(parts, references, "param_space", recorded.param_space)
    for name in ("tune_config", "run_config"):
        config = getattr(recorded, name)
        for entry in fields(config):
            if entry.name == "executor" and not isinstance(config.executor, str):
                logger.info("tune_config.executor is an object and is not recorded: pass it again to resume this run")
                continue
            _add(parts, references, f"{name}.{entry.name}", getattr(config, entry.name))
    return TunerContent(parts, references)


def write_tuner_file(run: RunDirectory, content: TunerContent) -> None:
    """Write `tuner.pkl`, before the first record, so that every run with a record can be resumed.

    Blocks until the files are on the disk. TuneError: a file cannot be written.
    """
    objects = ObjectStore.of(run.objects)
    try:
        # The values come first, so that the file never names one that does not exist.
        kept = [_taken_in(reference, objects) for reference in content.references]
        objects.sync()
        with new_file(run.tuner, BLOB_MODE, sync=True) as file:
            parts = {**content.parts, _PUT: pickle.dumps(kept), _PYTHON: pickle.dumps(PYTHON)}
            pickle.dump(parts, file)
    except OSError as error:
        raise _not_begun(run.tuner, error) from error


def _add(parts: dict[str, bytes], references: list[ObjectRef], name: str, value: Any) -> None:
    """Add the pickle of a value to `parts`, and the references in it to `references`."""
    if value is None or isinstance(value, (str, int, float, bool)):
        parts[name] = pickle.dumps(value)
        return

    def refer(part: Any) -> int | None:
        if not isinstance(part, ObjectRef):
            return None
        references.append(part)
        return len(references) - 1

    try:
        parts[name] = dumps_for_later(value, name, refer)
    except TypeError as error:
        logger.warning("%s; pass it again to resume this run", error)
        parts[name] = _LOST


_Kept = tuple[str, int] | ObjectRef
"""A reference of `put`: the name of the run's copy of the value and the number; itself if the value was gone."""


def _taken_in(reference: ObjectRef, objects: ObjectStore) -> _Kept:
    stored = objects.take_in(reference.path)
    return reference if stored is None else (stored.name, reference.number)


def load_tuner_file(run: RunDirectory) -> RecordedTuner:
    """Read `tuner.pkl`. This executes code that its author chose.

    Raises:
        RunNotFoundError: If the directory holds no run.
        TuneError: If the file or a part of it cannot be read; the text names the part.
        UntrustedStateError: If another user may have written the file.
    """
    if not is_run(run.path):
        raise RunNotFoundError(no_run(run.path))
    try:
        file = _TunerFile(run)
        trainable_name = pickle.loads(file.parts["trainable_name"])
    except UntrustedStateError:
        raise
    except Exception as error:  # a damaged pickle raises whatever its bytes happen to say
        raise TuneError(
            f"{run.tuner} cannot be read ({type(error).__name__}: {error}); without it the run cannot be resumed"
        ) from error
    # The run may have been moved or renamed, so its present place counts.
    storage, name = os.path.split(run.path)
    run_config = replace(file.config("run_config", RunConfig()), name=name, storage_path=storage, local_dir=None)
    lost = tuple(name for name, data in file.parts.items() if data == _LOST)
    return RecordedTuner(
        trainable_name,
        {} if "param_space" in lost else file.load("param_space"),
        file.config("tune_config", TuneConfig()),
        run_config,
        lost,
    )


class _TunerFile:
    """A `tuner.pkl`. Loading it executes code that its author chose."""

    def __init__(self, run: RunDirectory):
        check_trusted(run.path)
        check_trusted(run.tuner)
        with open(run.tuner, "rb") as file:
            self.parts: dict[str, bytes] = pickle.load(file)
        self._objects = ObjectStore.of(run.objects)
        self._path = run.tuner
        self._python: str = pickle.loads(self.parts.pop(_PYTHON))
        self._kept: list[_Kept] = pickle.loads(self.parts.pop(_PUT))

    def load(self, name: str) -> Any:
        if self._python != PYTHON and holds_code(self.parts[name]):  # the interpreter may crash when it runs the code
            raise TuneError(
                f"{name} in {self._path} contains code of Python {self._python}, which Python {PYTHON} cannot run; "
                f"resume with Python {self._python}, or move its functions and classes to an importable module and "
                "start a new run"
            )
        try:
            return loads_referring(self.parts[name], self._reference)
        except Exception as error:
            raise TuneError(f"{name} in {self._path} cannot be loaded ({type(error).__name__}: {error})") from error

    def _reference(self, place: int) -> ObjectRef:
        kept = self._kept[place]
        if isinstance(kept, ObjectRef):
            return kept
        name, number = kept
        return ObjectRef(self._objects.path_of(name), number)

    def config(self, name: str, default: Any) -> Any:
        """Load a config, with defaults for lost fields."""
        found = {field.name: f"{name}.{field.name}" for field in fields(default)}
        return replace(
            default,
            **{field: self.load(part) for field, part in found.items() if self.parts.get(part, _LOST) != _LOST},
        )


# -- trainable.pkl -----------------------------------------------------------------------------------------------------


def dump_trainable(bare: Any, has_values: bool) -> bytes:
    """The content of a `trainable.pkl`: the trainable, or the reason why it is not stored.

    Args:
        bare: The trainable without the values that are bound to it.
        has_values: Whether there are any.

    Raises:
        TypeError: If it cannot be pickled, with the path to the offending member.
    """
    kept: bytes | str | None = dumps_small(bare, "the trainable", _LIMIT_BYTES)
    if kept is None:
        require_picklable(bare, "the trainable")
        kept = _TOO_LARGE
    elif has_values:
        kept = _BOUND
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    paths = search_path()  # the first path is the directory of the script
    parts = {"python": PYTHON, "script": script and os.path.abspath(script), "paths": paths, "trainable": kept}
    return pickle.dumps(parts)


def write_trainable_file(run: RunDirectory, data: bytes) -> None:
    """Write `trainable.pkl`, or raise a TuneError."""
    try:
        atomic_write(run.trainable, data, BLOB_MODE)
    except OSError as error:
        raise _not_begun(run.trainable, error) from error


def _not_begun(path: str, error: OSError) -> TuneError:
    """The error of a run whose first files cannot be written."""
    return TuneError(f"{refusal(path, 'written', error)}; free some space, or choose another storage_path")


def load_trainable(run: RunDirectory, *, way_out: str = "pass its script: --script {}") -> Any:
    """Load the trainable of a run. This executes code that its author chose, and extends `sys.path`.

    `way_out` is advice for the error, with braces for the script's path.

    Raises:
        TuneError: If it was not stored or cannot be loaded, with a way out.
        UntrustedStateError: If another user may have written the file.
    """
    hint = way_out.format("FILE.py")
    check_trusted(run.path)
    try:
        check_trusted(run.trainable)
        with open(run.trainable, "rb") as file:
            parts: dict[str, Any] = pickle.load(file)
        kept = parts["trainable"]
        python = parts["python"]
        hint = way_out.format(parts["script"] or "FILE.py")
    except UntrustedStateError:
        raise
    except Exception as error:  # a damaged pickle raises whatever its bytes happen to say
        raise TuneError(f"{run.trainable} cannot be read ({type(error).__name__}: {error}); {hint}") from error
    if isinstance(kept, str):
        raise TuneError(f"the trainable is not in the run's directory: {kept}; {hint}")
    if python != PYTHON:
        raise TuneError(f"the trainable was pickled by Python {python}, and this is {PYTHON}; use that one, or {hint}")
    # Find modules where the run's driver found them. Only the script's directory goes before the paths of this process.
    own, *others = parts["paths"] or [""]
    sys.path[:0] = [own] if own not in sys.path and os.path.isdir(own) else []
    sys.path.extend(path for path in others if path not in sys.path and os.path.exists(path))
    try:
        return pickle.loads(kept)
    except Exception as error:
        raise TuneError(f"the trainable cannot be loaded here ({type(error).__name__}: {error}); {hint}") from error
