"""How workers come into being: what a launcher is, what every launcher needs, and the start method of this machine.

A driver loads this module and the template before all else of this package, so it must load little.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Protocol

from minitune.actor.process_tree import RUN_VARIABLE, TRIAL_VARIABLE, WITHIN_VARIABLE

if TYPE_CHECKING:
    from minitune.actor.channel import DriverEnd

START_METHOD_VARIABLE = "MINITUNE_START_METHOD"
"""Environment variable that overrides the choice of how workers start: `zygote` or `interpreter`."""


class Listener(Protocol):
    """Hears the events of a process. `on_gone` or `on_refused` is the last call, and the only one that must come."""

    def on_started(self, pid: int) -> None:
        """There is a process."""

    def on_refused(self, reason: str) -> None:
        """No process could be made; this does not count as a failure of the trial."""

    def on_lost(self, reason: str) -> None:
        """The process that carries this one has failed; this one will die of that."""

    def on_dead(self) -> None:
        """The process is dead."""

    def on_exited(self, exit_code: int | None, peak_bytes: int) -> None:
        """The process is dead, but not yet all that it had started."""

    def on_gone(self, exit_code: int | None, peak_bytes: int, survivors: bool) -> None:
        """The process and all that it had started are dead; or not, after all attempts, if there are `survivors`."""


class Launcher(Protocol):
    """Makes processes, watches them and kills their trees. Nothing blocks but `close`."""

    importing: str
    """The package that a preload imports at this moment, if that takes long; else empty."""

    @property
    def hello_s(self) -> float:
        """How long a worker may take to its first word."""
        ...

    def launch(self, listener: Listener, preload: bool, alone: bool = False) -> tuple[str, DriverEnd, DriverEnd]:
        """Make a worker.

        Args:
            listener: Gets the events. Never called from within this method.
            preload: Whether what was preloaded is of use to it.
            alone: Whether nothing that carries it may carry others, too.

        Returns:
            Its name, for the other methods, and the driver's ends of its control channel and its report pipe.

        Raises:
            OSError: If there are no descriptors left.
        """
        ...

    def signal(self, token: str, number: int, whole_group: bool) -> None:
        """Send a signal to a worker, or to its whole process group. Nothing happens if it is gone."""
        ...

    def kill(self, token: str) -> None:
        """Kill a worker and all that it has started."""
        ...

    def force(self, token: str) -> None:
        """`kill` was not answered in time: do it in another way."""
        ...

    def is_ending(self, pid: int) -> bool:
        """Whether a worker whose channel has ended is dead or about to be, and that will be told."""
        ...

    def preload(self, action: bytes) -> None:
        """Call a pickled function once for all workers that will be launched with `preload`, where that is possible."""
        ...

    def close(self) -> None:
        """Kill everything that is left and free everything. Blocks for a short, bounded time."""
        ...


def new_run_id() -> str:
    """The mark of a group: 16 hexadecimal digits."""
    return os.urandom(8).hex()


def marker_of(run_id: str, token: str) -> str:
    """The marker of a worker. All markers have the same length."""
    return f"{run_id}.{int(token):010d}"


def worker_environment(run_id: str, token: str = "0") -> dict[str, str]:
    """The environment to start a process with, so that it and all its descendants can be found.

    Args:
        run_id: Identifies the group.
        token: The worker; 0 for what is not one itself.
    """
    outer = [os.environ.get(WITHIN_VARIABLE, ""), os.environ.get(TRIAL_VARIABLE, "")]
    env = dict(os.environ)
    env[RUN_VARIABLE] = run_id
    env[TRIAL_VARIABLE] = marker_of(run_id, token)
    if any(outer):
        env[WITHIN_VARIABLE] = " ".join(filter(None, outer))
    return env


def nesting_depth() -> int:
    """How many actors this process runs within, one in the other."""
    return len(f"{os.environ.get(WITHIN_VARIABLE, '')} {os.environ.get(TRIAL_VARIABLE, '')}".split())


def starting_directory() -> str | None:
    """Where to start an interpreter: None is the driver's directory.

    If that has been removed it is the root, since Python does not start in no place with a relative PYTHONPATH.
    """
    try:
        os.getcwd()
    except OSError:
        return os.sep
    return None


def interpreter_command(module: str, *args: int | str | list[str]) -> list[str]:
    """The command line of a new interpreter that runs `main(*args)` of one of our modules.

    The interpreter gets the driver's flags. The working directory is taken from its path before anything is imported,
    and our package is found by its place and not through the path: a `signal.py` that lies about must not be found.
    """
    package = __name__.partition(".")[0]
    root = os.path.dirname(os.path.abspath(sys.modules[package].__file__ or ""))
    code = (
        "import sys\n"
        "if sys.path[:1] == ['']: del sys.path[0]\n"
        "import importlib.util as util\n"
        f"spec = util.spec_from_file_location({package!r}, {os.path.join(root, '__init__.py')!r},\n"
        f"    submodule_search_locations=[{root!r}])\n"
        f"package = sys.modules[{package!r}] = util.module_from_spec(spec)\n"
        "spec.loader.exec_module(package)\n"
        "del util, spec, package\n"
        f"__import__({module!r}, fromlist=['main']).main({', '.join(map(repr, args))})\n"
    )
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # as multiprocessing does
    return [sys.executable, *flags, "-c", code]


# -- the start method --------------------------------------------------------------------------------------------------
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
