"""The surroundings of user code in a worker: saved at the start, set for an actor, restored for the next one.

They are directory, output files, environment, and what else user code may change: signal handlers, paths, warnings,
logging. Limits and the mask of file modes stay: the next trial has the same function, which sets them again.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the C module of `signal`, without its slow enums
import contextlib
import faulthandler
import fcntl
import os
import resource
import signal
import sys
import threading
import warnings
from collections.abc import Mapping
from typing import Any

from minitune.actor.messages import HIGH_DESCRIPTOR, Workplace
from minitune.base.files import working_directory

_STREAMS = {1: "stdout", 2: "stderr"}
_SIGNALS = range(1, signal.NSIG)


def move_high(descriptor: int) -> int:
    """Duplicate a descriptor to a high number: user code may close all low ones, and children do not inherit it."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    lowest = HIGH_DESCRIPTOR if soft < 0 else max(0, min(HIGH_DESCRIPTOR, soft - 64))
    return int(fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, lowest))


def reset_signals() -> None:
    """Give signals their usual effect, which the driver or a preloaded module may have changed.

    An ignored SIGCHLD hides how a child has ended.
    """
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
    for number in (_signal.SIGHUP, _signal.SIGTERM, _signal.SIGCHLD):
        _signal.signal(number, _signal.SIG_DFL)
    _signal.signal(_signal.SIGINT, _signal.default_int_handler)


def stop_timers() -> None:
    """Stop the timers of this process that send signals."""
    for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
        signal.setitimer(timer, 0)


def arm_stack_dump() -> None:
    """Dump the stack to standard error at a fatal signal, and those of all threads at SIGUSR2.

    After `dump_stacks` was called, SIGUSR2 is ignored.
    """
    if sys.version_info >= (3, 14):  # it would add C's stack, which is longer than the last lines that are kept
        faulthandler.enable(2, all_threads=False, c_stack=False)
    else:
        faulthandler.enable(2, all_threads=False)
    faulthandler.unregister(signal.SIGUSR2)
    _signal.signal(_signal.SIGUSR2, _signal.SIG_IGN)  # the handler that `unregister` restores
    faulthandler.register(signal.SIGUSR2, 2, all_threads=True, chain=False)


def dump_stacks() -> None:
    """Write the stacks of all threads to standard error.

    The calling thread holds the interpreter's lock; the handler of SIGUSR2 does not, and may read a changing stack, and
    crash. So SIGUSR2 is only for user code that does not release the lock.
    """
    faulthandler.unregister(signal.SIGUSR2)
    faulthandler.dump_traceback(2, all_threads=True)


def fork_by_default() -> None:
    """Let `multiprocessing` fork in user code, unless that chooses another start method.

    From Python 3.14 on, its default is a server that imports the user's script; in a worker `__main__` is not the
    script, so a pool would wait forever.
    """
    if sys.platform == "linux" and sys.version_info >= (3, 14):
        from multiprocessing import context

        context._default_context._default_context = context._concrete_contexts["fork"]


def line_buffer_c_output() -> None:
    """Make C code flush standard output after each line, as Python does.

    C would flush its buffer only when a process exits in C's own way, which a worker never does.
    """
    import ctypes

    libc = ctypes.CDLL(None)
    line_buffered = 1  # _IOLBF of the C libraries of Linux and macOS
    for name in ("stdout", "__stdoutp"):  # the latter on macOS and the BSDs
        with contextlib.suppress(ValueError):  # it has no such symbol
            libc.setvbuf(ctypes.c_void_p.in_dll(libc, name), None, line_buffered, 0)


class _Signals:
    """The signal handlers and the mask of this thread before any user code ran."""

    def __init__(self) -> None:
        self._handlers = list(map(_signal.getsignal, _SIGNALS))
        self._mask = set(_signal.pthread_sigmask(_signal.SIG_BLOCK, ()))

    def restore(self) -> None:
        stop_timers()  # first: a timer could ring while its handler is being removed
        if threading.current_thread() is threading.main_thread():
            signal.set_wakeup_fd(-1)
        for number, handler in zip(_SIGNALS, self._handlers, strict=True):
            if handler is not None and _signal.getsignal(number) is not handler:
                _signal.signal(number, handler)
        _signal.pthread_sigmask(_signal.SIG_SETMASK, self._mask)
        arm_stack_dump()


class Surroundings:
    """The state of this process before any user code ran. Use it on the main thread."""

    def __init__(self) -> None:
        self._directory = working_directory()
        self._environment = os.environ.copy()
        self._signals = _Signals()
        self._path = list(sys.path)
        self._argv = list(sys.argv)
        self._warnings = list(warnings.filters)
        self._logging = _read_logging()
        self._outputs: dict[int, int] = {}  # by standard descriptor: a duplicate of what it was, once it is redirected

    def apply(self, workplace: Workplace) -> None:
        """Take a workplace: working directory, output files, environment."""
        _restore_environment(self._environment, workplace.env)
        for descriptor, path in ((1, workplace.stdout), (2, workplace.stderr)):
            if path is not None and descriptor not in self._outputs:
                _flush(descriptor)
                self._outputs[descriptor] = _keep(descriptor)
        _take_files(workplace)

    def restore(self, next_workplace: Workplace) -> None:
        """Restore everything that user code may have changed, except what the next workplace sets anyway."""
        self._signals.restore()
        for descriptor, path in ((1, next_workplace.stdout), (2, next_workplace.stderr)):
            if path is None and descriptor in self._outputs:
                _flush(descriptor)
                os.dup2(self._outputs[descriptor], descriptor)
        # User code may have replaced them by objects that keep its output, such as a capture of a test tool.
        sys.stdout = sys.__stdout__
        sys.stderr = sys.__stderr__
        sys.stdin = sys.__stdin__
        sys.path[:] = self._path
        sys.argv[:] = self._argv
        warnings.filters[:] = self._warnings  # type: ignore[index]  # a list, though typeshed promises less
        _restore_logging(self._logging)
        if self._directory is not None and next_workplace.directory is None:
            os.chdir(self._directory)


def take_workplace(workplace: Workplace) -> None:
    """`Surroundings.apply`, in a process that has only one workplace in its life."""
    for name, value in workplace.env.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    _take_files(workplace)


def _take_files(workplace: Workplace) -> None:
    if workplace.stdout is not None:
        _redirect(1, workplace.stdout)
    if workplace.stderr is not None:
        _redirect(2, workplace.stderr)
    if workplace.directory is not None:
        os.chdir(workplace.directory)


def _redirect(descriptor: int, path: str) -> None:
    _flush(descriptor)
    target = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.dup2(target, descriptor)  # children of this process inherit it, unlike the descriptor that `open` returns
    finally:
        if target != descriptor:
            os.close(target)
    _renew_stream(descriptor)


def _keep(descriptor: int) -> int:
    """Duplicate a standard stream, to restore it later; without one, return one that goes nowhere."""
    try:
        return move_high(descriptor)
    except OSError:
        nowhere = os.open(os.devnull, os.O_RDWR)
        kept = move_high(nowhere)
        os.close(nowhere)
        return kept


def _flush(descriptor: int) -> None:
    stream = getattr(sys, f"__{_STREAMS[descriptor]}__")
    try:
        if stream is not None:
            stream.flush()
    except Exception:  # closed, or replaced by an object that cannot be flushed
        pass


def _renew_stream(descriptor: int) -> None:
    name = _STREAMS[descriptor]
    stream = getattr(sys, f"__{name}__")
    try:
        stream.reconfigure(line_buffering=True)
    except (AttributeError, ValueError):  # there is none, or it was closed
        stream = open(descriptor, "w", 1, "utf-8", "backslashreplace", closefd=False)  # noqa: SIM115 - stays open
        setattr(sys, f"__{name}__", stream)
    setattr(sys, name, stream)


def _read_logging() -> tuple[list[Any], int, int]:
    import logging

    return list(logging.root.handlers), logging.root.level, logging.root.manager.disable


def _restore_logging(saved: tuple[list[Any], int, int]) -> None:
    import logging

    handlers, level, disable = saved
    logging.root.handlers[:] = handlers
    if (logging.root.level, logging.root.manager.disable) != (level, disable):  # setting them visits all loggers
        logging.root.setLevel(level)
        logging.disable(disable)


def _restore_environment(first: Mapping[str, str], variables: Mapping[str, str | None]) -> None:
    """Set the environment to `first` with the variables of a workplace."""
    wanted = {name: value for name, value in {**first, **variables}.items() if value is not None}
    present = os.environ.copy()
    if present == wanted:
        return
    for name in present.keys() - wanted.keys():
        del os.environ[name]
    for name, value in wanted.items():
        if present.get(name) != value:
            os.environ[name] = value
