"""Which launcher this machine gets: a module of its own, since the launchers themselves build on `launch`."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from minitune.actor.launch import Launcher

if TYPE_CHECKING:
    from minitune.actor.loop import Loop
    from minitune.actor.template import Template

START_METHOD_VARIABLE = "MINITUNE_START_METHOD"
"""Environment variable that overrides the choice: `zygote` or `interpreter`."""

_log = logging.getLogger("minitune")


def start_method() -> str:
    """`zygote` where that can work, else `interpreter`; the environment may choose.

    Raises:
        ValueError: If the environment asks for something else, or for what cannot work here.
    """
    able = _can_use_zygote()
    wanted = os.environ.get(START_METHOD_VARIABLE)
    if wanted not in (None, "", "zygote", "interpreter"):
        raise ValueError(f"{START_METHOD_VARIABLE} must be 'zygote' or 'interpreter', but got {wanted!r}")
    if wanted == "zygote" and not able:
        raise ValueError(f"{START_METHOD_VARIABLE}=zygote needs Linux with fork and pidfd_open; use 'interpreter'")
    return wanted or ("zygote" if able else "interpreter")


def _can_use_zygote() -> bool:
    """Whether this system has all that the zygote needs; a sandbox may have the function and forbid the call."""
    if sys.platform != "linux" or not hasattr(os, "fork") or not hasattr(os, "pidfd_open"):
        return False
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError:
        return False
    return True


def make_launcher(
    loop: Loop,
    run_id: str,
    keep_descendants: bool,
    limit_bytes: int,
    needed: Sequence[str] = (),
    ahead: Template | None = None,
) -> Launcher:
    """The launcher for this machine.

    Args:
        loop: The driver's loop.
        run_id: Identifies the group; 16 hexadecimal digits.
        keep_descendants: Whether what a worker started may stay after the worker's normal end.
        limit_bytes: The longest message.
        needed: Modules that all workers need: they are imported once, where workers are copied from.
        ahead: Where the first ones are to be copied from; the launcher closes it.

    Raises:
        ValueError: See `start_method`.
    """
    method = start_method()
    _log.debug("workers are started by the %s method", method)
    if method == "zygote":
        from minitune.actor.zygote_launcher import ZygoteLauncher

        return ZygoteLauncher(loop, run_id, keep_descendants, limit_bytes, needed, ahead)
    from minitune.actor.interpreter_launcher import InterpreterLauncher

    return InterpreterLauncher(loop, run_id, keep_descendants, limit_bytes)
