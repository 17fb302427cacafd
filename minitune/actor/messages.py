"""What driver and worker say to each other, and what an `ActorGroup` tells its user.

::

    driver                                                      worker
      | Boot(place, factory, sys_path, argv) -->                  (may be sent before the worker lives)
      | <-- Hello(pid)                                            before any user code
      |                                                           obj = factory(executor), on the main thread
      | <-- Returned(0) | Raised(0, error)
      | Call(n, method, payload) -->                              obj.method(*args), on the control thread
      | <-- Returned(n, payload) | Raised(n, error)               when the value, or the Future that it is, is done
      | Quit(n) -->                                               obj.stop(); exit 0
      | Show() -->                                                the stacks of all threads go to standard error
      |     after the grace period: Show, SIGTERM; then the whole tree is killed
      : process end (not end-of-file)  =>  read what was sent, wait for the whole tree, then Ended
      |
      | Quit(n, keep=True) -->                                    obj.park(), or obj.stop() if it has none
      | <-- Returned(n)                                           parked; or it leaves, if it cannot be kept
      | Move(n, place) -->                                        everything as it was at the start, then the new place
      | Call(n + 1, method, payload) -->                          may be sent with it, before the answer
      | <-- Returned(n) | Raised(n, error)                        after an error the call gets no answer
      |                                                           left out before Returned(n + 1), if that comes at once

Calls go in strict turns: one call, one reply; `n` grows by one. Payloads are opaque bytes: a frame's envelope is plain
data, so that a bad object can hurt nobody but the one who asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from minitune.error import RemoteError

# -- over the channel ------------------------------------------------------------------------------------------


class Place(NamedTuple):
    """The surroundings of a worker.

    Attributes:
        directory: Working directory; None keeps the driver's.
        stdout: File that standard output is appended to; None keeps the driver's.
        stderr: The same for standard error; it may be the same file.
        env: Environment variables to set, or to remove where the value is None.
        umask: The file mode mask; None keeps the driver's.
        own: The directory of the worker's own files: neither it nor the two files, if they are in it, may be links.
            Other files are the user's choice.
    """

    directory: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    env: Mapping[str, str | None] = MappingProxyType({})
    umask: int | None = None
    own: str | None = None


class Boot(NamedTuple):
    """Driver to worker: where you are and what to make.

    Attributes:
        place: The worker's surroundings.
        factory: Pickled callable: `factory(executor)` makes the object.
        sys_path: The driver's `sys.path`, absolute.
        argv: The driver's `sys.argv`.
        limit_bytes: The longest body that the worker may send.
    """

    place: Place
    factory: bytes
    sys_path: tuple[str, ...] = ()
    argv: tuple[str, ...] = ()
    limit_bytes: int = 0


class Call(NamedTuple):
    """Driver to worker: call a method. The payload is the pickled tuple of arguments, empty if there is none."""

    number: int
    method: str
    payload: bytes = b""


class Quit(NamedTuple):
    """Driver to worker: end what runs and leave; or, with `keep`, end what runs and stay for another use."""

    number: int
    keep: bool = False


class Show(NamedTuple):
    """Driver to worker: write the stacks of all threads to standard error. No answer."""


class Move(NamedTuple):
    """Driver to a parked worker: clean up and take a new place."""

    number: int
    place: Place


class Hello(NamedTuple):
    """Worker to driver: I live. Sent before any user code runs."""

    pid: int


class Returned(NamedTuple):
    """Worker to driver: the call has returned. An empty payload stands for None."""

    number: int
    payload: bytes = b""


class Raised(NamedTuple):
    """Worker to driver: the call has raised; the worker lives on."""

    number: int
    error: RemoteError


Message = Boot | Call | Quit | Show | Move | Hello | Returned | Raised

# -- events of an ActorGroup -----------------------------------------------------------------------------------


class Ready(NamedTuple):
    """The object is made; it can be called."""

    actor_id: str
    pid: int


class Replied(NamedTuple):
    """The call in flight has returned `value`."""

    actor_id: str
    value: Any


class Failed(NamedTuple):
    """The call in flight, or the making of the object, has raised; the actor lives on."""

    actor_id: str
    error: RemoteError


class Parked(NamedTuple):
    """The actor was stopped with `keep=True` and waits for `move`. Nothing else follows under this id."""

    actor_id: str


class Ended(NamedTuple):
    """The actor's process is gone, and everything that it had started. Always the last event of an actor.

    Attributes:
        actor_id: The actor.
        stopped: It had been asked to stop.
        lost: The actor is not to blame: what carried it failed, or there were no processes left.
        orphaned: It is lost because what carried it has died under it: it had a process.
        cause: In words: `exit code 3`, `SIGKILL (9)`, `stopped`, or what went wrong.
        exit_code: As in `subprocess`, negative for a signal; None if unknown.
        peak_bytes: Peak resident memory of the process, 0 if unknown.
        last_lines: The end of what it printed, if it did not end well.
        pid: Its process, 0 if it never had one.
        ready: Whether its object had been made.
        survivors: False, unless after the kill something of its tree could not be seen to die.
    """

    actor_id: str
    stopped: bool
    lost: bool
    cause: str
    exit_code: int | None = None
    peak_bytes: int = 0
    last_lines: str = ""
    pid: int = 0
    ready: bool = False
    survivors: bool = False
    orphaned: bool = False


GroupEvent = Ready | Replied | Failed | Parked | Ended
