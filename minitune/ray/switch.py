"""The switch after which `import ray` means this package, for libraries and scripts that tune with Ray.

`import minitune.as_ray` calls `turn_on()`, `undo()` turns it off. The directory `stand_in` holds a package `ray` that
is `minitune.ray`, and the metadata of a distribution `ray`. The switch puts this directory on `sys.path`, where the
import system, `importlib.metadata` and `pip` all find it, and on `PYTHONPATH`, for the programs that this process
starts.
Workers of trials have the driver's `sys.path`.
"""

from __future__ import annotations

import importlib.machinery
import logging
import os
import sys

from minitune.ray.names import RAY

logger = logging.getLogger("minitune")

DIRECTORY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stand_in")
_PYTHONPATH = "PYTHONPATH"
_VARIABLE = "MINITUNE_AS_RAY"


def turn_on() -> None:
    """Let `import ray`, and the imports of the modules below it, mean this package, here and in new child processes.

    A second call does nothing. If Ray itself is installed, a warning
    says that the program does not use it.

    Raises:
        ImportError: If Ray itself is already imported, or the program has a module `ray` of its own. Nothing changes.
    """
    loaded = sys.modules.get(RAY)
    if loaded is not None and not _is_ours(loaded):
        raise ImportError(
            f"ray is already imported, from {getattr(loaded, '__file__', None)}: import minitune.as_ray before the "
            "first import of ray, also before the libraries that import it"
        )
    if DIRECTORY not in sys.path:
        installed = importlib.machinery.PathFinder.find_spec(RAY)
        # Behind the script's directory, where the interpreter puts the entries of PYTHONPATH.
        sys.path.insert(1, DIRECTORY)
        found = importlib.machinery.PathFinder.find_spec(RAY)
        if found is None or not str(found.origin).startswith(DIRECTORY):
            sys.path.remove(DIRECTORY)
            raise ImportError(f"{found and found.origin} takes the place of ray: rename it to use minitune.as_ray")
        if installed is not None and installed.origin is not None:
            logger.warning(
                "Ray is installed (%s), but minitune.as_ray is on: `import ray` means minitune",
                os.path.dirname(installed.origin),
            )
    entries = _entries()
    if DIRECTORY not in entries:
        os.environ[_PYTHONPATH] = os.pathsep.join([DIRECTORY, *entries])


def undo() -> None:
    """Let `import ray` mean what it meant before, here and in new child processes.

    Objects that were imported stay what they are. A later import finds Ray, or raises `ModuleNotFoundError`.
    """
    for name in list(sys.modules):
        if name == RAY or name.startswith(f"{RAY}."):
            del sys.modules[name]
    sys.path[:] = [entry for entry in sys.path if entry != DIRECTORY]
    others = [entry for entry in _entries() if entry != DIRECTORY]
    if others:
        os.environ[_PYTHONPATH] = os.pathsep.join(others)
    else:
        os.environ.pop(_PYTHONPATH, None)
    os.environ.pop(_VARIABLE, None)


def _entries() -> list[str]:
    text = os.environ.get(_PYTHONPATH, "")
    return text.split(os.pathsep) if text else []


def _is_ours(module: object) -> bool:
    """Whether it is `minitune.ray`, or the package that is about to give its place to it."""
    is_stand_in = str(getattr(module, "__file__", "")).startswith(DIRECTORY)
    return is_stand_in or module is sys.modules.get(f"minitune.{RAY}")
