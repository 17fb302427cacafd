"""A worker: the process of one actor. Two threads have one pipe and one job each.

The *main thread* owns the work pipe (`Worker.run`): it reads a message, does what it says, and answers. All user code
runs on it. The *control thread* owns the control pipe (`Worker._listen`). It only notes a stop, of which user code
learns at its next report, or when the main thread reads Quit.

A method that reports calls `Worker.exchange`, which answers the running call, and then reads on like `run`. Any thread
may report: one lock admits one exchange at a time, and the final answer takes it, too. A forked child may not.

A signal handler of the user may raise between any two of our instructions, and then it is unknown whether a frame
was sent: `exchange` notes its begin and its end, and the attempt fails. Elsewhere, the process ends.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the C module of `signal`, without its slow enums
import _thread
import atexit
import errno
import os
import sys
import threading
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

from minitune.actor import process_tree
from minitune.actor.channel import ChannelClosedError, WorkerEnd
from minitune.actor.messages import (
    INTERRUPTED_EXIT,
    NO_THREAD_EXIT,
    OOM_SCORE,
    STOP_SWALLOWED_EXIT,
    Boot,
    Call,
    Finished,
    GoOn,
    Hello,
    Message,
    Move,
    ProtocolError,
    Quit,
    Raised,
    Reported,
    Returned,
    Show,
    Stop,
    encode,
)
from minitune.actor.surroundings import (
    Surroundings,
    arm_stack_dump,
    dump_stacks,
    line_buffer_c_output,
    move_high,
    reset_signals,
    stop_timers,
    take_workplace,
)
from minitune.base import processes
from minitune.base.forks import Origin
from minitune.base.pickling import dump_answer, dump_value, load_value
from minitune.base.script import take_script
from minitune.error import RemoteError, TrialStopped


# -- the start ---------------------------------------------------------------------------------------------------------
def main(work: int, control: int) -> NoReturn:
    """Run a worker in a new interpreter. Never returns."""
    process_tree.wake_at_end_of_parent()
    reset_signals()
    line_buffer_c_output()
    arm_stack_dump()
    serve(Worker(_open(work), _open(control), os.environ[process_tree.TRIAL_VARIABLE]))


def _open(passed: int) -> WorkerEnd:
    descriptor = move_high(passed)
    os.close(passed)
    return WorkerEnd(descriptor)


def serve(worker: Worker) -> NoReturn:
    """Serve the driver on the main thread of a new process. Never returns."""
    try:
        worker.run()
    except BaseException as error:
        _give_up(error)
    finally:  # a handler has raised once more
        os._exit(INTERRUPTED_EXIT)


def _leave(exit_code: int = 0) -> NoReturn:
    """Flush the streams and exit: the interpreter's own shutdown would wait for foreign threads and children."""
    try:
        _flush_streams()
    finally:
        os._exit(exit_code)


def _run_exit_handlers() -> None:
    """Call what user code has registered with `atexit`, except that which waits for children of `multiprocessing`."""
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        atexit.unregister(util._exit_function)
    atexit._run_exitfuncs()


def _flush_streams() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # user code has closed or replaced the stream
            continue


def _give_up(error: BaseException) -> NoReturn:
    """End the process because of an exception in our own code, or in the midst of an exchange. It is unknown what was
    done, so nothing can be repeated, and the driver would wait for ever.
    """
    try:
        if type(error) is TrialStopped:  # the grace period of a stop is over
            _leave()
        if type(error) is KeyboardInterrupt:  # of the default handler of SIGINT: the signal has its default effect
            _die_of(_signal.SIGINT)
        stop_timers()  # the same handler would raise again
        traceback.print_exception(type(error), error, error.__traceback__)
        sys.stderr.flush()
    except BaseException:  # it needs more of Python than the next line does
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(INTERRUPTED_EXIT)


def _die_of(number: int) -> None:
    """Let a signal have its default effect."""
    _signal.signal(number, _signal.SIG_DFL)
    os.kill(os.getpid(), number)


# -- the worker --------------------------------------------------------------------------------------------------------
class Worker:
    """A worker's process, except for user code.

    Attributes:
        at_stop: Is called on the control thread when the present actor must end.
    """

    def __init__(self, work: WorkerEnd, control: WorkerEnd, marker: str):
        self._work = work
        self._control = control
        self._process = _Process(marker)
        self._object: Any = None
        self._attempt = 0  # the number of the Boot or Move that has begun the present actor
        self.at_stop: Callable[[], object] = _do_nothing
        self._stopped_attempt = -1  # of the last Stop; only the control thread writes it
        # The rest belongs to the thread that holds the lock. A handler that raises never leaves a lock of C code locked
        # in a `with` statement. The lock is reentrant: a call that is made within an exchange answers under it, too.
        self._lock = threading.RLock()
        self._number = 0  # of the running call
        self._depth = 0  # of calls on the stack without a final answer
        self._is_reporting = False  # stays True after a report that an exception has ended
        self._quit: Quit | None = None  # it has come as the answer to a report

    # -- the main thread ---------------------------------------------------------------------------------------

    def run(self) -> NoReturn:
        """Do what the driver says. Never returns."""
        self._arm_termination()
        _raise_oom_score()
        self._send(encode(Hello(0, self._process.pid)))
        boot = self._next()
        if not isinstance(boot, Boot):
            raise ProtocolError(f"the first message must be Boot, but got {type(boot).__name__}")
        try:
            _thread.start_new_thread(self._listen, ())  # half a millisecond faster than with `threading`
        except RuntimeError:  # the system cannot start a thread
            os._exit(NO_THREAD_EXIT)
        self._answer(0, self._make, boot)
        while True:
            message = self._quit or self._next()
            if isinstance(message, Call):
                self._call(message)
            elif isinstance(message, Quit):
                self._park_or_leave(message)
            elif isinstance(message, Move):
                self._move(message)
            else:
                raise ProtocolError(f"a worker does not expect {type(message).__name__} here")

    def _make(self, boot: Boot) -> None:
        take_script(boot.script)
        if boot.is_reusable:
            self._process.surroundings = Surroundings()
            self._process.surroundings.apply(boot.workplace)
        else:  # there is nothing to restore
            take_workplace(boot.workplace)
        factory = load_value(boot.payload)
        args: tuple[Any, ...] = ()
        if boot.args:
            args = load_value(boot.args)
        self._object = factory(self, *args)

    def _call(self, call: Call) -> None:
        self._answer(call.number, self._invoke, call.method, call.payload)

    def _invoke(self, method: str, payload: bytes) -> Any:
        args = ()
        if payload:
            args = load_value(payload)
        return getattr(self._object, method)(*args)

    def _answer(self, number: int, run: Callable[..., Any], *args: Any) -> None:
        """Run user code, and send what it returns or raises as the answer to a call."""
        self._number = number
        self._depth += 1
        value = None
        error: BaseException | None = None
        try:
            value = run(*args)
        except BaseException as raised:
            error = raised
        if not self._process.origin.is_here():  # a child that user code has forked, and that has returned from it
            _leave()
        with self._lock:  # another thread of the user may report: its exchange ends first
            if self._depth == 1:  # otherwise this call was made within a report
                self._check_reporting(error)
            self._depth -= 1
            if self._quit is None:  # otherwise the driver does not wait for an answer
                self._send(self._final_frame(value, error))

    def _final_frame(self, value: Any, error: BaseException | None) -> list[bytes]:
        """The frame of a value or an error; of the reason, if it cannot be sent."""
        if error is None:
            try:
                payload = b""
                if value is not None:
                    payload = dump_answer(value)
                if self._may_be_kept_at_once():
                    return encode(Finished(self._number, payload))
                return encode(Returned(self._number, payload))
            except BaseException as raised:
                error = raised
        _flush_streams()  # what it has printed without a line end comes before its failure
        return encode(Raised.of(self._number, RemoteError.of(error)))

    def _move(self, move: Move) -> None:
        """Clean up after one actor and become the next; if that fails, this process is not clean, and ends."""
        self._attempt = move.number
        is_usable = False

        def become() -> bool:
            nonlocal is_usable
            surroundings = self._process.surroundings
            assert surroundings is not None
            surroundings.restore(move.workplace)
            surroundings.apply(move.workplace)
            is_usable = bool(self._invoke("reset", move.payload))
            return is_usable

        self._answer(move.number, become)
        if not is_usable:  # its first call may have come already, but there is no object to call
            _leave()

    def _park_or_leave(self, message: Quit) -> None:
        self._quit = message  # so that SIGTERM, after the grace period, ends user code by an exception
        if message.keep and not self._process.has_leftovers():
            self._quit = None
            kind = Finished if self._resets_at_once() else Returned
            self._send(encode(kind(message.number)))
            return
        try:
            stop = getattr(self._object, "stop", None)
            if stop is not None:
                stop()
            _run_exit_handlers()
        except TrialStopped:  # the grace period is over
            pass
        except BaseException:
            traceback.print_exc()
        _leave()

    def _may_be_kept_at_once(self) -> bool:
        """Whether the driver may hand this worker on without a Quit."""
        is_made_only = self._number == self._attempt  # or reset: no method was called yet
        if self._process.surroundings is None or self._depth or is_made_only or self.is_stopped:
            return False
        return self._resets_at_once() and not self._process.has_leftovers()

    def _resets_at_once(self) -> bool:
        """Whether `reset` of the object runs no user code."""
        return getattr(self._object, "resets_at_once", False)

    # -- for the actor's object ----------------------------------------------------------------------------------

    @property
    def is_stopped(self) -> bool:
        """Whether the driver has said that the present actor must end, on either pipe."""
        return self._stopped_attempt == self._attempt or self._quit is not None

    def exchange(self, make: Callable[[], tuple[Any, Callable[[], object]]]) -> bool:
        """Answer the running call with a report, and block until the driver lets it continue.

        Any thread may call this during a call, one at a time. `make` makes the report, a tuple, and a function that is
        called once it counts.

        Returns:
            Whether the call may continue. If not, no report counts any more.

        Raises:
            Exception: If the report cannot be made or pickled, or is too long.
        """
        if not self._process.origin.is_here():  # the pipes belong to its parent
            raise RuntimeError("a process that the trial has forked cannot report: only the trial's own process can")
        with self._lock:
            if self._is_reporting:
                raise RuntimeError(
                    "a signal handler called report() while report() was running, or it raised an exception there: set "
                    "a flag in the handler, and report or raise after the function has seen the flag"
                )
            if not self._depth or self.is_stopped:
                return False
            self._is_reporting = True
            try:
                report, commit = make()
                frame = encode(Reported(self._number, dump_value(tuple(report))))
            except BaseException:
                self._is_reporting = False
                raise
            self._send(frame)
            commit()
            self._wait_for_answer()
            self._is_reporting = False
            return self._quit is None

    def _wait_for_answer(self) -> None:
        while True:
            message = self._next()
            if isinstance(message, GoOn):
                self._number = message.number
                return
            if isinstance(message, Quit):
                self._quit = message
                return
            if not isinstance(message, Call):
                raise ProtocolError(f"a report cannot be answered by {type(message).__name__}")
            self._call(message)

    def _check_reporting(self, error: BaseException | None) -> None:
        """End the process if an exception has ended a report."""
        if self._is_reporting:
            _give_up(error or RuntimeError("a signal handler of the trial has raised an exception within report()"))

    def abandon(self) -> NoReturn:
        """End the process, because user code has caught the stop and continues."""
        _leave(STOP_SWALLOWED_EXIT)

    # -- the work pipe ------------------------------------------------------------------------------------------

    def _send(self, frame: list[bytes]) -> None:
        try:
            self._work.send(frame)
        except ChannelClosedError as error:
            self._end_tree(error)

    def _next(self) -> Message:
        try:
            self._work.wait()
            return self._work.receive()
        except ChannelClosedError as error:
            self._end_tree(error)

    def _end_tree(self, error: ChannelClosedError) -> NoReturn:
        if not self._process.origin.is_here():
            _leave()
        try:
            if getattr(error.__cause__, "errno", None) == errno.EBADF:  # otherwise the driver has ended
                os.write(2, f"the trial has closed a pipe to its driver: {error}\n".encode())
        finally:  # user code may have closed that stream, too
            process_tree.Hunt().strike_marked([self._process.marker], processes.children(self._process.pid))
            os._exit(1)

    # -- the control thread ------------------------------------------------------------------------------------

    def _listen(self) -> None:
        """Hear stops and requests for the stacks, until the driver has ended."""
        self._process.control_thread = _thread.get_ident()
        # The main thread has to handle these signals. The system must not send them to this thread: that would not wake
        # the main thread.
        _signal.pthread_sigmask(_signal.SIG_BLOCK, [_signal.SIGTERM, _signal.SIGINT])
        try:
            while True:
                message = self._control.receive()
                if isinstance(message, Stop):
                    self._stopped_attempt = message.number
                    if message.number == self._attempt:
                        self.at_stop()
                elif isinstance(message, Show):
                    dump_stacks()
                else:
                    raise ProtocolError(f"a control thread does not expect {type(message).__name__}")
        except ChannelClosedError as error:
            # The driver is dead. Where no parent-death signal ends this process, this does, also while user code runs.
            self._end_tree(error)
        except BaseException as error:
            _give_up(error)

    # -- termination -------------------------------------------------------------------------------------------

    def _arm_termination(self) -> None:
        """Make SIGTERM end user code by an exception if the driver has stopped it; otherwise it kills, as always.

        A child that user code forks gets the default handler back.
        """
        mask: set[int] = set()

        def block() -> None:
            mask.clear()
            mask.update(_signal.pthread_sigmask(_signal.SIG_BLOCK, (_signal.SIGTERM,)))

        def unblock() -> None:
            _signal.pthread_sigmask(_signal.SIG_SETMASK, mask)

        def disarm() -> None:
            if _signal.getsignal(_signal.SIGTERM) == self._on_terminate:
                _signal.signal(_signal.SIGTERM, _signal.SIG_DFL)
            unblock()

        _signal.signal(_signal.SIGTERM, self._on_terminate)
        os.register_at_fork(before=block, after_in_parent=unblock, after_in_child=disarm)

    def _on_terminate(self, number: int, frame: FrameType | None) -> None:
        if self.is_stopped and self._process.origin.is_here():
            raise TrialStopped("the actor was told to stop and its grace period is over")
        _die_of(number)


def _do_nothing() -> None:
    """For an object that need not be told about stops."""


def _raise_oom_score() -> None:
    """Make the kernel kill this process and not the driver if memory runs out (Linux).

    With more than one thread, the kernel visits all processes of the machine.
    """
    try:
        descriptor = os.open("/proc/self/oom_score_adj", os.O_RDWR)
    except OSError:
        return
    try:
        score = int(os.read(descriptor, 16))
        os.write(descriptor, str(min(1000, score + OOM_SCORE)).encode())
    except (OSError, ValueError):
        pass
    finally:
        os.close(descriptor)


# -- the process -------------------------------------------------------------------------------------------------------
class _Process:
    """What all actors of a worker have in common, and must not pass on.

    Attributes:
        origin: Tells it from a child that user code has forked.
        surroundings: Its state before any user code ran, or None if it has only one actor.
    """

    def __init__(self, marker: str):
        self.pid = os.getpid()
        self.origin = Origin()
        self.control_thread = 0
        self.surroundings: Surroundings | None = None
        self.marker = marker

    def has_leftovers(self) -> bool:
        """Whether a thread or a child that user code has started still lives. Orphans end with this process."""
        own = (threading.main_thread().ident, self.control_thread)
        if any(thread.ident not in own for thread in threading.enumerate()):
            return True
        return processes.has_living_child()
