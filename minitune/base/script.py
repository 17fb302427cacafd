"""What user code sees of the script that has started a run: path, arguments, and the main module's file and name.

A worker has them before it imports the user's first module, which may read them: an argument parser at its top, or
`multiprocessing`, whose spawned children import the main module from its file.
"""

from __future__ import annotations

import importlib.machinery
import os
import sys
from typing import Any

from minitune.base.files import search_path


def script_here() -> tuple[Any, ...]:
    """The script of this process, for `take_script` in another one; `marshal` can pack it. The last field is the name
    of a main module that `python -m` runs, or None.
    """
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    name = getattr(getattr(main, "__spec__", None), "name", None)
    return tuple(map(str, search_path())), tuple(map(str, sys.argv)), file and os.path.abspath(file), name


def take_script(script: tuple[Any, ...]) -> None:
    """Show user code of this process the script of another one."""
    path, arguments, file, name = script
    sys.path[:] = path
    sys.argv[:] = arguments
    main = sys.modules["__main__"]
    if file is not None:
        main.__file__ = file
    if name is not None:
        main.__spec__ = importlib.machinery.ModuleSpec(name, None)
        main.__package__ = name.rpartition(".")[0]
