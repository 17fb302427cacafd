"""Runs the script of a user as Python would, up to the run that is wanted."""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable, Sequence

from minitune.driver.plan import Plan, PlanFound, offering_plans
from minitune.error import TuneError, format_traceback


def plan_of_script(path: str, arguments: Sequence[str], is_wanted: Callable[[Plan], bool]) -> Plan:
    """Run a script as `__main__`, as Python would, up to the `fit()` or `run()` of the wanted plan, and return it.
    Earlier plans are run. Blocks. The script stays the `__main__` of this process, where the trainable finds its names.

    Raises:
        TuneError: If the script ends without the wanted plan, or fails.
        OSError: If the script cannot be read.
    """
    file = os.path.abspath(path)
    with open(file, "rb") as script:
        source = script.read()
    # Functions of the script must find their globals in `__main__`, as when Python runs it.
    main = types.ModuleType("__main__")
    main.__file__ = file
    sys.modules["__main__"] = main
    sys.argv[:] = [path, *arguments]
    sys.path[:0] = [os.path.dirname(file)]
    try:
        code = compile(source, file, "exec", dont_inherit=True)
        with offering_plans(is_wanted):
            exec(code, vars(main))
    except PlanFound as found:
        return found.plan
    except Exception as error:
        raise TuneError(f"{path} has failed before its fit():\n{format_traceback(error).rstrip()}") from error
    raise TuneError(f"{path} has ended without a fit() or run() of this trainable")
