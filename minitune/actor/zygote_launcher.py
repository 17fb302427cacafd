"""ZygoteLauncher: the driver's side of the template processes. Linux only."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from dataclasses import dataclass
from typing import IO

if sys.platform != "linux":
    raise ImportError("the zygote needs Linux; other systems start a new interpreter per worker")

from minitune.actor.channel import Channel, DriverEnd, socket_pair
from minitune.actor.launch import Listener, interpreter_command, marker_of, search_path, worker_environment
from minitune.actor.limits import CLOSE_S, PRELOAD_S, ZYGOTE_HELLO_S
from minitune.actor.loop import READ, WRITE, Loop, Timer
from minitune.actor.sweep import Sweep
from minitune.actor.zygote import receive_packet, send_packet

_log = logging.getLogger("minitune")


@dataclass
class _Launched:
    """One worker, as its launcher knows it."""

    token: str
    marker: str
    listener: Listener
    template: Template | None = None
    worker_end: socket.socket | None = None
    pidfd: int = -1
    was_forked: bool = False


class Template:
    """One template process. Holds no reference to its launcher, so that a finaliser can hold it.

    Args:
        run_id: Identifies the group.
        keep_descendants: See `make_launcher`.

    Raises:
        OSError: If the process cannot be made.
    """

    def __init__(self, run_id: str, keep_descendants: bool):
        self.end, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._unsent: deque[tuple[list[str], socket.socket | IO[bytes] | None]] = deque()
        try:
            with theirs:
                self.popen = subprocess.Popen(
                    interpreter_command("minitune.actor.zygote", theirs.fileno(), os.getpid()),
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    env=worker_environment(run_id),
                )
            self.pidfd = os.pidfd_open(self.popen.pid)
        except BaseException:
            self.end.close()
            raise
        self._driver_pid = os.getpid()
        self.end.setblocking(False)
        self.send(["setup", "keep" if keep_descendants else "", *search_path()])

    @property
    def has_unsent(self) -> bool:
        """Whether `flush` has to be called when the socket can be written to."""
        return bool(self._unsent)

    def send(self, fields: list[str], attached: socket.socket | IO[bytes] | None = None) -> None:
        """Send a packet, now or later; closes what goes with it."""
        self._unsent.append((fields, attached))
        self.flush()

    def flush(self) -> None:
        """Send what can be sent now. A dead zygote is no error here."""
        while self._unsent:
            fields, attached = self._unsent[0]
            try:
                send_packet(self.end, fields, None if attached is None else attached.fileno())
            except BlockingIOError:
                return
            except OSError:
                pass
            self._unsent.popleft()
            if attached is not None:
                attached.close()

    def close(self) -> None:
        """Let it kill everything and leave. Blocks for `CLOSE_S` seconds at most. Any number of times."""
        for _, attached in self._unsent:
            if attached is not None:
                attached.close()
        self._unsent.clear()
        if self.end.fileno() < 0 or os.getpid() != self._driver_pid:
            return
        # Not only closed: a process that the user forked from the driver may hold the socket too.
        try:
            self.end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.end.close()
        try:
            self.popen.wait(CLOSE_S + 1.0)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
        os.close(self.pidfd)


class ZygoteLauncher:
    """Has workers forked by a template process; by one more that has loaded a file, for those it is of use to.

    Args:
        loop: The driver's loop.
        run_id: Identifies the group.
        keep_descendants: See `make_launcher`.
        limit_bytes: The longest message.
    """

    hello_s = ZYGOTE_HELLO_S

    def __init__(self, loop: Loop, run_id: str, keep_descendants: bool, limit_bytes: int):
        self._loop = loop
        self._run_id = run_id
        self._keep_descendants = keep_descendants
        self._limit_bytes = limit_bytes
        self._launched: dict[str, _Launched] = {}
        self.templates: list[Template] = []
        self._bare: Template | None = None
        self._loaded: Template | None = None
        self._preloads: list[bytes] = []
        self._preloading = 0
        self._preload_timer: Timer | None = None
        self._held: dict[str, _Launched] = {}
        self._is_closed = False

    # -- Launcher ----------------------------------------------------------------------------------------------

    def launch(self, token: str, listener: Listener, preload: bool) -> DriverEnd:
        """See `Launcher.launch`."""
        ours, theirs = socket_pair()
        launched = _Launched(token, marker_of(self._run_id, token), listener, worker_end=theirs)
        self._launched[token] = launched
        self._loop.call_later(0.0, lambda: self._place(launched, preload))
        return Channel(ours, self._limit_bytes)

    def signal(self, token: str, number: int, whole_group: bool) -> None:
        """See `Launcher.signal`."""
        launched = self._launched.get(token)
        if launched is not None and launched.template is not None:
            self._send(launched.template, ["signal", token, str(int(number)), "group" if whole_group else ""])

    def kill(self, token: str) -> None:
        """See `Launcher.kill`."""
        launched = self._launched.get(token)
        if launched is None:
            return
        if launched.template is not None:
            self._send(launched.template, ["kill", token])
        else:  # not even asked for
            self._loop.call_later(0.0, lambda: self._finish(launched, None, 0, survivors=False))

    def force(self, token: str) -> None:
        """See `Launcher.force`. A zygote that has not even answered a request to fork is killed itself."""
        launched = self._launched.get(token)
        if launched is None:
            return
        if launched.pidfd >= 0:
            _kill_by_descriptor(launched.pidfd)
        elif launched.template is not None and not launched.was_forked:
            launched.template.popen.kill()
        self._sweep([launched])

    def preload(self, action: bytes) -> None:
        """See `Launcher.preload`."""
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

    # -- templates ---------------------------------------------------------------------------------------------

    def _start(self) -> Template:
        template = Template(self._run_id, self._keep_descendants)
        self.templates.append(template)
        self._loop.watch(template.end.fileno(), lambda mask: self._on_socket(template, mask))
        self._loop.watch(template.pidfd, lambda mask: self._on_template_dead(template))
        return template

    def _start_loaded(self) -> None:
        """Have a template preload; workers that want it wait for that."""
        try:
            template = self._loaded = self._start()
        except OSError as error:
            self._drop_loaded(f"no process could be made for it: {error}")
            return
        for action in self._preloads:
            self._send_preload(template, action)

    def _send_preload(self, template: Template, action: bytes) -> None:
        try:
            file = _memory_file()
            file.write(action)
            file.seek(0)
        except OSError as error:
            self._drop_loaded(f"it could not be handed over: {error}")
            return
        self._send(template, ["preload"], file)
        self._preloading += 1
        self._set_preload_timer()

    def _set_preload_timer(self) -> None:
        if self._preload_timer is not None:
            self._preload_timer.cancel()
        self._preload_timer = None
        if self._preloading:
            reason = f"it takes longer than {PRELOAD_S:g} s"
            self._preload_timer = self._loop.call_later(PRELOAD_S, lambda: self._drop_loaded(reason))

    def _on_preloaded(self, template: Template, failure: str, unsafe: str) -> None:
        if template is not self._loaded:
            return
        if failure:
            _log.warning("preloading failed; each worker will try for itself:\n%s", failure)
        if failure or unsafe:
            self._drop_loaded(unsafe or "it failed")
            return
        self._preloading -= 1
        self._set_preload_timer()
        self._release_held()

    def _drop_loaded(self, reason: str) -> None:
        """Do without preload from now on. Workers that were forked after an earlier one live on."""
        _log.info("workers are started without preload: %s", reason)
        template, self._loaded = self._loaded, None
        if template is not None and not any(one.template is template for one in self._launched.values()):
            template.popen.kill()  # it may be busy with foreign code; its death will be told
        self._preloads.clear()
        self._preloading = 0
        self._set_preload_timer()
        self._release_held()

    def _release_held(self) -> None:
        """Start those who have waited for the preload."""
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
        """Its workers die with it, by the parent-death signal; what they had started is ours to find."""
        while self._receive(template):
            pass
        self._retire(template)
        code = template.popen.returncode
        if template is self._bare:
            self._bare = None
        if template is self._loaded:
            self._loaded = None
            if self._preloading:
                self._drop_loaded(f"the process that does it ended with status {code}")
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
        """Kill in the zygote's stead."""

        def on_done(survivors: bool) -> None:
            for one in launched:
                self._finish(one, None, 0, survivors)

        if launched:
            Sweep(self._loop, [one.marker for one in launched], on_done)

    # -- workers -----------------------------------------------------------------------------------------------

    def _place(self, launched: _Launched, preload: bool) -> None:
        """Ask the right template for a worker."""
        if launched.token not in self._launched or launched.worker_end is None:
            return
        try:
            template = self._choose(preload)
        except OSError as error:
            self._refuse(launched, f"the zygote could not be started: {error}")
            return
        if template is None:
            self._held[launched.token] = launched
            return
        launched.template = template
        worker_end, launched.worker_end = launched.worker_end, None
        self._send(template, ["fork", launched.token, launched.marker], worker_end)

    def _choose(self, preload: bool) -> Template | None:
        """The template for a worker; None while it is still loading."""
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

    def _finish(self, launched: _Launched, exit_code: int | None, peak_bytes: int, survivors: bool) -> None:
        if launched.token in self._launched:
            self._forget(launched)
            launched.listener.on_gone(exit_code, peak_bytes, survivors)

    def _forget(self, launched: _Launched) -> None:
        self._launched.pop(launched.token, None)
        self._held.pop(launched.token, None)
        self._unwatch_worker(launched)
        if launched.worker_end is not None:
            launched.worker_end.close()

    def _unwatch_worker(self, launched: _Launched) -> None:
        if launched.pidfd >= 0:
            self._loop.unwatch(launched.pidfd)
            os.close(launched.pidfd)
            launched.pidfd = -1

    def _on_worker_dead(self, launched: _Launched) -> None:
        self._unwatch_worker(launched)
        launched.listener.on_dead()

    # -- the socket --------------------------------------------------------------------------------------------

    def _send(self, template: Template, fields: list[str], attached: socket.socket | IO[bytes] | None = None) -> None:
        template.send(fields, attached)
        if template.has_unsent and template.end.fileno() >= 0:
            self._loop.watch(template.end.fileno(), lambda mask: self._on_socket(template, mask), READ | WRITE)

    def _on_socket(self, template: Template, mask: int) -> None:
        if mask & WRITE:
            template.flush()
            if not template.has_unsent:
                self._loop.watch(template.end.fileno(), lambda mask: self._on_socket(template, mask))
        if mask & READ and not self._receive(template):
            self._loop.unwatch(template.end.fileno())  # its death will be told by its descriptor

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
        (kind, *fields), descriptor = packet
        if kind == "preloaded":
            self._on_preloaded(template, *fields)
            return True
        launched = self._launched.get(fields[0])
        if launched is None:
            if descriptor is not None:
                os.close(descriptor)
        elif kind == "forked":
            self._on_forked(launched, int(fields[1]), descriptor)
        elif kind == "refused":
            self._refuse(launched, fields[1])
        else:
            code = int(fields[1]) if fields[1] else None
            if kind == "exited":
                launched.listener.on_exited(code, int(fields[2]))
            elif kind == "gone":
                self._finish(launched, code, int(fields[2]), fields[3] != "0")
        return True

    def _on_forked(self, launched: _Launched, pid: int, pidfd: int | None) -> None:
        """There is a process. Without its descriptor, if we had none left, its death is told by the zygote alone."""
        launched.was_forked = True
        launched.listener.on_started(pid)
        if pidfd is not None:
            launched.pidfd = pidfd
            self._loop.watch(pidfd, lambda mask: self._on_worker_dead(launched))


def _memory_file() -> IO[bytes]:
    """A file that is nowhere on disk."""
    return open(os.memfd_create("preload"), "w+b")


def _kill_by_descriptor(pidfd: int) -> None:
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except OSError:
        pass
