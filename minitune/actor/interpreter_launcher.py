"""InterpreterLauncher: starts a new interpreter for each worker, on any system."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from minitune.actor import process_tree
from minitune.actor.channel import Channel, DriverEnd, PumpedChannel, worker_sockets
from minitune.actor.launcher import Listener, interpreter_command, marker_of, starting_directory, worker_environment
from minitune.actor.loop import Loop
from minitune.actor.messages import CLOSE_S, INTERPRETER_HELLO_S, QUIET_PASSES, SWEEP_TICK_S
from minitune.actor.process_tree import Sweep

CHANNEL_VARIABLE = "MINITUNE_CHANNEL"
"""Environment variable for tests: `pump` uses the channel of Windows on any system."""


@dataclass
class _Launched:
    """The launcher's record of one worker."""

    token: str
    marker: str
    listener: Listener
    popen: subprocess.Popen[bytes]
    pidfd: int = -1
    waiter: threading.Thread | None = None
    peak_bytes: int = 0
    is_sweeping: bool = False
    hunt: process_tree.Hunt = field(default_factory=process_tree.Hunt)

    @property
    def roots(self) -> list[int]:
        """Its process while it is not reaped: until then no other process can have its number."""
        return [self.popen.pid] if self.popen.returncode is None else []


class InterpreterLauncher:
    """Starts an interpreter for each worker. Each costs 50 ms or more, and a scan of all processes at its end.

    Args:
        loop: The driver's loop.
        run_id: Identifies the group.
        keep_descendants: See `make_launcher`.
        tokens: The source of the workers' names, shared with another launcher of the same group.
    """

    hello_s = INTERPRETER_HELLO_S
    importing = ""

    def __init__(
        self,
        loop: Loop,
        run_id: str,
        keep_descendants: bool,
        tokens: Iterator[str] | None = None,
    ):
        self._loop = loop
        self._run_id = run_id
        self._keep_descendants = keep_descendants
        self._launched: dict[str, _Launched] = {}
        self._tokens = tokens or map(str, itertools.count(1))
        self._survivors: list[_Launched] = []
        self._guard: subprocess.Popen[bytes] | None = None
        self._threads: list[threading.Thread] = []
        self._is_pumped = sys.platform == "win32" or os.environ.get(CHANNEL_VARIABLE) == "pump"

    # -- Launcher ----------------------------------------------------------------------------------------------

    def launch(self, listener: Listener, preload: bool, alone: bool = False) -> tuple[str, DriverEnd, DriverEnd]:
        """See `Launcher.launch`. No process stands between the driver and a worker, so each worker is alone."""
        token = next(self._tokens)
        if self._is_pumped:
            from multiprocessing import Pipe

            (first, theirs), (second, their_reports) = Pipe(), Pipe()
            pumped, reports = PumpedChannel(first), PumpedChannel(second)
            self._threads = [thread for thread in self._threads if thread.ident is None or thread.is_alive()]
            self._threads += pumped.threads + reports.threads
            self._loop.call_later(0.0, partial(self._start, token, listener, (theirs, their_reports)))
            return token, pumped, reports
        ours, worker_ends = worker_sockets()
        self._loop.call_later(0.0, partial(self._start, token, listener, worker_ends))
        return token, Channel(ours[0]), Channel(ours[1])

    def adopt(self, token: str, listener: Listener, ends: Sequence[socket.socket]) -> None:
        """Start a worker that another launcher of the group has named but could not start.

        Args:
            token: Its name.
            listener: See `Launcher.launch`.
            ends: Its ends of the control channel and the report pipe; closed here.
        """
        self._loop.call_later(0.0, partial(self._start, token, listener, ends))

    def signal(self, token: str, number: int, whole_group: bool) -> None:
        """See `Launcher.signal`."""
        launched = self._launched.get(token)
        if launched is not None and launched.popen.returncode is None:
            if sys.platform == "win32":
                launched.popen.send_signal(number)
            elif not (whole_group and process_tree.kill_group(launched.popen.pid, number)):
                process_tree.send_signal(launched.popen.pid, number)

    def kill(self, token: str) -> None:
        """See `Launcher.kill`."""
        launched = self._launched.get(token)
        if launched is not None:
            self._sweep(launched)

    def force(self, token: str) -> None:
        """See `Launcher.force`. There is no other way here; the sweep continues until it gives up."""
        self.kill(token)

    def is_ending(self, pid: int) -> bool:
        """See `Launcher.is_ending`."""
        return process_tree.is_ending(pid)

    def preload(self, action: bytes) -> None:
        """See `Launcher.preload`. New interpreters cannot share anything, so this does nothing."""

    def close(self) -> None:
        """See `Launcher.close`."""
        until = time.monotonic() + CLOSE_S
        hunt = process_tree.Hunt()
        victims = [*self._launched.values(), *self._survivors]
        quiet_passes = 0 if victims else QUIET_PASSES
        while quiet_passes < QUIET_PASSES and time.monotonic() < until:
            roots = [pid for launched in victims for pid in launched.roots]
            try:
                left = hunt.strike([*roots, *process_tree.marked([launched.marker for launched in victims])])
            except OSError:  # no file descriptor is free to look at processes
                left = 1
            quiet_passes = 0 if left else quiet_passes + 1
            for launched in victims:
                self._reap(launched, getattr(os, "WNOHANG", 0))
            time.sleep(SWEEP_TICK_S)
        for launched in list(self._launched.values()):
            self._forget(launched)
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, until - time.monotonic()))
        self._dismiss_guard()

    # -- start -------------------------------------------------------------------------------------------------

    def _start(self, token: str, listener: Listener, ends: Sequence[Any]) -> None:
        """Start a worker; `ends` are its ends of the control channel and the report pipe, which are closed here."""
        marker = marker_of(self._run_id, token)
        with ends[0], ends[1]:
            try:
                self._ensure_guard()
                popen = self._open_process(token, [end.fileno() for end in ends])
            except OSError as error:
                listener.on_refused(f"could not start a process: {error}")
                return
        launched = self._launched[token] = _Launched(token, marker, listener, popen)
        listener.on_started(popen.pid)
        self._watch(launched)

    def _open_process(self, token: str, handles: list[int]) -> subprocess.Popen[bytes]:
        command = interpreter_command("minitune.actor.worker", *handles, self._is_pumped)
        env = worker_environment(self._run_id, token)
        if sys.platform == "win32":
            for handle in handles:
                os.set_handle_inheritable(handle, True)
            info = subprocess.STARTUPINFO(lpAttributeList={"handle_list": handles})
            flags = subprocess.CREATE_NEW_PROCESS_GROUP  # the driver handles Ctrl-C
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, env=env, startupinfo=info, creationflags=flags, close_fds=True
            )
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            env=env,
            pass_fds=handles,
            start_new_session=True,
            cwd=starting_directory(),
        )

    def _watch(self, launched: _Launched) -> None:
        """Make the loop report the death of the process."""
        if sys.platform == "linux" and hasattr(os, "pidfd_open"):
            try:
                launched.pidfd = os.pidfd_open(launched.popen.pid)
            except OSError:  # no descriptor is free, or the kernel has no pidfd
                launched.pidfd = -1
        if launched.pidfd >= 0:
            self._loop.watch(launched.pidfd, lambda mask: self._on_dead(launched))
            return
        launched.waiter = threading.Thread(target=self._wait_for, args=(launched,), daemon=True)
        self._threads.append(launched.waiter)
        launched.waiter.start()

    def _wait_for(self, launched: _Launched) -> None:
        """Block until the process is dead, if possible without reaping it, so that no other process gets its number."""
        try:
            if sys.platform == "linux" and hasattr(os, "waitid"):
                os.waitid(os.P_PID, launched.popen.pid, os.WEXITED | os.WNOWAIT)
            else:
                launched.popen.wait()
        except ChildProcessError:
            pass  # the process is reaped when the group is closed
        self._loop.post(lambda: self._on_dead(launched))

    # -- end ---------------------------------------------------------------------------------------------------

    def _on_dead(self, launched: _Launched) -> None:
        if launched.token not in self._launched:
            return
        self._unwatch(launched)
        launched.listener.on_dead()
        if not self._keep_descendants:  # until it is reaped, its number, and so its session, belongs to it
            with contextlib.suppress(OSError):  # without a free descriptor, only processes with its marker are found
                launched.hunt.strike(
                    pid for pid in process_tree.all_pids() if process_tree.session(pid) == launched.popen.pid
                )
        self._reap(launched, 0)
        code = launched.popen.returncode
        if self._keep_descendants and code == 0 and not launched.is_sweeping:
            self._finish(launched, survivors=False)
        else:
            launched.listener.on_exited(code, launched.peak_bytes)
            self._sweep(launched)

    def _reap(self, launched: _Launched, options: int) -> None:
        """Read the exit status and the peak memory of a dead process."""
        popen = launched.popen
        if popen.returncode is not None:
            return
        if sys.platform == "win32" or not hasattr(os, "wait4"):
            popen.poll()
            return
        try:
            pid, status, usage = os.wait4(popen.pid, options)
        except ChildProcessError:  # other code in the driver has waited for any child
            popen.poll()
            return
        if pid:
            popen.returncode = os.waitstatus_to_exitcode(status)
            launched.peak_bytes = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)

    def _sweep(self, launched: _Launched) -> None:
        """Kill the rest of its tree. The sweep ends when the process is dead, too."""
        if launched.is_sweeping:
            return
        launched.is_sweeping = True

        def on_done(survivors: bool) -> None:
            launched.is_sweeping = False
            if launched.popen.returncode is None and not survivors:
                return  # `_on_dead` will sweep once more
            self._finish(launched, survivors)

        Sweep(self._loop, [launched.marker], on_done, lambda: launched.roots, launched.hunt)

    def _finish(self, launched: _Launched, survivors: bool) -> None:
        if launched.token in self._launched:
            self._forget(launched)
            if survivors:
                self._survivors.append(launched)
            launched.listener.on_gone(launched.popen.returncode, launched.peak_bytes, survivors)

    def _forget(self, launched: _Launched) -> None:
        self._launched.pop(launched.token, None)
        self._unwatch(launched)

    def _unwatch(self, launched: _Launched) -> None:
        if launched.pidfd >= 0:
            self._loop.unwatch(launched.pidfd)
            os.close(launched.pidfd)
            launched.pidfd = -1

    # -- the guard ---------------------------------------------------------------------------------------------

    def _ensure_guard(self) -> None:
        """Start the guard before the first worker, and again if it was killed.

        Raises:
            OSError: If it cannot be started.
        """
        if self._guard is not None and self._guard.poll() is None:
            return
        self._dismiss_guard()
        self._guard = subprocess.Popen(
            interpreter_command("minitune.actor.guard", os.getpid(), [path for path in sys.path if path]),
            stdin=subprocess.PIPE,
            env=worker_environment(self._run_id),
            start_new_session=sys.platform != "win32",
            cwd=starting_directory(),
        )

    def _dismiss_guard(self) -> None:
        """Tell the guard to exit. Blocks for a short time."""
        guard, self._guard = self._guard, None
        if guard is None or guard.stdin is None:
            return
        try:
            with guard.stdin:
                guard.stdin.write(b".")
        except OSError:
            pass
        try:
            guard.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            guard.kill()
            guard.wait()
