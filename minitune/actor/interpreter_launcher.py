"""InterpreterLauncher: starts a new interpreter for each worker.

The driver is the parent of the workers, and learns of a death from a thread that waits. Then it reaps the worker, and
sweeps the processes that carry the worker's marker. If the driver itself dies, each worker ends by itself, with its
children: its control pipe has ended.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from minitune.actor import process_tree
from minitune.actor.channel import worker_sockets
from minitune.actor.launcher import (
    End,
    Launcher,
    OnEnd,
    interpreter_command,
    starting_directory,
    worker_environment,
)
from minitune.actor.loop import Loop, Socket
from minitune.actor.messages import CLOSE_S, INTERPRETER_HELLO_S
from minitune.actor.process_tree import Sweep, marker_of
from minitune.base import processes
from minitune.base.disk import has_too_many_open
from minitune.base.process_limits import with_limits

_STATUS_S = 0.1
"""How long the thread of a dead process may take to read its exit status; not measured. A debugger may delay that."""


@dataclass
class _Interpreter:
    """The launcher's record of one worker."""

    token: int
    marker: str
    on_end: OnEnd
    popen: subprocess.Popen[bytes]
    waiter: threading.Thread = field(init=False)
    exit_code: int | None = None
    peak_bytes: int = 0
    ended_s: float = 0.0
    is_sweeping: bool = False
    hunt: process_tree.Hunt = field(default_factory=process_tree.Hunt)

    @property
    def roots(self) -> list[int]:
        """Its process while it is not reaped: until then no other process can have its number."""
        return [self.popen.pid] if self.popen.returncode is None else []


class InterpreterLauncher(Launcher):
    """Starts an interpreter for each worker. Each costs 50 ms or more, and a scan of all processes at its end."""

    hello_s = INTERPRETER_HELLO_S

    def __init__(self, loop: Loop, run_id: str):
        self._loop = loop
        self._run_id = run_id
        self._workers: dict[int, _Interpreter] = {}
        self._tokens = itertools.count(1)
        self._survivors: list[_Interpreter] = []

    # -- Launcher ----------------------------------------------------------------------------------------------

    def launch(self, on_end: OnEnd, preload: bool) -> tuple[int, Socket, Socket]:
        token = next(self._tokens)
        ours, worker_ends = worker_sockets()
        # Not at once: if it fails, `on_end` is called, and the caller does not know the token yet.
        self._loop.call_later(0.0, partial(self._start, token, on_end, worker_ends))
        return token, *ours

    def signal(self, token: int, number: int, whole_group: bool) -> None:
        worker = self._workers.get(token)
        if worker is None or worker.popen.returncode is not None:
            return
        if not (whole_group and process_tree.kill_group(worker.popen.pid, number)):
            process_tree.send_signal(worker.popen.pid, number)

    def kill(self, token: int) -> None:
        worker = self._workers.get(token)
        if worker is not None:
            self._sweep(worker)

    def force(self, token: int) -> None:
        """There is no other way here; the sweep continues until it gives up."""
        self.kill(token)

    def replace_parent(self, token: int) -> None:
        """The parent is this process, which is not stuck."""

    def preload(self, action: bytes) -> None:
        """New interpreters cannot share anything, so this does nothing."""

    def close(self) -> None:
        until = time.monotonic() + CLOSE_S
        victims = [*self._workers.values(), *self._survivors]

        def roots() -> list[int]:
            for worker in victims:
                self._reap(worker, os.WNOHANG)
            return [pid for worker in victims for pid in worker.roots]

        if victims:
            process_tree.sweep([worker.marker for worker in victims], CLOSE_S, roots)
        self._workers.clear()
        for worker in victims:
            worker.waiter.join(max(0.0, until - time.monotonic()))

    # -- start -------------------------------------------------------------------------------------------------

    def _start(self, token: int, on_end: OnEnd, ends: Sequence[Socket]) -> None:
        """Start a worker; `ends`, its ends of the two pipes, are closed here."""
        marker = marker_of(self._run_id, token)
        # The driver must not keep the worker's ends: then it would never see the end of a pipe.
        with contextlib.closing(ends[0]), contextlib.closing(ends[1]):
            try:
                popen = self._open_process(token, [end.fileno() for end in ends])
            except OSError as error:
                if has_too_many_open(error):
                    raise
                on_end(End("refused", with_limits(f"could not start a process: {error}")))
                return
        worker = _Interpreter(token, marker, on_end, popen)
        worker.waiter = threading.Thread(target=self._wait_for, args=(worker,), daemon=True)
        try:
            worker.waiter.start()
        except RuntimeError as error:  # the system has no thread left
            popen.kill()
            self._reap(worker, 0)
            on_end(End("refused", with_limits(f"could not start a thread: {error}")))
            return
        self._workers[token] = worker

    def _open_process(self, token: int, descriptors: list[int]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            interpreter_command("minitune.actor.worker", *descriptors),
            stdin=subprocess.DEVNULL,
            env=worker_environment(self._run_id, token),
            pass_fds=descriptors,
            start_new_session=True,
            cwd=starting_directory(),
        )

    def _wait_for(self, worker: _Interpreter) -> None:
        """Block until the process is dead, if possible without reaping it: its number stays its own."""
        try:
            if sys.platform == "linux" and hasattr(os, "waitid"):
                os.waitid(os.P_PID, worker.popen.pid, os.WEXITED | os.WNOWAIT)
            else:
                self._reap(worker, 0)
        except ChildProcessError:
            pass  # the process is reaped when the group is closed
        self._loop.post(lambda: self._on_dead(worker))

    # -- end ---------------------------------------------------------------------------------------------------

    def _on_dead(self, worker: _Interpreter) -> None:
        if worker.token not in self._workers:
            return
        worker.ended_s = time.time()
        # Until the worker is reaped, its number, and so its session, belongs to it.
        with contextlib.suppress(OSError):  # without a free descriptor, only processes with its marker are found
            worker.hunt.strike(pid for pid in processes.all_pids() if processes.session(pid) == worker.popen.pid)
        self._reap(worker, os.WNOHANG)  # while a debugger traces it, it is dead and cannot be reaped
        self._sweep(worker)

    def _reap(self, worker: _Interpreter, options: int) -> None:
        popen = worker.popen
        if popen.returncode is not None:
            return
        # Not `popen.wait`: it does not tell the memory.
        try:
            pid, status, usage = os.wait4(popen.pid, options)
        except ChildProcessError:  # other code in the driver has waited for any child, or ignores SIGCHLD
            popen.returncode = 0  # it is reaped, though its status is unknown
            return
        if pid:
            worker.exit_code = popen.returncode = os.waitstatus_to_exitcode(status)
            worker.peak_bytes = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)

    def _sweep(self, worker: _Interpreter) -> None:
        """Kill its tree, and the process itself if it still lives."""
        if worker.is_sweeping:
            return
        worker.is_sweeping = True
        # The hunt goes on from kill to death: a killed process may take long to die, and shows no marker meanwhile.

        def on_done(survivors: bool) -> None:
            worker.is_sweeping = False
            if not survivors:
                # It is dead. Where its thread reaps it, that may just be reading the status.
                worker.waiter.join(_STATUS_S)
                worker.ended_s = worker.ended_s or time.time()
            self._reap(worker, os.WNOHANG)
            self._finish(worker, survivors)

        Sweep(self._loop, [worker.marker], on_done, lambda: worker.roots, worker.hunt)

    def _finish(self, worker: _Interpreter, survivors: bool) -> None:
        if self._workers.pop(worker.token, None) is not None:
            if survivors:
                self._survivors.append(worker)
            popen = worker.popen
            facts = popen.pid, worker.exit_code, worker.peak_bytes, worker.ended_s, survivors
            worker.on_end(End("died", "", *facts))
