"""`trainable.pkl`: the trainables of a run, so that a trial can be run again by its name alone."""

from __future__ import annotations

import io
import os
import pickle
import sys
from collections.abc import Sequence
from typing import Any

from minitune.base.files import BLOB_MODE, atomic_write, remove_file
from minitune.error import TuneError
from minitune.execution.ahead import search_path
from minitune.execution.storage import RunDirectory, check_trusted
from minitune.experiment.experiment import Experiment
from minitune.pickling import SmallPickle, load, require_picklable
from minitune.shared import SharedObject
from minitune.trainable.util import bind_parameters

_LIMIT_BYTES = 10_000_000
"""Larger trainables are not kept."""
_PYTHON = "{}.{}".format(*sys.version_info)

_BOUND, _LARGE = "values are bound to it, which are not kept", f"it takes more than {_LIMIT_BYTES // 10**6} MB"


def dump_trainables(experiments: Sequence[Experiment]) -> bytes:
    """The content of a `trainable.pkl`: of each experiment the trainable, or why it is not kept.

    Args:
        experiments: Those of the run.

    Raises:
        TypeError: If one cannot be pickled; the text names the path to the offending member.
    """
    kept = [_kept(experiment.trainable) for experiment in experiments]
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    paths = list(search_path())  # the first one is that of the script's own modules
    parts = {"python": _PYTHON, "script": script and os.path.abspath(script), "paths": paths, "trainables": kept}
    return pickle.dumps(parts)


def _kept(trainable: Any) -> tuple[bytes, list[bytes]] | str:
    bare = bind_parameters(trainable, _checked)
    content = SmallPickle(bare, "the trainable", _LIMIT_BYTES).content()
    return _BOUND if bare is not trainable else content or _LARGE


def _checked(value: Any) -> SharedObject:
    """Stands for a value that is bound to a trainable, which must fit for workers."""
    require_picklable(value, "a value that is bound to the trainable")
    return SharedObject(value)


def write_trainable_file(run: RunDirectory, data: bytes) -> None:
    """Write `trainable.pkl`. A disk that takes no more is not told of here: what the run itself needs will say so.

    Args:
        run: The run's directory.
        data: From `dump_trainables`.
    """
    try:
        atomic_write(run.trainable, data, BLOB_MODE)
    except OSError:
        remove_file(run.trainable)  # of an earlier driver, whose trainable may have been another one


def load_trainable(
    run: RunDirectory, number: int = 0, *, way_out: str = "pass the script that it comes from: --script {}"
) -> Any:
    """The trainable of a run. This executes code of whoever wrote it.

    Args:
        run: The run's directory.
        number: Of the experiment.
        way_out: What to do without it, where the script goes into the braces.

    Raises:
        TuneError: If it was not kept, or cannot be loaded; the text says what to do instead.
        UntrustedStateError: If somebody else may have written it.
    """
    hint = way_out.format("FILE.py")
    check_trusted(run.path)
    if not os.path.exists(run.trainable):
        raise TuneError(f"{run.path} holds no trainable; {hint}")
    check_trusted(run.trainable)
    try:
        with open(run.trainable, "rb") as file:
            parts: dict[str, Any] = pickle.load(file)
        kept, python = parts["trainables"][number], parts["python"]
        hint = way_out.format(parts["script"] or "FILE.py")
    except Exception as error:  # a damaged pickle raises whatever its bytes happen to say
        raise TuneError(f"{run.trainable} cannot be read ({type(error).__name__}: {error}); {hint}") from error
    if isinstance(kept, str):
        raise TuneError(f"the trainable is not in the run's directory: {kept}; {hint}")
    if python != _PYTHON:
        raise TuneError(f"the trainable was pickled by Python {python}, and this is {_PYTHON}; use that one, or {hint}")
    data, buffers = kept
    _find_modules_in(parts["paths"])
    try:
        return load(io.BytesIO(data), [memoryview(bytearray(buffer)) for buffer in buffers])
    except Exception as error:
        raise TuneError(f"the trainable cannot be loaded here ({type(error).__name__}: {error}); {hint}") from error


def _find_modules_in(paths: Sequence[str]) -> None:
    """Let modules be found where the run's driver found them; those that are found already stay what they are."""
    own, *others = paths or [""]
    sys.path[:0] = [own] if own not in sys.path and os.path.isdir(own) else []
    sys.path.extend(path for path in others if path not in sys.path and os.path.exists(path))
