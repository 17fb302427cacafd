"""Runs the script of a user as Python would, perhaps only up to the run that is wanted."""

from __future__ import annotations

import ast
import importlib.machinery
import os
import sys
import types
from collections.abc import Callable, Sequence

from minitune.base import files
from minitune.driver.plan import Plan, PlanFound, offering_plans
from minitune.error import TuneError, format_traceback


def plan_of_script(path: str, arguments: Sequence[str], is_wanted: Callable[[Plan], bool]) -> Plan:
    """Run a script as `__main__`, as Python would, up to the `fit()` or `run()` of the wanted plan, and return it.
    Earlier plans are run. Blocks.

    Raises:
        TuneError: If the script ends without the wanted plan, or fails.
        OSError: If the script cannot be read.
    """
    with open(path, "rb"):  # an error of the script itself may be an OSError, too
        pass
    try:
        run_script(path, arguments, is_wanted)
    except PlanFound as found:
        return found.plan
    except Exception as error:
        raise TuneError(f"{path} has failed before its fit():\n{format_traceback(error).rstrip()}") from error
    raise TuneError(f"{path} has ended without a fit() or run() of this trainable")


def run_script(path: str, arguments: Sequence[str], ends_at: Callable[[Plan], bool]) -> None:
    """Run a script as `__main__`, as Python would. Blocks. Raises what the script raises. `ends_at` is called with each
    `Plan` that is about to run; True ends the script.

    It stays the `__main__` of this process, where the trainable finds its names. A file with a relative import runs as
    by `python -m package.module`, since Python runs it in no other way.
    """
    file = os.path.abspath(path)
    with open(file, "rb") as script:
        source = script.read()
    # Functions of the script must find their globals in `__main__`, as when Python runs it.
    main = types.ModuleType("__main__")
    main.__file__ = file
    sys.modules["__main__"] = main
    sys.argv[:] = [path, *arguments]
    code = compile(source, file, "exec", dont_inherit=True)
    if any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(ast.parse(source))):
        top, name = _module_of(file)
        sys.path[:0] = [top]
        main.__spec__ = importlib.machinery.ModuleSpec(name, None, origin=file)
        main.__package__ = name.rpartition(".")[0]
    else:
        sys.path[:0] = [os.path.dirname(file)]
    with offering_plans(ends_at):
        if main.__package__:
            importlib.import_module(main.__package__)
        exec(code, vars(main))


def _module_of(file: str) -> tuple[str, str]:
    """The directory in which the outermost package of a module lies, and the module's name."""
    own = os.path.dirname(file)
    top = own
    while os.path.exists(os.path.join(top, "__init__.py")):
        top = os.path.dirname(top)
    if top == own:  # packages need no `__init__.py`
        top = files.working_directory() or own
    return top, os.path.relpath(file.removesuffix(".py"), top).replace(os.sep, ".")
