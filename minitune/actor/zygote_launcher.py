"""ZygoteLauncher: lets zygotes fork the workers. Linux only.

A zygote is a process that has imported what all workers need, so a worker that it forks is ready at once (see
`zygote`). A launcher has up to three kinds of zygotes:

- The *bare* one has imported the modules that all workers need, and nothing else. The driver may start it before it has
  a launcher.
- The *loaded* one has also preloaded values of this run, such as the trainable. Workers that may use them are forked
  from this one and wait until it has loaded them. A preload that fails, takes too long, or makes forking unsafe is left
  out: each worker then loads that value itself.

While workers come and go quickly, one is always forked in advance, the *spare*, so that the next actor need not wait.
If the system does not let a zygote fork, all later workers are new interpreters.

The zygote kills its workers and reports their ends. If it dies, they die with it by the parent-death signal, and the
launcher kills their descendants, which it finds by their markers.
"""

from __future__ import annotations

import itertools
import logging
import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

if sys.platform != "linux":
    raise ImportError("the zygote needs Linux; other systems start a new interpreter per worker")

from minitune.actor.channel import Channel, worker_sockets
from minitune.actor.launcher import Launcher, Listener, marker_of
from minitune.actor.loop import READ, WRITE, Loop, Timer
from minitune.actor.messages import (
    FORBIDDEN_EXIT,
    PRELOAD_S,
    SHORT_LIFE_S,
    ZYGOTE_HELLO_S,
)
from minitune.actor.packets import receive_packet
from minitune.actor.process_tree import Sweep
from minitune.actor.zygote_process import ZygoteProcess
from minitune.base.descriptors import has_room_for_worker

if TYPE_CHECKING:
    from minitune.actor.interpreter_launcher import InterpreterLauncher

_log = logging.getLogger("minitune")


@dataclass
class _Worker:
    """The launcher's record of one worker, from `launch` to its end.

    Attributes:
        token: Its name.
        marker: The text in the environment of all its descendants.
        listener: Hears of its life.
        began_s: When an actor got it.
        zygote: The one that was asked to fork it; None before that, and after that zygote has died.
        worker_ends: Its ends of the work pipe and the control pipe, until they are sent to the zygote.
        pid: Its process; 0 before the fork.
        pidfd: Its process descriptor; -1 if there is none.
    """

    token: str
    marker: str
    listener: Listener
    began_s: float
    zygote: ZygoteProcess | None = None
    worker_ends: Sequence[socket.socket] = ()
    pid: int = 0
    pidfd: int = -1


class ZygoteLauncher(Launcher):
    """A `Launcher` with zygotes.

    Args:
        loop: The driver's loop.
        run_id: Identifies the group.
        keep_descendants: See `make_launcher`.
        needed: See `make_launcher`.
        ahead: See `make_launcher`.
    """

    def __init__(
        self,
        loop: Loop,
        run_id: str,
        keep_descendants: bool,
        needed: Sequence[str] = (),
        ahead: ZygoteProcess | None = None,
    ):
        self._loop = loop
        self._run_id = run_id
        self._keep_descendants = keep_descendants
        self._needed = needed
        self._ahead = ahead
        self._workers: dict[str, _Worker] = {}
        self._zygotes: set[ZygoteProcess] = set()
        self._bare: ZygoteProcess | None = None
        self._loaded: ZygoteProcess | None = None
        self._preloads: list[bytes] = []  # the actions that the loaded zygote has to carry out
        self._preloading = 0  # so many of them, the last ones, are not answered yet
        self._preload_timer: Timer | None = None
        self._held: dict[str, _Worker] = {}  # workers that wait for the preload
        self._tokens = map(str, itertools.count(1))
        self._spare: _Worker | None = None
        self._spare_ends: Sequence[socket.socket] = ()
        self._lives_are_short = False
        self._is_closed = False
        self._interpreters: InterpreterLauncher | None = None

    @property
    def hello_s(self) -> float:
        """See `Launcher.hello_s`."""
        if self._interpreters is not None:
            return self._interpreters.hello_s
        return ZYGOTE_HELLO_S + (len(self._preloads) * PRELOAD_S if self._preloading else 0.0)  # it waits for these

    # -- Launcher ----------------------------------------------------------------------------------------------

    def launch(self, listener: Listener, preload: bool) -> tuple[str, Channel, Channel]:
        """See `Launcher.launch`."""
        if self._interpreters is not None:
            return self._interpreters.launch(listener, preload)
        worker, ours = self._take_spare(preload) or self._new(listener)
        if worker.zygote is None:
            self._loop.call_later(0.0, lambda: self._place(worker, preload))
        else:  # the spare
            worker.listener = listener
            worker.began_s = self._loop.time()
            if worker.pid:
                self._loop.call_later(0.0, lambda: listener.on_started(worker.pid))
        if self._lives_are_short:
            self._loop.call_later(0.0, lambda: self._fork_ahead(preload))
        return worker.token, Channel(ours[0]), Channel(ours[1])

    def signal(self, token: str, number: int, whole_group: bool) -> None:
        """See `Launcher.signal`."""
        worker = self._workers.get(token)
        if worker is None and self._interpreters is not None:
            self._interpreters.signal(token, number, whole_group)
        elif worker is not None and worker.zygote is not None:
            self._send(worker.zygote, ["signal", token, str(int(number)), "group" if whole_group else ""])

    def kill(self, token: str) -> None:
        """See `Launcher.kill`."""
        worker = self._workers.get(token)
        if worker is None:
            if self._interpreters is not None:
                self._interpreters.kill(token)
        elif worker.zygote is not None:
            self._send(worker.zygote, ["kill", token])
        else:  # it was not requested yet
            self._loop.call_later(0.0, lambda: self._finish(worker, None, 0, survivors=False))

    def force(self, token: str) -> None:
        """See `Launcher.force`. If a zygote has not even answered a request to fork, it is killed."""
        worker = self._workers.get(token)
        if worker is None:
            if self._interpreters is not None:
                self._interpreters.force(token)
            return
        if worker.pidfd >= 0:
            _kill_by_descriptor(worker.pidfd)
        elif worker.zygote is not None and not worker.pid:
            worker.zygote.popen.kill()
        self._sweep([worker])

    def preload(self, action: bytes) -> None:
        """See `Launcher.preload`."""
        if self._interpreters is not None:
            return
        self._preloads.append(action)
        if self._loaded is None:
            self._start_loaded()
        else:
            self._send_preload(self._loaded, action)

    def close(self) -> None:
        """See `Launcher.close`."""
        self._is_closed = True
        for zygote in list(self._zygotes):
            self._retire(zygote)
        self._bare = self._loaded = None
        self._preloads.clear()
        for worker in list(self._workers.values()):
            self._forget(worker)
        self._drop_spare()
        if self._interpreters is not None:
            self._interpreters.close()

    # -- zygotes ---------------------------------------------------------------------------------------------

    def _start(self) -> ZygoteProcess:
        zygote = self._ahead or ZygoteProcess(self._run_id, self._keep_descendants, self._needed)
        self._ahead = None
        self._zygotes.add(zygote)
        self._loop.watch(zygote.end.fileno(), lambda mask: self._on_socket(zygote, mask))
        self._loop.watch(zygote.pidfd, lambda mask: self._on_zygote_dead(zygote))
        return zygote

    def _start_loaded(self) -> None:
        """Start the loaded zygote, and send it all actions."""
        try:
            zygote = self._loaded = self._start()
        except OSError as error:
            self._give_up_preload(f"could not start a process for it: {error}")
            return
        for action in self._preloads:
            self._send_preload(zygote, action)

    def _send_preload(self, zygote: ZygoteProcess, action: bytes) -> None:
        try:
            file = open(os.memfd_create("preload"), "w+b")  # noqa: SIM115 - closed when it is sent
            file.write(action)
            file.seek(0)
        except OSError as error:
            self._give_up_preload(f"could not send it: {error}")
            return
        self._send(zygote, ["preload"], [file])
        self._preloading += 1
        self._set_preload_timer()

    def _set_preload_timer(self) -> None:
        if self._preload_timer is not None:
            self._preload_timer.cancel()
        self._preload_timer = None
        if self._preloading:
            reason = f"it takes longer than {PRELOAD_S:g} s"
            self._preload_timer = self._loop.call_later(PRELOAD_S, lambda: self._leave_out(reason))

    def _on_preloaded(self, zygote: ZygoteProcess, failure: str, unsafe: str) -> None:
        if zygote is not self._loaded:
            return
        if failure:
            _log.debug(
                "preloading failed; each worker loads the trainable itself and reports its own error:\n%s", failure
            )
        if failure or unsafe:
            self._leave_out(unsafe or "it failed")
            return
        self._preloading -= 1
        self._set_preload_timer()
        self._release_held()

    def _leave_out(self, reason: str) -> None:
        """Drop the action in progress, and repeat the others in a new zygote, which has no trace of it."""
        _log.info("each worker loads the trainable itself, because loading it once for all failed: %s", reason)
        culprit = len(self._preloads) - self._preloading  # answers come in order
        others = self._preloads[:culprit] + self._preloads[culprit + 1 :]
        self._drop_loaded()
        self._preloads = others
        if others:
            self._start_loaded()
        else:
            self._release_held()

    def _give_up_preload(self, reason: str) -> None:
        """Do not preload any more."""
        _log.info("workers are started without preload: %s", reason)
        self._drop_loaded()
        self._release_held()

    def _drop_loaded(self) -> None:
        """Forget the loaded zygote. Workers that were forked from it live on."""
        zygote = self._loaded
        self._loaded = None
        if self._spare is not None and self._spare.zygote is zygote:
            self._drop_spare()
        if zygote is not None and not any(worker.zygote is zygote for worker in self._workers.values()):
            zygote.popen.kill()  # it may be busy with foreign code; its death will be reported
        self._preloads = []
        self._preloading = 0
        self._set_preload_timer()

    def _release_held(self) -> None:
        """Start the workers that have waited for the preload."""
        if self._preloading == 0:
            held = self._held
            self._held = {}
            for worker in held.values():
                self._place(worker, preload=True)

    def _retire(self, zygote: ZygoteProcess) -> None:
        """End a zygote and all its workers."""
        self._loop.unwatch(zygote.end.fileno())
        self._loop.unwatch(zygote.pidfd)
        zygote.close()
        self._zygotes.discard(zygote)

    def _on_zygote_dead(self, zygote: ZygoteProcess) -> None:
        """Kill the descendants of its workers. The workers themselves die with it by the parent-death signal."""
        while self._receive(zygote):
            pass
        self._retire(zygote)
        code = zygote.popen.returncode
        if zygote is self._bare:
            self._bare = None
        if zygote is self._loaded:
            self._loaded = None
            if self._preloading:
                self._leave_out(f"the process that loads it ended with status {code}")
        if code in (FORBIDDEN_EXIT, -signal.SIGSYS):
            self._use_interpreters(f"the zygote ended with status {code}")
        lost = [worker for worker in self._workers.values() if worker.zygote is zygote]
        if lost:
            _log.warning("the zygote ended with status %s; %d worker(s) are lost with it", code, len(lost))
        for worker in lost:
            worker.zygote = None
            worker.listener.on_lost(f"the zygote ended with status {code}")
            if worker.pidfd >= 0:
                _kill_by_descriptor(worker.pidfd)
        self._sweep(lost)

    def _sweep(self, workers: list[_Worker]) -> None:
        """Kill the trees of workers instead of the zygote."""

        def on_done(survivors: bool) -> None:
            for worker in workers:
                self._finish(worker, None, 0, survivors)

        if workers:
            Sweep(self._loop, [worker.marker for worker in workers], on_done)

    # -- the spare worker --------------------------------------------------------------------------------------

    def _fork_ahead(self, preload: bool) -> None:
        """Fork a worker for the next actor, unless there is one or its zygote is busy."""
        zygote = self._ready_zygote(preload)
        if self._spare is not None or zygote is None or self._is_closed or not has_room_for_worker():
            return
        try:
            spare, self._spare_ends = self._new(_Unused(self._drop_spare))
        except OSError:  # no file descriptor is free; the next launch will report that
            return
        self._spare = spare
        self._ask(zygote, spare)

    def _take_spare(self, preload: bool) -> tuple[_Worker, Sequence[socket.socket]] | None:
        """Return the spare worker with our ends of its channels, if it is alive and from the right zygote."""
        spare = self._spare
        ours = self._spare_ends
        if spare is None or spare.zygote is not self._ready_zygote(preload):
            return None
        if _is_left(ours[0]):
            self._drop_spare()
            return None
        self._spare = None
        self._spare_ends = ()
        return spare, ours

    def _ready_zygote(self, preload: bool) -> ZygoteProcess | None:
        """Return the zygote that `_choose` would choose, if it is ready."""
        if preload and self._preloads:
            return self._loaded if self._preloading == 0 else None
        return self._bare

    def _drop_spare(self) -> None:
        """Forget the spare worker, because it has died or is not needed. Without its channels it ends."""
        for end in self._spare_ends:
            end.close()
        self._spare = None
        self._spare_ends = ()

    # -- workers -----------------------------------------------------------------------------------------------

    def _new(self, listener: Listener) -> tuple[_Worker, Sequence[socket.socket]]:
        """Make a worker without an actor, and our ends of its work pipe and its control pipe.

        Raises:
            OSError: If no file descriptor is free.
        """
        ours, theirs = worker_sockets()
        token = next(self._tokens)
        worker = _Worker(token, marker_of(self._run_id, token), listener, self._loop.time(), worker_ends=theirs)
        self._workers[token] = worker
        return worker, ours

    def _place(self, worker: _Worker, preload: bool) -> None:
        """Request a worker from the right zygote, or hold it until that has loaded."""
        if worker.token not in self._workers or not worker.worker_ends:
            return
        try:
            zygote = self._choose(preload)
        except OSError as error:
            self._refuse(worker, f"the zygote could not be started: {error}")
            return
        if zygote is None:
            self._held[worker.token] = worker
        else:
            self._ask(zygote, worker)

    def _ask(self, zygote: ZygoteProcess, worker: _Worker) -> None:
        worker.zygote = zygote
        worker_ends = worker.worker_ends
        worker.worker_ends = ()
        self._send(zygote, ["fork", worker.token, worker.marker], worker_ends)

    def _choose(self, preload: bool) -> ZygoteProcess | None:
        """Return the zygote for a worker, started if necessary; None while it is still loading."""
        if preload and self._preloads:
            if self._loaded is None:
                self._start_loaded()
            if self._preloading:
                return None
            if self._loaded is not None:
                return self._loaded
        if self._bare is None:
            self._bare = self._start()
        return self._bare

    def _refuse(self, worker: _Worker, reason: str) -> None:
        self._forget(worker)
        worker.listener.on_refused(reason)

    def _on_forbidden(self, worker: _Worker, reason: str, worker_ends: Sequence[int]) -> None:
        """The zygote may not fork: it returns the worker's ends of the channels."""
        self._use_interpreters(reason)
        ends = [socket.socket(fileno=descriptor) for descriptor in worker_ends]
        if len(ends) == 2 and worker is not self._spare and self._interpreters is not None:
            self._forget(worker)
            self._interpreters.adopt(worker.token, worker.listener, ends)
            return
        for end in ends:
            end.close()
        self._refuse(worker, reason)  # this drops a spare worker

    def _use_interpreters(self, reason: str) -> None:
        """Start new interpreters from now on, because this system never allows the fork."""
        if self._interpreters is None:
            from minitune.actor.interpreter_launcher import InterpreterLauncher

            _log.warning(
                "workers cannot be forked here (%s); each starts a new interpreter, which takes longer", reason
            )
            self._interpreters = InterpreterLauncher(self._loop, self._run_id, self._keep_descendants, self._tokens)

    def _finish(self, worker: _Worker, exit_code: int | None, peak_bytes: int, survivors: bool) -> None:
        if worker.token in self._workers:
            self._lives_are_short = self._loop.time() - worker.began_s < SHORT_LIFE_S
            self._forget(worker)
            worker.listener.on_gone(exit_code, peak_bytes, survivors)

    def _forget(self, worker: _Worker) -> None:
        self._workers.pop(worker.token, None)
        self._held.pop(worker.token, None)
        self._unwatch(worker)
        for end in worker.worker_ends:
            end.close()

    def _unwatch(self, worker: _Worker) -> None:
        if worker.pidfd >= 0:
            self._loop.unwatch(worker.pidfd)
            os.close(worker.pidfd)
            worker.pidfd = -1

    def _on_dead(self, worker: _Worker) -> None:
        self._unwatch(worker)
        worker.listener.on_dead()

    # -- the socket --------------------------------------------------------------------------------------------

    def _send(
        self, zygote: ZygoteProcess, fields: list[str], attached: Sequence[socket.socket | IO[bytes]] = ()
    ) -> None:
        zygote.send(fields, attached)
        if zygote.has_unsent and zygote.end.fileno() >= 0:
            self._loop.watch(zygote.end.fileno(), lambda mask: self._on_socket(zygote, mask), READ | WRITE)

    def _on_socket(self, zygote: ZygoteProcess, mask: int) -> None:
        if mask & WRITE:
            zygote.flush()
            if not zygote.has_unsent:
                self._loop.watch(zygote.end.fileno(), lambda mask: self._on_socket(zygote, mask))
        if mask & READ and not self._receive(zygote):
            self._loop.unwatch(zygote.end.fileno())  # its descriptor will report its death

    def _receive(self, zygote: ZygoteProcess) -> bool:
        """Handle one packet.

        Returns:
            Whether there may be more.
        """
        try:
            packet = receive_packet(zygote.end)
        except OSError as error:
            return isinstance(error, BlockingIOError) and zygote.popen.poll() is None
        if packet is None:
            return False
        (kind, *fields), descriptors = packet
        if kind == "importing":
            (self.importing,) = fields
            return True
        if kind == "preloaded":
            self.importing = ""
            self._on_preloaded(zygote, *fields)
            return True
        worker = self._workers.get(fields[0])
        if worker is None:
            for descriptor in descriptors:
                os.close(descriptor)
        elif kind == "forked":
            self._on_forked(worker, int(fields[1]), descriptors[0] if descriptors else None)
        elif kind == "refused":
            self._refuse(worker, fields[1])
        elif kind == "forbidden":
            self._on_forbidden(worker, fields[1], descriptors)
        else:
            code = int(fields[1]) if fields[1] else None
            if kind == "exited":
                worker.listener.on_exited(code, int(fields[2]))
            elif kind == "gone":
                self._finish(worker, code, int(fields[2]), fields[3] != "0")
        return True

    def _on_forked(self, worker: _Worker, pid: int, pidfd: int | None) -> None:
        """The worker was forked. If no descriptor was free for its `pidfd`, only the zygote reports its death."""
        worker.pid = pid
        worker.listener.on_started(pid)
        if pidfd is not None:
            worker.pidfd = pidfd
            self._loop.watch(pidfd, lambda mask: self._on_dead(worker))


class _Unused(Listener):
    """Listens to a spare worker: if anything goes wrong with it, the spare is dropped.

    Args:
        drop: Forgets the spare.
    """

    def __init__(self, drop: Callable[[], object]):
        self._drop = drop

    def on_refused(self, reason: str) -> None:
        """See `Listener.on_refused`."""
        self._drop()

    def on_lost(self, reason: str) -> None:
        """See `Listener.on_lost`."""
        self._drop()

    def on_dead(self) -> None:
        """See `Listener.on_dead`."""
        self._drop()


def _is_left(end: socket.socket) -> bool:
    """Whether the process at the other end is dead. The kernel shows that before the zygote reports it, or the fork."""
    poll = select.poll()
    poll.register(end, 0)  # a hang-up is reported although no event is asked for
    return bool(poll.poll(0))


def _kill_by_descriptor(pidfd: int) -> None:
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except OSError:
        pass
