"""How workers are started: a launcher starts them, watches them, and kills them with all their descendants.

Each worker has a name, the *token*, and a *marker*: the group's identifier and the token.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import NamedTuple, Protocol

from minitune.actor.loop import Socket
from minitune.actor.process_tree import RUN_VARIABLE, TRIAL_VARIABLE, WITHIN_VARIABLE, marker_of
from minitune.base.settings import setting


class End(NamedTuple):
    """The end of a worker: it is dead with all its descendants, or some of them cannot be killed.

    Attributes:
        kind: `"died"`; `"lost"` if its parent process has failed; `"refused"` if it could not be started.
        reason: Why it was lost or refused.
        pid: The process; 0 if there is none known.
        exit_code: As in `subprocess`: negative for a signal; None if unknown.
        peak_bytes: Its peak resident memory.
        ended_s: When the process died, in seconds since the epoch; these are 0 if unknown.
        survivors: Whether some process of its tree could not be killed.
    """

    kind: str = "died"
    reason: str = ""
    pid: int = 0
    exit_code: int | None = None
    peak_bytes: int = 0
    ended_s: float = 0.0
    survivors: bool = False


# Called once, with the end of a worker.
OnEnd = Callable[[End], object]


class Launcher(Protocol):
    """Starts workers, watches them and kills their trees. Only `close` blocks."""

    @property
    def importing(self) -> str:
        """The package that a preload is importing at the moment, if that takes long; otherwise empty."""
        return ""

    @property
    def hello_s(self) -> float:
        """Seconds that a worker may take until its first message."""
        ...

    def launch(self, on_end: OnEnd, preload: bool) -> tuple[int, Socket, Socket]:
        """Start a worker; `preload` lets it use the preloaded modules and values. Returns its token, and the driver's
        ends of its pipes. `on_end` gets its end, never from within this method.

        Raises:
            OSError: If no file descriptor is free.
        """
        ...

    def signal(self, token: int, number: int, whole_group: bool) -> None:
        """Send a signal to a worker, or to its whole group, unless it is dead."""
        ...

    def kill(self, token: int) -> None:
        """Kill a worker and all its descendants."""
        ...

    def force(self, token: int) -> None:
        """Kill a worker in another way: `kill` has had no effect in time."""
        ...

    def replace_parent(self, token: int) -> None:
        """Start later workers from another parent: this worker has not begun in time."""
        ...

    def preload(self, action: bytes) -> None:
        """Call a pickled function once for all workers that are launched with `preload`, if the launcher can."""
        ...

    def close(self) -> None:
        """Kill all remaining processes and release all resources. Blocks for a short, bounded time."""
        ...


def new_run_id() -> str:
    """Return the identifier of a new group of workers: 16 hexadecimal digits."""
    return os.urandom(8).hex()


def worker_environment(run_id: str, token: int = 0) -> dict[str, str]:
    """Return the environment for a new process, with its marker. The token 0 is for a process that is no worker."""
    # Runs nest: a trial may run minitune itself. Then an outer run must still find the processes of the inner one.
    outer = [os.environ.get(WITHIN_VARIABLE, ""), os.environ.get(TRIAL_VARIABLE, "")]
    env = dict(os.environ)
    env[RUN_VARIABLE] = run_id
    env[TRIAL_VARIABLE] = marker_of(run_id, token)
    if any(outer):
        env[WITHIN_VARIABLE] = " ".join(filter(None, outer))
    return env


def nesting_depth() -> int:
    """Return in how many workers this process runs, one inside the other."""
    return len(f"{os.environ.get(WITHIN_VARIABLE, '')} {os.environ.get(TRIAL_VARIABLE, '')}".split())


def starting_directory() -> str | None:
    """The directory in which to start an interpreter: None keeps the driver's, unless that was removed.

    In a removed one, Python 3.13 cannot import its own modules.
    """
    try:
        os.getcwd()
    except OSError:
        return os.sep
    return None


def interpreter_command(module: str, *args: int | str | list[str]) -> list[str]:
    """Return the command line of a new interpreter that runs `main(*args)` of one of our modules.

    The working directory is removed from its path before anything is imported, and our package comes from its known
    location: a file such as `signal.py` cannot be imported by mistake.
    """
    package = __name__.partition(".")[0]
    root = os.path.dirname(os.path.abspath(sys.modules[package].__file__ or ""))
    code = (
        "import gc, sys\n"
        "gc.disable()\n"
        "if sys.path[:1] == ['']: del sys.path[0]\n"
        "import importlib.util as util\n"
        f"spec = util.spec_from_file_location({package!r}, {os.path.join(root, '__init__.py')!r},\n"
        f"    submodule_search_locations=[{root!r}])\n"
        f"package = sys.modules[{package!r}] = util.module_from_spec(spec)\n"
        "spec.loader.exec_module(package)\n"
        f"__import__({module!r})\n"
        "gc.freeze()\n"
        "gc.enable()\n"
        "del gc, util, spec, package\n"
        f"__import__({module!r}, fromlist=['main']).main({', '.join(map(repr, args))})\n"
    )
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # as multiprocessing does
    return [sys.executable, *flags, "-c", code]


# -- the start method --------------------------------------------------------------------------------------------------
def start_method() -> str:
    """Return `zygote` if this system supports it, else `interpreter`; the environment variable overrides the choice."""
    able = _can_use_zygote()
    wanted = setting("START_METHOD")
    if wanted not in ("", "zygote", "interpreter"):
        raise ValueError(f"MINITUNE_START_METHOD must be 'zygote' or 'interpreter', but got {wanted!r}")
    if wanted == "zygote" and not able:
        raise ValueError("MINITUNE_START_METHOD=zygote needs Linux with pidfd_open; use 'interpreter'")
    return wanted or ("zygote" if able else "interpreter")


def _can_use_zygote() -> bool:
    """Whether this system supports the zygote; a sandbox may forbid a call that exists, so one is tried."""
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        return False
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError:
        return False
    return True
