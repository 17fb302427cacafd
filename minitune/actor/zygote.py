"""The zygote: a process that forks workers, reaps them, and kills the processes that they leave. Linux only.

It is a new interpreter, never a fork of the driver, and has one thread: a lock that another thread holds would stay
locked in the child for ever, and the parent-death signal fires when the forking *thread* ends. As the parent of the
workers it gets exact exit statuses, and as child subreaper their orphans, so no descendant escapes.

It talks to the driver over one inherited socket pair, by `packets`. When that closes, it kills its workers and exits.

A tree is killed in passes, between which the loop continues (`_sweep`): each stops and kills the worker, if it lives,
and its orphans, with all descendants. A sweep begins when the driver asks for it, or when the worker has died.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the C module of `signal`, without its slow enums
import atexit
import ctypes
import gc
import importlib
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

if sys.platform != "linux":
    raise ImportError("the zygote needs Linux; other systems start a new interpreter per worker")

from minitune.actor import process_tree, worker
from minitune.actor.channel import WorkerEnd
from minitune.actor.loop import Socket
from minitune.actor.messages import (
    CLOSE_S,
    DRIVER_CHECK_S,
    FORBIDDEN,
    FORBIDDEN_EXIT,
    KILL_CONFIRM_S,
    NO_THREADS,
    SWEEP_TICK_S,
    THREAD_CAPS,
)
from minitune.actor.packets import PACKET_BYTES, Outbox, receive_packet
from minitune.actor.surroundings import (
    arm_stack_dump,
    fork_by_default,
    line_buffer_c_output,
    move_high,
    reset_signals,
)
from minitune.base import processes
from minitune.base.process_limits import with_limits
from minitune.base.script import take_script

_PR_SET_CHILD_SUBREAPER = 36
NO_DESCRIPTOR = "the zygote had no free file descriptor"
# So many wake-ups are read at once; the rest would wake the loop again.
WAKE_UPS = 4096
# Prefixes of the names of GPU devices: a process that has opened one must not be forked.
GPU_PATHS = ("/dev/nvidia", "/dev/kfd", "/dev/dri")


class _Child:
    """A worker, from its fork until its tree is dead.

    Attributes:
        exit_code: None until it is reaped; from then on its number may belong to another process.
        sweep_until: When its sweep gives up, by `time.monotonic`.
        hunt: What the passes have killed so far; None until one has found something.
    """

    def __init__(self, token: int, marker: str, pid: int):
        self.token = token
        self.marker = marker
        self.pid = pid
        self.exit_code: int | None = None
        self.peak_bytes = 0
        self.ended_s = 0.0
        self.sweep_until = 0.0
        self.hunt: process_tree.Hunt | None = None


class Zygote:
    """The loop of the zygote."""

    def __init__(self, end: Socket, driver_pid: int):
        self._end = end
        self._pid = os.getpid()
        self._run_id = os.environ[process_tree.RUN_VARIABLE]
        self._workers: dict[int, _Child] = {}
        self._by_pid: dict[int, _Child] = {}
        self._sweeping: dict[int, _Child] = {}
        self._outbox = Outbox(end)
        process_tree.wake_at_end_of_parent()
        # End-of-file on the socket would not do: a process that the user has forked from the driver may hold it, too.
        self._driver = os.pidfd_open(driver_pid)
        if os.getppid() != driver_pid:  # the driver died before that: the descriptor may be of another process
            os._exit(0)
        self._wakeup, self._wakeup_in = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        # These two are looked up here and not in each child: an object that no child touches costs no page.
        self._marker_address = _marker_address()
        self._prctl = ctypes.CDLL(None, use_errno=True).prctl
        self._prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        line_buffer_c_output()
        fork_by_default()
        self._take_signals()

    def _take_signals(self) -> None:
        """Ignore Ctrl-C and similar signals, which the driver handles, and wake up when a child dies."""
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, _wake_up)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # a blocked SIGCHLD would not wake it up
        signal.set_wakeup_fd(self._wakeup_in, warn_on_full_buffer=False)
        arm_stack_dump()  # for the workers, which inherit it

    def serve(self) -> worker.Worker:
        """Serve the driver until it has ended, and exit. Returns the new worker in each forked child."""
        gc.freeze()  # a collection in a worker would write to every object, and so copy every page
        poll = select.poll()
        for descriptor in (self._end.fileno(), self._driver, self._wakeup):
            poll.register(descriptor, select.POLLIN)
        while True:
            pause_ms = SWEEP_TICK_S * 1000 if self._sweeping or self._outbox.unsent else None
            ready = dict(poll.poll(pause_ms))  # events by descriptor
            if self._driver in ready:  # first of all: no worker may be forked for a driver that has ended
                self._end_all()
            # Ends come before requests: a trial's next attempt must find the resources of the last one free.
            if self._wakeup in ready:
                os.read(self._wakeup, WAKE_UPS)
            # In each turn, woken or not: a preload may have taken the signal. After the draining, never before: a death
            # between the two would stay a zombie until the next one.
            self._reap()
            for child in list(self._sweeping.values()):
                self._sweep(child)
            self._outbox.flush()
            if self._end.fileno() in ready:
                forked = self._receive()
                if forked is not None:
                    return forked

    def _receive(self) -> worker.Worker | None:
        """Handle one packet. The next one waits for the next turn, so that ends are told between two forks."""
        try:
            packet = receive_packet(self._end)
        except OSError:
            packet = None
        if packet is None:
            self._end_all()
        (kind, *fields), descriptors = packet
        if kind == "fork" and len(descriptors) == 2:
            return self._fork(fields[0], descriptors)
        if kind == "fork":
            for descriptor in descriptors:
                os.close(descriptor)
            self._outbox.send(("refused", *fields, NO_DESCRIPTOR))
        elif kind == "kill":
            self._kill(*fields)
        elif kind == "signal":
            self._signal(*fields)
        elif kind == "preload":
            self._outbox.send(("preloaded", *self._preload(*fields)))
        elif kind == "setup":
            self._set_up(*fields)
        return None

    def _set_up(self, needed: Sequence[str], script: tuple[Any, ...]) -> None:
        """Take over the driver's path, which may be the only one with cloudpickle, and import what all workers need."""
        take_script(script)
        gc.disable()
        for module in ("cloudpickle", *needed):
            importlib.import_module(module)
        gc.freeze()
        gc.enable()

    # -- workers -----------------------------------------------------------------------------------------------

    def _fork(self, token: int, channels: Sequence[int]) -> worker.Worker | None:
        """Fork a worker and close its `channels`. Returns the worker in the child, None in the parent."""
        marker = process_tree.marker_of(self._run_id, token)
        try:
            pid = os.fork()
        except OSError as error:
            if error.errno in FORBIDDEN and not self._by_pid:  # with workers, it would end them, too
                os._exit(FORBIDDEN_EXIT)
            reason = with_limits(f"could not start a process: {error.strerror} (errno {error.errno})")
            self._outbox.send(("refused", token, reason))
        else:
            if pid == 0:
                return self._become_worker(marker, channels)
            # The child may be dead by now. That is no race: the loop calls `_reap`, and no signal handler does.
            self._workers[token] = self._by_pid[pid] = _Child(token, marker, pid)
        for channel in channels:
            os.close(channel)
        return None

    def _become_worker(self, marker: str, channels: Sequence[int]) -> worker.Worker:
        """Make a forked child a worker. The order matters: first make sure that it cannot outlive the zygote."""
        self._prctl(process_tree.PR_SET_PDEATHSIG, _signal.SIGKILL, 0, 0, 0)
        if os.getppid() != self._pid:  # the zygote died before the call above
            os._exit(1)
        os.setsid()  # so that neither Ctrl-C nor a signal to another worker's group reaches it
        signal.set_wakeup_fd(-1)
        reset_signals()
        work = WorkerEnd(move_high(channels[0]))
        control = WorkerEnd(move_high(channels[1]))
        # Close only files that the zygote opened itself: a file that a preloaded import has opened must stay open.
        for descriptor in (*channels, self._end.fileno(), self._driver, self._wakeup, self._wakeup_in):
            os.close(descriptor)  # not through the objects: what a child does not touch costs no page
        _show_marker(self._marker_address, marker)
        atexit._clear()  # what an import has registered is for the zygote, such as the removal of its directory
        _reseed()
        return worker.Worker(work, control, marker)

    def _signal(self, token: int, number: int, whole_group: bool) -> None:
        """Send a signal to a worker, unless it is reaped: then its number may belong to another process."""
        child = self._workers.get(token)
        if child is None or child.exit_code is not None:
            return
        if not (whole_group and process_tree.kill_group(child.pid, number)):
            process_tree.send_signal(child.pid, number)

    def _kill(self, token: int) -> None:
        child = self._workers.get(token)
        if child is not None and token not in self._sweeping:
            self._begin_sweep(child)

    def _begin_sweep(self, child: _Child) -> None:
        child.sweep_until = time.monotonic() + KILL_CONFIRM_S
        self._sweeping[child.token] = child
        self._sweep(child)

    def _reap(self) -> None:
        """Collect all dead children; after the end of a worker, start the sweep of its tree."""
        while True:  # one signal may stand for several deaths
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            # From now on, its number may belong to another process, so nothing is sent to it any more.
            child = self._by_pid.pop(pid, None)
            if child is None:
                continue  # an orphan whose parent we have become
            child.exit_code = os.waitstatus_to_exitcode(status)
            child.peak_bytes = usage.ru_maxrss * 1024
            child.ended_s = time.time()
            if child.token not in self._sweeping:  # otherwise `serve` runs the next pass
                self._begin_sweep(child)

    def _sweep(self, child: _Child) -> None:
        """One pass over the tree of a worker. The last one finds nothing alive, or the time is over."""
        is_alive = child.exit_code is None
        orphans = self._orphans(child)
        if is_alive:
            orphans.append(child.pid)
        left = 0
        if orphans or child.hunt is not None:  # most workers leave nothing
            child.hunt = child.hunt or process_tree.Hunt()
            left = child.hunt.strike(orphans)
        if is_alive:  # a process of its group may have been forked after the search
            process_tree.kill_group(child.pid, signal.SIGKILL)
        elif left == 0:
            self._forget(child, survivors=False)
            return
        if time.monotonic() > child.sweep_until:
            self._forget(child, survivors=left + is_alive > 0)

    def _orphans(self, child: _Child) -> list[int]:
        """Our children that are orphans of this worker.

        One without an environment, such as one that starts another program now, is killed at the end of the run.
        """
        # They are our children. So none of these numbers can belong to another process before `_reap` has seen its end.
        marker = child.marker.encode()
        others = (pid for pid in processes.children(self._pid, has_one_thread=True) if pid not in self._by_pid)
        return [pid for pid in others if processes.session(pid) == child.pid or marker in processes.environment(pid)]

    def _forget(self, child: _Child, survivors: bool) -> None:
        """Tell the driver that a worker's tree is dead, or that it cannot be killed. One that cannot be killed stays in
        `_by_pid`, or it would be taken for an orphan of another worker.
        """
        self._sweeping.pop(child.token, None)
        self._workers.pop(child.token, None)
        facts = child.pid, child.exit_code, child.peak_bytes, child.ended_s, survivors
        self._outbox.send(("ended", child.token, *facts))

    def _end_all(self) -> NoReturn:
        """Kill everything that was started here, and exit."""
        until = time.monotonic() + CLOSE_S
        hunt = process_tree.Hunt()
        while time.monotonic() < until:
            self._reap()
            pids = processes.children(self._pid, has_one_thread=True)
            if not pids:
                break
            hunt.strike(pids)
            # Not with the poll of `serve`: the driver's socket is at its end and would always be ready.
            if select.select([self._wakeup], [], [], SWEEP_TICK_S)[0]:
                os.read(self._wakeup, WAKE_UPS)
        os._exit(0)

    # -- preload -----------------------------------------------------------------------------------------------

    def _preload(self, action: bytes) -> tuple[str, str]:
        """Call a pickled function whose effects all workers will share. Returns the traceback of its failure, and why
        this process must not fork any more.
        """
        from minitune.base.pickling import load_value

        failure = ""
        with self._watching_driver(), _without_threads():
            try:
                load_value(action)()
            except BaseException:
                failure = traceback.format_exc()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()  # otherwise each worker would print it again
        self._take_signals()  # the foreign code may have changed them
        gc.freeze()
        return failure[-PACKET_BYTES // 4 :], _why_unsafe()

    @contextmanager
    def _watching_driver(self) -> Iterator[None]:
        """While foreign code keeps the loop from it, end with the driver and report imports."""
        told = ""

        def look(number: int, frame: FrameType | None) -> None:
            nonlocal told
            if select.select([self._driver], [], [], 0)[0]:
                self._end_all()
            name = _package_in_import(frame)
            if name not in ("", told):
                told = name
                self._outbox.send(("importing", name))

        signal.signal(signal.SIGALRM, look)
        signal.setitimer(signal.ITIMER_REAL, DRIVER_CHECK_S, DRIVER_CHECK_S)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)


def main(descriptor: int, driver_pid: int) -> NoReturn:
    """Run the zygote. Never returns, neither in it nor in the workers that it forks."""
    try:
        zygote = Zygote(Socket(fileno=descriptor), driver_pid)
    except OSError as error:
        if error.errno not in FORBIDDEN:
            raise
        os._exit(FORBIDDEN_EXIT)
    worker.serve(zygote.serve())


def _package_in_import(frame: FrameType | None) -> str:
    """Return the package that a stack imports: the outermost installed one, else the outermost; empty if none."""
    outermost = installed = ""
    while frame is not None:
        name = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if frame.f_code.co_name == "<module>" and name != "__main__":
            outermost = name
            if "-packages" in frame.f_code.co_filename:  # site-packages, or Debian's dist-packages
                installed = name
        frame = frame.f_back
    return installed or outermost


def _wake_up(number: int, frame: FrameType | None) -> None:
    """Do nothing: a signal with a handler writes to the wake-up descriptor."""


@contextmanager
def _without_threads() -> Iterator[None]:
    """Keep numerical libraries from starting threads while they are imported."""
    env = {**dict.fromkeys(THREAD_CAPS, "1"), **NO_THREADS}
    before = {name: os.environ.get(name) for name in env}
    os.environ.update(env)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _why_unsafe() -> str:
    """Return why a worker must not be forked from this process; empty if it may.

    A thread does not exist after the fork and may hold a lock; GPU contexts do not survive.
    """
    threads = len(processes.threads(os.getpid()))
    if threads > 1:
        return f"it has started {threads - 1} thread(s)"
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
        if target.startswith(GPU_PATHS):
            return f"it has opened {target}"
    return ""


def _marker_address() -> int:
    """Return the address of the marker's placeholder in the memory that shows our environment; 0 if it is missing."""
    fields = processes.stat(os.getpid())
    shown = b"\0" + processes.read("/proc/self/environ")
    position = shown.find(f"\0{process_tree.TRIAL_VARIABLE}=".encode())
    if fields is None or position < 0:
        return 0
    env_start = int(fields[47])  # field 50 of proc(5), counted from 1; the first two are cut off
    if not env_start:
        return 0
    return env_start + position + len(process_tree.TRIAL_VARIABLE) + 1


def _show_marker(address: int, marker: str) -> None:
    """Write the marker into our environment, in place: others see only the memory of the start."""
    if address:
        ctypes.memmove(address, marker.encode(), len(marker))
    os.environ[process_tree.TRIAL_VARIABLE] = marker


def _reseed() -> None:
    """Seed generators that an import has seeded for all workers; Python's `random` does it itself."""
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.default_generator.manual_seed(int.from_bytes(os.urandom(7), "little"))
