"""ZygoteLauncher: the driver's side of the template processes (zygotes), which fork workers. Linux only.

A template process (`Template`) has imported the modules that all workers need, so a worker that it forks is ready at
once. The driver may start the first one before it has a launcher. If the driver dies, the socket between them is
closed, and the template process kills its workers and exits.
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

from minitune.actor import process_tree
from minitune.actor.channel import Channel, DriverEnd, worker_sockets
from minitune.actor.launcher import Listener, marker_of
from minitune.actor.loop import READ, WRITE, Loop, Timer
from minitune.actor.messages import (
    FORBIDDEN_EXIT,
    PRELOAD_S,
    SHORT_LIFE_S,
    ZYGOTE_HELLO_S,
)
from minitune.actor.packets import receive_packet
from minitune.actor.process_tree import Sweep
from minitune.actor.template import Template
from minitune.base.descriptors import has_room_for_worker

if TYPE_CHECKING:
    from minitune.actor.interpreter_launcher import InterpreterLauncher

_log = logging.getLogger("minitune")


@dataclass
class _Launched:
    """The launcher's record of one worker."""

    token: str
    marker: str
    listener: Listener
    began_s: float
    template: Template | None = None
    is_alone: bool = False
    worker_ends: Sequence[socket.socket] = ()
    pid: int = 0
    pidfd: int = -1

    @property
    def is_dead(self) -> bool:
        """Whether it was forked and has died, reported or not."""
        if self.pidfd < 0:
            return self.pid != 0
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        return bool(poll.poll(0))


class ZygoteLauncher:
    """Forks workers from a template process, or from a second one with preloaded modules, for workers that may use
    them.

    Workers that have to be alone get their own template process, which ends with them.

    While workers come and go quickly, one is always forked in advance, so that the next actor need not wait. If the
    system does not let the template process fork, all later workers are new interpreters.

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
        ahead: Template | None = None,
    ):
        self._loop = loop
        self._run_id = run_id
        self._keep_descendants = keep_descendants
        self._needed = needed
        self._ahead = ahead
        self._launched: dict[str, _Launched] = {}
        self.templates: list[Template] = []
        self._bare: Template | None = None
        self._loaded: Template | None = None
        self._preloads: list[bytes] = []
        self._preloading = 0
        self._preload_timer: Timer | None = None
        self.importing = ""
        self._held: dict[str, _Launched] = {}
        self._tokens = map(str, itertools.count(1))
        self._spare: _Launched | None = None
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

    def launch(self, listener: Listener, preload: bool, alone: bool = False) -> tuple[str, DriverEnd, DriverEnd]:
        """See `Launcher.launch`."""
        if self._interpreters is not None:
            return self._interpreters.launch(listener, preload, alone)
        launched, ours = (None if alone else self._take_spare(preload)) or self._new(listener)
        if alone:
            self._loop.call_later(0.0, lambda: self._place_alone(launched))
        elif launched.template is None:
            self._loop.call_later(0.0, lambda: self._place(launched, preload))
        else:
            launched.listener = listener
            launched.began_s = self._loop.time()
            if launched.pid:
                self._loop.call_later(0.0, lambda: listener.on_started(launched.pid))
        if self._lives_are_short and not alone:
            self._loop.call_later(0.0, lambda: self._fork_ahead(preload))
        return launched.token, Channel(ours[0]), Channel(ours[1])

    def signal(self, token: str, number: int, whole_group: bool) -> None:
        """See `Launcher.signal`."""
        launched = self._launched.get(token)
        if launched is None and self._interpreters is not None:
            self._interpreters.signal(token, number, whole_group)
        elif launched is not None and launched.template is not None:
            self._send(launched.template, ["signal", token, str(int(number)), "group" if whole_group else ""])

    def kill(self, token: str) -> None:
        """See `Launcher.kill`."""
        launched = self._launched.get(token)
        if launched is None:
            if self._interpreters is not None:
                self._interpreters.kill(token)
        elif launched.template is not None:
            self._send(launched.template, ["kill", token])
        else:  # not requested yet
            self._loop.call_later(0.0, lambda: self._finish(launched, None, 0, survivors=False))

    def force(self, token: str) -> None:
        """See `Launcher.force`. If a zygote has not even answered a request to fork, it is killed."""
        launched = self._launched.get(token)
        if launched is None:
            if self._interpreters is not None:
                self._interpreters.force(token)
            return
        if launched.pidfd >= 0:
            _kill_by_descriptor(launched.pidfd)
        elif launched.template is not None and not launched.pid:
            launched.template.popen.kill()
        self._sweep([launched])

    def is_ending(self, pid: int) -> bool:
        """See `Launcher.is_ending`."""
        return process_tree.is_ending(pid)

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
        for template in list(self.templates):
            self._retire(template)
        self._bare = self._loaded = None
        self._preloads.clear()
        for launched in list(self._launched.values()):
            self._forget(launched)
        self._drop_spare()
        if self._interpreters is not None:
            self._interpreters.close()

    # -- templates ---------------------------------------------------------------------------------------------

    def _start(self) -> Template:
        template, self._ahead = self._ahead or Template(self._run_id, self._keep_descendants, self._needed), None
        self.templates.append(template)
        self._loop.watch(template.end.fileno(), lambda mask: self._on_socket(template, mask))
        self._loop.watch(template.pidfd, lambda mask: self._on_template_dead(template))
        return template

    def _start_loaded(self) -> None:
        """Start a template that preloads; workers that may use it wait for that."""
        try:
            template = self._loaded = self._start()
        except OSError as error:
            self._give_up_preload(f"could not start a process for it: {error}")
            return
        for action in self._preloads:
            self._send_preload(template, action)

    def _send_preload(self, template: Template, action: bytes) -> None:
        try:
            file = _memory_file()
            file.write(action)
            file.seek(0)
        except OSError as error:
            self._give_up_preload(f"could not send it: {error}")
            return
        self._send(template, ["preload"], [file])
        self._preloading += 1
        self._set_preload_timer()

    def _set_preload_timer(self) -> None:
        if self._preload_timer is not None:
            self._preload_timer.cancel()
        self._preload_timer = None
        if self._preloading:
            reason = f"it takes longer than {PRELOAD_S:g} s"
            self._preload_timer = self._loop.call_later(PRELOAD_S, lambda: self._leave_out(reason))

    def _on_preloaded(self, template: Template, failure: str, unsafe: str) -> None:
        if template is not self._loaded:
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
        """Drop the action in progress, and repeat the others in a new template, which has no trace of it."""
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
        """Forget the template that preloads. Workers that were forked from it live on."""
        template, self._loaded = self._loaded, None
        if self._spare is not None and self._spare.template is template:
            self._drop_spare()
        if template is not None and not any(one.template is template for one in self._launched.values()):
            template.popen.kill()  # it may be busy with foreign code; its death will be reported
        self._preloads = []
        self._preloading = 0
        self._set_preload_timer()

    def _release_held(self) -> None:
        """Start the workers that have waited for the preload."""
        if self._preloading == 0:
            held, self._held = self._held, {}
            for launched in held.values():
                self._place(launched, preload=True)

    def _retire(self, template: Template) -> None:
        """End a template and all its workers."""
        self._unwatch(template)
        template.close()
        if template in self.templates:
            self.templates.remove(template)

    def _unwatch(self, template: Template) -> None:
        self._loop.unwatch(template.end.fileno())
        self._loop.unwatch(template.pidfd)

    def _on_template_dead(self, template: Template) -> None:
        """Kill the descendants of its workers. The workers themselves die with it by the parent-death signal."""
        while self._receive(template):
            pass
        self._retire(template)
        code = template.popen.returncode
        if template is self._bare:
            self._bare = None
        if template is self._loaded:
            self._loaded = None
            if self._preloading:
                self._leave_out(f"the process that loads it ended with status {code}")
        if code in (FORBIDDEN_EXIT, -signal.SIGSYS):
            self._use_interpreters(f"the zygote ended with status {code}")
        lost = [launched for launched in self._launched.values() if launched.template is template]
        if lost:
            _log.warning("the zygote ended with status %s; %d worker(s) are lost with it", code, len(lost))
        for launched in lost:
            launched.template = None
            launched.listener.on_lost(f"the zygote ended with status {code}")
            if launched.pidfd >= 0:
                _kill_by_descriptor(launched.pidfd)
        self._sweep(lost)

    def _sweep(self, launched: list[_Launched]) -> None:
        """Kill a worker's tree instead of the zygote."""

        def on_done(survivors: bool) -> None:
            for one in launched:
                self._finish(one, None, 0, survivors)

        if launched:
            Sweep(self._loop, [one.marker for one in launched], on_done)

    # -- the spare worker --------------------------------------------------------------------------------------

    def _fork_ahead(self, preload: bool) -> None:
        """Fork a worker for the next actor, unless there is one or its template is busy."""
        template = self._ready_template(preload)
        if self._spare is not None or template is None or self._is_closed or not has_room_for_worker():
            return
        try:
            spare, self._spare_ends = self._new(_Unused(self._drop_spare))
        except OSError:  # no file descriptor is free; the next launch will report that
            return
        self._spare = spare
        self._ask(template, spare)

    def _take_spare(self, preload: bool) -> tuple[_Launched, Sequence[socket.socket]] | None:
        """Return the spare worker with our ends of its channels, if it is alive and from the right template."""
        spare, ours = self._spare, self._spare_ends
        if spare is None or spare.template is not self._ready_template(preload):
            return None
        if spare.is_dead:
            self._drop_spare()
            return None
        self._spare, self._spare_ends = None, ()
        return spare, ours

    def _ready_template(self, preload: bool) -> Template | None:
        """Return the template that `_choose` would choose, if it is ready."""
        if preload and self._preloads:
            return self._loaded if self._preloading == 0 else None
        return self._bare

    def _drop_spare(self) -> None:
        """Forget the spare worker, because it has died or is not needed. Without its channels it ends."""
        for end in self._spare_ends:
            end.close()
        self._spare, self._spare_ends = None, ()

    # -- workers -----------------------------------------------------------------------------------------------

    def _new(self, listener: Listener) -> tuple[_Launched, Sequence[socket.socket]]:
        """Make a worker without an actor, and our ends of its control channel and its report pipe.

        Raises:
            OSError: If no file descriptor is free.
        """
        ours, theirs = worker_sockets()
        token = next(self._tokens)
        launched = _Launched(token, marker_of(self._run_id, token), listener, self._loop.time(), worker_ends=theirs)
        self._launched[token] = launched
        return launched, ours

    def _place(self, launched: _Launched, preload: bool) -> None:
        """Request a worker from the right template."""
        if launched.token not in self._launched or not launched.worker_ends:
            return
        try:
            template = self._choose(preload)
        except OSError as error:
            self._refuse(launched, f"the zygote could not be started: {error}")
            return
        if template is None:
            self._held[launched.token] = launched
            return
        self._ask(template, launched)

    def _place_alone(self, launched: _Launched) -> None:
        """Request a worker from a template that forks no other one."""
        if launched.token not in self._launched:
            return
        try:
            template = self._start()
        except OSError as error:
            self._refuse(launched, f"the zygote could not be started: {error}")
            return
        launched.is_alone = True
        self._ask(template, launched)

    def _ask(self, template: Template, launched: _Launched) -> None:
        launched.template = template
        worker_ends, launched.worker_ends = launched.worker_ends, ()
        self._send(template, ["fork", launched.token, launched.marker], worker_ends)

    def _choose(self, preload: bool) -> Template | None:
        """Return the template for a worker; None while it is still loading."""
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

    def _refuse(self, launched: _Launched, reason: str) -> None:
        self._forget(launched)
        launched.listener.on_refused(reason)

    def _on_forbidden(self, launched: _Launched, reason: str, worker_ends: Sequence[int]) -> None:
        """The zygote may not fork: it returns the worker's ends of the channels."""
        self._use_interpreters(reason)
        ends = [socket.socket(fileno=descriptor) for descriptor in worker_ends]
        if len(ends) == 2 and launched is not self._spare and self._interpreters is not None:
            self._forget(launched)
            self._interpreters.adopt(launched.token, launched.listener, ends)
            return
        for end in ends:
            end.close()
        self._refuse(launched, reason)  # this drops a spare worker

    def _use_interpreters(self, reason: str) -> None:
        """Start new interpreters from now on, because this system never allows the fork."""
        if self._interpreters is None:
            from minitune.actor.interpreter_launcher import InterpreterLauncher

            _log.warning(
                "workers cannot be forked here (%s); each starts a new interpreter, which takes longer", reason
            )
            self._interpreters = InterpreterLauncher(self._loop, self._run_id, self._keep_descendants, self._tokens)

    def _finish(self, launched: _Launched, exit_code: int | None, peak_bytes: int, survivors: bool) -> None:
        if launched.token in self._launched:
            self._lives_are_short = self._loop.time() - launched.began_s < SHORT_LIFE_S
            self._forget(launched)
            launched.listener.on_gone(exit_code, peak_bytes, survivors)

    def _forget(self, launched: _Launched) -> None:
        self._launched.pop(launched.token, None)
        self._held.pop(launched.token, None)
        self._unwatch_worker(launched)
        for end in launched.worker_ends:
            end.close()
        if launched.is_alone and launched.template is not None:
            launched.template.dismiss()  # its death will be told

    def _unwatch_worker(self, launched: _Launched) -> None:
        if launched.pidfd >= 0:
            self._loop.unwatch(launched.pidfd)
            os.close(launched.pidfd)
            launched.pidfd = -1

    def _on_worker_dead(self, launched: _Launched) -> None:
        self._unwatch_worker(launched)
        launched.listener.on_dead()

    # -- the socket --------------------------------------------------------------------------------------------

    def _send(self, template: Template, fields: list[str], attached: Sequence[socket.socket | IO[bytes]] = ()) -> None:
        template.send(fields, attached)
        if template.has_unsent and template.end.fileno() >= 0:
            self._loop.watch(template.end.fileno(), lambda mask: self._on_socket(template, mask), READ | WRITE)

    def _on_socket(self, template: Template, mask: int) -> None:
        if mask & WRITE:
            template.flush()
            if not template.has_unsent:
                self._loop.watch(template.end.fileno(), lambda mask: self._on_socket(template, mask))
        if mask & READ and not self._receive(template):
            self._loop.unwatch(template.end.fileno())  # its descriptor will report its death

    def _receive(self, template: Template) -> bool:
        """Handle one packet.

        Returns:
            Whether there may be more.
        """
        try:
            packet = receive_packet(template.end)
        except OSError as error:
            return isinstance(error, BlockingIOError) and template.popen.poll() is None
        if packet is None:
            return False
        (kind, *fields), descriptors = packet
        if kind == "importing":
            (self.importing,) = fields
            return True
        if kind == "preloaded":
            self.importing = ""
            self._on_preloaded(template, *fields)
            return True
        launched = self._launched.get(fields[0])
        if launched is None:
            for descriptor in descriptors:
                os.close(descriptor)
        elif kind == "forked":
            self._on_forked(launched, int(fields[1]), descriptors[0] if descriptors else None)
        elif kind == "refused":
            self._refuse(launched, fields[1])
        elif kind == "forbidden":
            self._on_forbidden(launched, fields[1], descriptors)
        else:
            code = int(fields[1]) if fields[1] else None
            if kind == "exited":
                launched.listener.on_exited(code, int(fields[2]))
            elif kind == "gone":
                self._finish(launched, code, int(fields[2]), fields[3] != "0")
        return True

    def _on_forked(self, launched: _Launched, pid: int, pidfd: int | None) -> None:
        """The worker was forked. Without its descriptor, if none was free, only the zygote reports its death."""
        launched.pid = pid
        launched.listener.on_started(pid)
        if pidfd is not None:
            launched.pidfd = pidfd
            self._loop.watch(pidfd, lambda mask: self._on_worker_dead(launched))


class _Unused:
    """Listens to a spare worker: if anything goes wrong with it, the spare is dropped.

    Args:
        drop: Forgets the spare.
    """

    def __init__(self, drop: Callable[[], object]):
        self._drop = drop

    def on_started(self, pid: int) -> None:
        """See `Listener.on_started`."""

    def on_refused(self, reason: str) -> None:
        """See `Listener.on_refused`."""
        self._drop()

    def on_lost(self, reason: str) -> None:
        """See `Listener.on_lost`."""
        self._drop()

    def on_dead(self) -> None:
        """See `Listener.on_dead`."""
        self._drop()

    def on_exited(self, exit_code: int | None, peak_bytes: int) -> None:
        """See `Listener.on_exited`."""

    def on_gone(self, exit_code: int | None, peak_bytes: int, survivors: bool) -> None:
        """See `Listener.on_gone`."""


def _memory_file() -> IO[bytes]:
    """Make a file that exists only in memory."""
    return open(os.memfd_create("preload"), "w+b")


def _kill_by_descriptor(pidfd: int) -> None:
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except OSError:
        pass
