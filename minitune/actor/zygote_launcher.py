"""ZygoteLauncher: lets zygotes fork the workers. Linux only.

A launcher has two kinds of zygotes:

- The *bare* one has imported the modules that all workers need, and nothing else. The driver may start it ahead.
- The *loaded* one has also preloaded values of this run, such as the trainable. Workers that may use them wait until it
  has loaded them. A preload that fails, takes too long, or makes forking unsafe is left to each worker.

If a zygote dies, its workers die with it by the parent-death signal, and the launcher kills their descendants by their
markers. One whose worker does not begin, or that does not carry out a kill, may be stuck: stopped by a signal, traced
by a debugger, or hanging in a function that a preloaded package has registered for forks. It forks no more workers.
"""

from __future__ import annotations

import itertools
import logging
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

if sys.platform != "linux":
    raise ImportError("the zygote needs Linux; other systems start a new interpreter per worker")

from minitune.actor import process_tree
from minitune.actor.channel import Ends, worker_sockets
from minitune.actor.launcher import End, Launcher, OnEnd
from minitune.actor.loop import READ, WRITE, Loop, Socket, TimeLimit
from minitune.actor.messages import (
    CLOSE_S,
    FORBIDDEN_EXIT,
    PRELOAD_S,
    ZYGOTE_HELLO_S,
)
from minitune.actor.packets import Packet, receive_packet
from minitune.actor.process_tree import Sweep, marker_of
from minitune.actor.zygote_process import ZygoteProcess
from minitune.base.disk import has_too_many_open
from minitune.base.process_limits import with_limits
from minitune.error import TuneError

_log = logging.getLogger("minitune")


@dataclass
class _ForkedWorker:
    """The launcher's record of one worker.

    Attributes:
        theirs: Its ends of its pipes, until a zygote is asked to fork it.
        zygote: The one that was asked to fork it, or None.
    """

    token: int
    on_end: OnEnd
    theirs: Ends | None
    zygote: ZygoteProcess | None = None


class ZygoteLauncher(Launcher):
    """A `Launcher` with zygotes."""

    def __init__(
        self,
        loop: Loop,
        run_id: str,
        needed: Sequence[str] = (),
        ahead: ZygoteProcess | None = None,
    ):
        self._loop = loop
        self._run_id = run_id
        self._needed = needed
        self._ahead = ahead
        self._zygotes: set[ZygoteProcess] = set()
        self._bare: ZygoteProcess | None = None
        self._preload = _Preload(self, loop)
        self._tokens = itertools.count(1)
        self._workers: dict[int, _ForkedWorker] = {}

    @property
    def hello_s(self) -> float:
        return ZYGOTE_HELLO_S + self._preload.longest_s  # a worker may have to wait for it

    @property
    def importing(self) -> str:
        return self._preload.importing

    # -- Launcher ----------------------------------------------------------------------------------------------

    def launch(self, on_end: OnEnd, preload: bool) -> tuple[int, Socket, Socket]:
        ours, theirs = worker_sockets()
        token = next(self._tokens)
        worker = self._workers[token] = _ForkedWorker(token, on_end, theirs)
        self.fork_or_hold(worker, preload)
        return token, *ours

    def signal(self, token: int, number: int, whole_group: bool) -> None:
        worker = self._workers.get(token)
        if worker is not None and worker.zygote is not None:
            self.send(worker.zygote, ("signal", token, int(number), whole_group))

    def kill(self, token: int) -> None:
        worker = self._workers.get(token)
        if worker is None:
            return
        if worker.zygote is not None:
            self.send(worker.zygote, ("kill", token))
        elif worker.theirs is not None:  # no zygote was asked for it yet; otherwise it is being killed already
            self._loop.call_later(0.0, lambda: self._finish(worker, End()))

    def force(self, token: int) -> None:
        """The driver does the zygote's work."""
        worker = self._workers.get(token)
        if worker is None:
            return
        end = End()
        if worker.zygote is not None:
            self._replace(worker.zygote)
            end = End("lost", "the zygote does not answer")
        self._sweep([worker], end)

    def replace_parent(self, token: int) -> None:
        worker = self._workers.get(token)
        if worker is not None and worker.zygote is not None:
            self._replace(worker.zygote)

    def preload(self, action: bytes) -> None:
        self._preload.add(action)

    def close(self) -> None:
        killed = [zygote for zygote in list(self._zygotes) if self._retire(zygote)]
        left = [marker_of(self._run_id, each.token) for each in self._workers.values() if each.zygote in killed]
        if left:
            process_tree.sweep(left, CLOSE_S)
        for worker in self._workers.values():
            _close_ends(worker.theirs)
        self._workers.clear()

    # -- zygotes ---------------------------------------------------------------------------------------------

    def start_zygote(self) -> ZygoteProcess:
        """Start a zygote, or take the one that was started ahead."""
        zygote = self._ahead or ZygoteProcess(self._run_id, self._needed)
        self._ahead = None
        self._zygotes.add(zygote)
        self._loop.watch(zygote.end.fileno(), partial(self._on_socket, zygote))
        self._loop.watch(zygote.pidfd, lambda mask: self._on_zygote_dead(zygote))
        return zygote

    def drop_zygote(self, zygote: ZygoteProcess) -> None:
        """Fork no more workers from a zygote; its workers live on."""
        if not any(worker.zygote is zygote for worker in self._workers.values()):
            zygote.popen.kill()  # it may be busy with foreign code; its death will be reported

    def _replace(self, zygote: ZygoteProcess) -> None:
        """Take another zygote for later workers, because this one may be stuck."""
        if zygote is self._bare:
            self._bare = None
            self.drop_zygote(zygote)
        self._preload.on_stuck(zygote)

    def _retire(self, zygote: ZygoteProcess) -> bool:
        """End a zygote and its workers; returns whether descendants may live."""
        self._loop.unwatch(zygote.end.fileno())
        self._loop.unwatch(zygote.pidfd)
        self._zygotes.discard(zygote)
        return zygote.close()

    def _on_zygote_dead(self, zygote: ZygoteProcess) -> None:
        """Kill the descendants of its workers, which die with it."""
        # First its last words: a worker whose end it has reported is not lost.
        while self._receive(zygote):
            pass
        self._retire(zygote)
        if zygote.popen.returncode in (FORBIDDEN_EXIT, -signal.SIGSYS):
            raise TuneError(
                "this system does not allow to fork workers: set MINITUNE_START_METHOD=interpreter, and each worker is "
                "a new Python process"
            )
        reason = f"the zygote ended with status {zygote.popen.returncode}"
        if zygote is self._bare:
            self._bare = None
        self._preload.on_zygote_dead(zygote)
        lost = [worker for worker in self._workers.values() if worker.zygote is zygote]
        if lost:
            _log.warning("%s; %d worker(s) are lost with it", reason, len(lost))
        for worker in lost:
            worker.zygote = None  # so that nothing is sent to it any more
        # One search finds the descendants of all of them: it reads every process of the machine.
        self._sweep(lost, End("lost", reason))

    def _sweep(self, workers: list[_ForkedWorker], end: End) -> None:
        """Kill the trees of workers in place of the zygote, and report their end."""

        def on_done(survivors: bool) -> None:
            for worker in workers:
                self._finish(worker, end._replace(survivors=survivors))

        if workers:
            Sweep(self._loop, [marker_of(self._run_id, worker.token) for worker in workers], on_done)

    # -- workers -----------------------------------------------------------------------------------------------

    def fork_or_hold(self, worker: _ForkedWorker, preload: bool) -> None:
        """Request a worker from the right zygote, or let it wait until that has loaded."""
        if worker.token not in self._workers:  # it was killed while it has waited
            return
        try:
            zygote = self._choose(preload)
        except OSError as error:
            if has_too_many_open(error):
                raise
            # Not at once: the caller of `launch` does not know the token yet.
            end = End("refused", with_limits(f"the zygote could not be started: {error}"))
            self._loop.call_later(0.0, lambda: self._finish(worker, end))
            return
        if zygote is None:
            self._preload.held.append(worker)
        else:
            self._ask(zygote, worker)

    def _ask(self, zygote: ZygoteProcess, worker: _ForkedWorker) -> None:
        worker.zygote = zygote
        assert worker.theirs is not None
        self.send(zygote, ("fork", worker.token), worker.theirs)
        worker.theirs = None

    def _choose(self, preload: bool) -> ZygoteProcess | None:
        """Return the zygote for a worker, started if necessary; None while it is still loading."""
        if preload and self._preload.actions:
            self._preload.ensure_zygote()
            if self._preload.is_loading:
                return None
            if self._preload.ready_zygote is not None:
                return self._preload.ready_zygote
        if self._bare is None:
            self._bare = self.start_zygote()
        return self._bare

    def _finish(self, worker: _ForkedWorker, end: End) -> None:
        if self._workers.pop(worker.token, None) is not None:
            if worker.theirs is not None:
                _close_ends(worker.theirs)
            worker.on_end(end)

    # -- the socket --------------------------------------------------------------------------------------------

    def send(self, zygote: ZygoteProcess, packet: Packet, attached: Sequence[Socket] = ()) -> None:
        """Send a packet to a zygote, now or when its socket accepts it; then close the attached sockets."""
        zygote.outbox.send(packet, attached)
        if zygote.outbox.unsent and zygote.end.fileno() >= 0:
            self._loop.watch(zygote.end.fileno(), partial(self._on_socket, zygote), READ | WRITE)

    def _on_socket(self, zygote: ZygoteProcess, mask: int) -> None:
        if mask & WRITE:
            zygote.outbox.flush()
            if not zygote.outbox.unsent:
                self._loop.watch(zygote.end.fileno(), partial(self._on_socket, zygote))
        if mask & READ and not self._receive(zygote):
            self._loop.unwatch(zygote.end.fileno())  # its descriptor will report its death

    def _receive(self, zygote: ZygoteProcess) -> bool:
        """Handle one packet; return whether there may be more."""
        try:
            packet = receive_packet(zygote.end)
        except OSError as error:
            return isinstance(error, BlockingIOError) and zygote.popen.poll() is None
        if packet is None:
            return False
        (kind, *fields), _ = packet
        if kind == "importing":
            (self._preload.importing,) = fields
            return True
        if kind == "preloaded":
            self._preload.on_answer(zygote, *fields)
            return True
        token, *facts = fields
        worker = self._workers.get(token)
        if worker is None:
            pass  # the driver has done the zygote's work
        elif kind == "ended":
            self._finish(worker, End("died", "", *facts))
        elif kind == "refused":
            self._finish(worker, End("refused", *facts))
        return True


class _Preload:
    """The actions of all preloads, and the loaded zygote, which carries them out in order. If one fails, workers come
    from a zygote without any.
    """

    def __init__(self, launcher: ZygoteLauncher, loop: Loop):
        self.importing = ""
        self.held: list[_ForkedWorker] = []
        self._launcher = launcher
        self._zygote: ZygoteProcess | None = None
        self.actions: list[bytes] = []
        self._num_open = 0  # so many of the actions, the last ones, are not answered yet
        self._limit = TimeLimit(loop)  # for the first open action

    @property
    def is_loading(self) -> bool:
        """Whether an action is not carried out yet."""
        return self._num_open > 0

    @property
    def ready_zygote(self) -> ZygoteProcess | None:
        """The zygote that has loaded everything."""
        return None if self._num_open else self._zygote

    @property
    def longest_s(self) -> float:
        """Seconds that a worker may have to wait."""
        return len(self.actions) * PRELOAD_S if self._num_open else 0.0

    def add(self, action: bytes) -> None:
        """Carry out one more action."""
        self.actions.append(action)
        if self._zygote is None:
            self.ensure_zygote()
        else:
            self._send(self._zygote, action)

    def on_answer(self, zygote: ZygoteProcess, failure: str, unsafe: str) -> None:
        self.importing = ""
        if zygote is not self._zygote:  # it was dropped before this answer came
            return
        if failure:
            _log.debug(
                "preloading failed; each worker loads the trainable itself and reports its own error:\n%s", failure
            )
        if failure or unsafe:
            self._give_up(unsafe or "it failed")
            return
        self._num_open -= 1
        if self._num_open:
            self._expect_answer()
        else:
            self._release()

    def on_zygote_dead(self, zygote: ZygoteProcess) -> None:
        if zygote is not self._zygote:
            return
        self._zygote = None
        if self._num_open:
            self._give_up(f"the process that loads it ended with status {zygote.popen.returncode}")

    def on_stuck(self, zygote: ZygoteProcess) -> None:
        """What it has loaded may be what keeps it from forking."""
        if zygote is self._zygote:
            self._give_up("the process that has loaded it may be stuck")

    def ensure_zygote(self) -> None:
        """Start the zygote, unless there is one, and send it all actions."""
        if self._zygote is not None:
            return
        try:
            zygote = self._zygote = self._launcher.start_zygote()
        except OSError as error:
            self._give_up(f"could not start a process for it: {error}")
            return
        for action in self.actions:
            self._send(zygote, action)

    def _send(self, zygote: ZygoteProcess, action: bytes) -> None:
        self._launcher.send(zygote, ("preload", action))
        self._num_open += 1
        self._expect_answer()

    def _expect_answer(self) -> None:
        self._limit.set(PRELOAD_S, lambda: self._give_up(f"it takes longer than {PRELOAD_S:g} s"))

    def _give_up(self, reason: str) -> None:
        """Drop all actions: what they have done to the zygote cannot be undone."""
        _log.info("each worker loads the trainable itself, because loading it once for all failed: %s", reason)
        zygote = self._zygote
        self._zygote = None
        self.actions = []
        self._num_open = 0
        if zygote is not None:
            self._launcher.drop_zygote(zygote)
        self._release()

    def _release(self) -> None:
        """Start the workers that have waited."""
        self._limit.clear()
        held = self.held
        self.held = []
        for worker in held:
            self._launcher.fork_or_hold(worker, preload=True)


def _close_ends(ends: Sequence[Socket] | None) -> None:
    for end in ends or ():
        end.close()
