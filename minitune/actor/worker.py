"""A worker's process: one thread communicates with the driver, one runs user code.

The control thread always reads the channel, so a stop arrives while user code runs. The main thread belongs to the
user. The object's methods are called on the control thread, or on the user's thread when it is free, if loading the
arguments may run user code. They must not block, and return a value or a Future.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError, Executor, Future
from dataclasses import dataclass
from functools import partial
from itertools import starmap
from queue import SimpleQueue
from types import FrameType
from typing import Any, NoReturn, TypeVar

from minitune.actor import process_tree
from minitune.actor.channel import ChannelClosedError, End, WorkerChannel
from minitune.actor.messages import (
    CHANNEL_LOST_EXIT,
    NO_THREAD_EXIT,
    OOM_SCORE,
    STOP_SWALLOWED_EXIT,
    SWEEP_TICK_S,
    Boot,
    Call,
    Finished,
    Hello,
    Message,
    Move,
    ProtocolError,
    Quit,
    Raised,
    Returned,
    Show,
)
from minitune.actor.reports import ReportPipe, pickled
from minitune.actor.surroundings import Surroundings, arm_stack_dump, dump_stacks
from minitune.base.pickling import UserCodeNeededError, load_plain, load_value
from minitune.error import RemoteError, TrialStopped

_T = TypeVar("_T")
_MOST_ATTEMPTS = 1000
"""Attempts for a short piece of our own work: if it raises so often, the work fails, and not a signal handler."""


# -- the user's thread -------------------------------------------------------------------------------------------------
class _Task(Future[Any]):
    """A call of user code, and the Future of its outcome.

    A signal handler of the user may raise while the main thread holds the Future's lock, and leave it locked for all
    other threads. So in a worker only the main thread uses the Future; the control thread queues a step behind it
    instead.

    Attributes:
        function: The function to call.
        is_begun: Whether it was called.
        returned: Its value once it has returned. A list, because only C code can store the value of a call without a
            Python instruction in between, where a signal handler might raise.
    """

    def __init__(self, function: Callable[[], Any]):
        super().__init__()
        self.function = function
        self.is_begun = False
        self.returned: list[Any] = []


class _Step:
    """A call of our own code. It is repeated until it returns, because an exception comes from a signal handler.

    Attributes:
        function: The function to call.
        is_done: Whether it has returned, or is not to be called any more.
        attempts: How often it was called.
    """

    __slots__ = ("attempts", "function", "is_done")

    def __init__(self, function: Callable[[], Any]):
        self.function = function
        self.is_done = False
        self.attempts = 0


class MainThreadExecutor(Executor):
    """Runs the tasks that are submitted, in order, on the thread that calls `run`: the main thread of a worker.

    So `signal`, `asyncio` and libraries that need the main thread work in user code. If a signal handler raises while
    no user code runs, the exception is dropped.

    Attributes:
        new_reports: Makes the report pipe of a function, if the worker has one.
        let_go: Called on the main thread after a stray exception, to release the locks that it may still hold.
    """

    def __init__(self) -> None:
        self.new_reports: Callable[[], ReportPipe] | None = None
        self.let_go: Callable[[], object] = lambda: None
        self._tasks: deque[_Task | _Step] = deque()
        self._tokens: SimpleQueue[None] = SimpleQueue()
        self._is_shut = False
        self._is_interruptible = False

    def submit(self, function: Callable[..., _T], /, *args: Any, **kwargs: Any) -> Future[_T]:
        """Queue a call of user code. Never blocks.

        Args:
            function: The function to call on the user's thread.
            args: Its arguments.
            kwargs: Its keyword arguments.

        Returns:
            The Future of its value.

        Raises:
            RuntimeError: After `shutdown`.
        """
        if self._is_shut:
            raise RuntimeError("the user's thread accepts no more calls: the worker is ending")
        task = _Task(partial(function, *args, **kwargs) if args or kwargs else function)
        self._put(task)
        return task

    def post(self, function: Callable[..., object], /, *args: Any) -> _Step:
        """Queue a call of our own code."""
        step = _Step(partial(function, *args) if args else function)
        self._put(step)
        return step

    def _put(self, task: _Task | _Step) -> None:
        self._tasks.append(task)
        self._tokens.put(None)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Make `run` return once the queued calls are done.

        Args:
            wait: Has no effect: the thread that runs cannot wait for itself, so this never blocks.
            cancel_futures: Whether to cancel the calls that have not begun.
        """
        self._is_shut = True
        if cancel_futures:
            for task in list(self._tasks):
                if isinstance(task, _Step):
                    task.is_done = True
                else:
                    task.cancel()
        self._tokens.put(None)

    @property
    def is_idle(self) -> bool:
        """Whether no task runs and no task is queued."""
        return not self._tasks

    def interrupt(self) -> None:
        """Raise `TrialStopped` if user code runs. For signal handlers, which run on the main thread."""
        if self._is_interruptible:
            self._is_interruptible = False
            raise TrialStopped("the actor was told to stop and its grace period is over")

    def run(self, depth: int = 8) -> None:
        """Run tasks until `shutdown`. Blocks. An exception of a signal handler between two tasks of user code is
        dropped.

        Args:
            depth: How many loops are nested. A second exception may come while the first one is handled, where no `try`
                catches it; the outer loop drops that one. On a busy machine an interval timer fires at each step.
        """
        while True:
            try:
                if depth:
                    self.run(depth - 1)
                else:
                    self.let_go()
                    self._serve()
                return
            except BaseException:
                self._is_interruptible = False

    def _serve(self) -> None:
        """Run the loop. A task leaves the queue only when it is done, so a stray exception loses none."""
        while True:
            while self._tasks:
                self._run_one(self._tasks[0])
                self._tasks.popleft()
            if self._is_shut:
                return
            self._tokens.get()

    def _run_one(self, task: _Task | _Step) -> None:
        """Run a task, or finish it after a stray exception."""
        if isinstance(task, _Step):
            if not task.is_done:
                task.attempts += 1
                if task.attempts > _MOST_ATTEMPTS:
                    os._exit(1)
                task.function()
                task.is_done = True
            return
        if task.done():
            return
        error: BaseException = RuntimeError("the call was interrupted by a signal handler that raised")
        if not task.is_begun:
            task.is_begun = True
            if not task.set_running_or_notify_cancel():
                return
            try:
                self._is_interruptible = True
                task.returned.extend(starmap(task.function, ((),)))
                self._is_interruptible = False
                error = StopIteration()  # otherwise the list would not be empty
            except BaseException as raised:
                self._is_interruptible = False
                error = raised
        if task.returned:
            task.set_result(task.returned[0])
        else:
            task.set_exception(error)


# -- the worker --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Seat:
    """The descriptors and marks of a new worker.

    Attributes:
        end: Its end of the control channel.
        reports: Its end of the report pipe.
        marker: The text in the environment of all its descendants.
        reaper_pid: The process that becomes the parent of this worker's orphans; 0 if it is unknown.
    """

    end: End
    reports: End
    marker: str
    reaper_pid: int = 0


def main(seat: Seat) -> NoReturn:
    """Serve the driver until it tells the worker to exit, on the main thread of a new process. Never returns."""
    try:
        Worker(seat).run()
    except KeyboardInterrupt:  # it came before any user code that it could have interrupted
        _die_of(signal.SIGINT)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _die_of(number: int) -> None:
    """Let a signal have its default effect."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


class Worker:
    """One actor's process.

    Args:
        seat: See `Seat`.
    """

    def __init__(self, seat: Seat):
        self._seat = seat
        self._pid = os.getpid()
        self._channel = WorkerChannel(seat.end)
        self._executor = MainThreadExecutor()
        self._executor.let_go = self._channel.let_go
        self._executor.new_reports = partial(ReportPipe, seat.reports, seat.reports.identity(), self)
        self._object: Any = None
        self._surroundings: Surroundings | None = None
        self._is_asked_to_stop = False
        self._last_call = 0
        self._is_reusable = False
        self._is_moving = False  # stays True if the move fails
        self._mask: Iterable[int] = ()
        self._control_thread = 0

    # -- the main thread ---------------------------------------------------------------------------------------

    def run(self) -> None:
        """Serve the driver. Returns when the worker has to exit."""
        self._arm_termination()
        _raise_oom_score()
        try:
            self._channel.send(Hello(self._pid))
            arrived: list[Message] = []
            while not arrived:
                self._channel.receive(arrived.append)
        except (ChannelClosedError, ProtocolError):
            return
        first, *others = arrived
        if not isinstance(first, Boot):
            raise ProtocolError(f"the first message must be Boot, but got {type(first).__name__}")
        self._executor.post(self._answer, 0, self._executor.submit(self._make, first))
        try:
            _thread.start_new_thread(self._control, (others,))  # half a millisecond faster than with `threading`
        except RuntimeError:  # the system cannot start a thread
            os._exit(NO_THREAD_EXIT)
        self._executor.run()
        self._leave()

    def _make(self, boot: Boot) -> None:
        """Take the place and make the object."""
        self._channel.send_limit_bytes = boot.limit_bytes or self._channel.send_limit_bytes
        self._is_reusable = boot.is_reusable
        if boot.sys_path:
            sys.path[:] = boot.sys_path
        if boot.argv:
            sys.argv[:] = boot.argv
        arm_stack_dump()
        self._surroundings = Surroundings()
        self._surroundings.apply(boot.place)
        factory = load_value(boot.factory)
        self._object = factory(self._executor)

    def _arm_termination(self) -> None:
        """Make SIGTERM end user code by an exception, if the driver has asked for the end; otherwise SIGTERM has its
        default effect.

        A child process that user code forks is no actor and gets the default handler. The signal is blocked during the
        fork. Otherwise a signal that is sent to the child at once would be lost in our handler.
        """
        signal.signal(signal.SIGTERM, self._on_terminate)
        if sys.platform != "win32" and hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._block_termination,
                after_in_parent=self._unblock_termination,
                after_in_child=self._disarm_termination,
            )

    def _block_termination(self) -> None:
        if sys.platform != "win32":
            self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])

    def _unblock_termination(self) -> None:
        if sys.platform != "win32":
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def _disarm_termination(self) -> None:
        if signal.getsignal(signal.SIGTERM) == self._on_terminate:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._unblock_termination()

    def _on_terminate(self, number: int, frame: FrameType | None) -> None:
        if self._is_asked_to_stop and os.getpid() == self._pid:
            self._executor.interrupt()
        else:
            _die_of(number)

    def _leave(self, exit_code: int = 0) -> NoReturn:
        """Flush the streams and exit. The interpreter's own shutdown would wait for foreign threads and children."""
        try:
            for stream in (sys.stdout, sys.stderr):
                try:
                    stream.flush()
                except Exception:  # user code has closed or replaced the stream
                    continue
        finally:
            os._exit(exit_code)

    # -- the control thread ------------------------------------------------------------------------------------

    def _control(self, messages: list[Message]) -> None:
        """Handle messages until the channel ends: the driver has ended, or user code has closed the channel."""
        self._control_thread = threading.get_ident()
        # a signal that this thread receives does not wake the main thread, which has to handle it
        if sys.platform != "win32":
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])
        try:
            for message in messages:
                self._on_message(message)
            while True:
                self._channel.receive(self._on_message)
        except ChannelClosedError as error:
            self.on_channel_lost(error)
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    def _on_message(self, message: Message) -> None:
        if isinstance(message, Call):
            self._on_call(message)
        elif isinstance(message, Quit):
            self._on_quit(message)
        elif isinstance(message, Show):
            dump_stacks()
        elif isinstance(message, Move):
            self._is_moving = True
            self._executor.post(self._move, message)
        else:
            raise ProtocolError(f"a worker does not expect {type(message).__name__}")

    def _on_call(self, call: Call) -> None:
        """Load plain arguments here: a call must arrive while user code blocks the main thread."""
        self._last_call = call.number
        if self._is_moving:
            self._executor.post(self._after_move, call)
            return
        try:
            args = load_plain(call.payload) if call.payload else ()
        except UserCodeNeededError:
            self._executor.post(self._load_and_invoke, call)
            return
        except BaseException as error:
            self._send(Raised(call.number, RemoteError.of(error)))
            return
        self._invoke(call, args)

    def _load_and_invoke(self, call: Call) -> None:
        """Load the arguments and call the method on the user's thread."""
        try:
            args = load_value(call.payload) if call.payload else ()
        except BaseException as error:
            self._send(Raised(call.number, RemoteError.of(error)))
            return
        self._invoke(call, args)

    def _invoke(self, call: Call, args: tuple[Any, ...]) -> None:
        try:
            value = getattr(self._object, call.method)(*args)
        except BaseException as error:
            self._send(Raised(call.number, RemoteError.of(error)))
            return
        if isinstance(value, _Task):
            self._executor.post(self._answer, call.number, value)
        elif isinstance(value, Future):
            value.add_done_callback(partial(self._answer, call.number))
        elif not isinstance(value, ReportPipe):  # a report pipe sends the answer itself
            self._answer_value(call.number, value)

    def _on_quit(self, message: Quit) -> None:
        self._is_asked_to_stop = True
        try:
            stop = getattr(self._object, "stop", None)
            if message.keep:
                stop = getattr(self._object, "park", stop)
            value = None if stop is None else stop()
        except BaseException:
            traceback.print_exc()
            message = Quit(message.number)
            value = None
        if isinstance(value, _Step):
            self._executor.post(self._after_stop, message, None)
        elif isinstance(value, _Task):
            self._executor.post(self._after_stop, message, value)
        elif isinstance(value, Future):
            value.add_done_callback(partial(self._after_stop, message))
        else:
            self._after_stop(message, None)

    def _after_stop(self, message: Quit, stopping: Future[Any] | None) -> None:
        """Exit, or stay, once the object's `stop` is done."""
        error = None
        if stopping is not None:
            error = CancelledError() if stopping.cancelled() else stopping.exception()
        if error is not None:
            traceback.print_exception(type(error), error, error.__traceback__)
        if message.keep and error is None:
            if threading.get_ident() == self._control_thread and self._executor.is_idle:
                self._park(message)
            else:
                self._executor.post(self._park, message)
        else:
            self._executor.shutdown()

    def _park(self, message: Quit) -> None:
        """Stay for another actor if nothing of this one is left; otherwise exit."""
        if self._has_leftovers():
            self._executor.shutdown()
            return
        self._is_asked_to_stop = False
        kind = Finished if getattr(self._object, "resets_at_once", False) else Returned
        self._send(kind(message.number))

    def _has_leftovers(self) -> bool:
        """Whether a thread or a process that user code has started still lives."""
        own = (threading.main_thread().ident, self._control_thread)
        if any(thread.ident not in own for thread in threading.enumerate()):
            return True
        if not process_tree.is_childless() and any(map(process_tree.life, process_tree.children(self._pid))):
            return True
        if not self._seat.reaper_pid:
            if process_tree.marked([self._seat.marker]):
                return True
            time.sleep(SWEEP_TICK_S)  # see `tree.marked`
            return bool(process_tree.marked([self._seat.marker]))
        marker = self._seat.marker.encode()
        for pid in process_tree.children(self._seat.reaper_pid, has_one_thread=True):
            if pid != self._pid:
                shown = process_tree.environment(pid)  # empty while it starts another program; it may be ours then
                if (not shown or marker in shown) and process_tree.life(pid):
                    return True
        return False

    def _move(self, message: Move) -> None:
        """Clean up after one actor and take the place of the next; an error means that this process is not clean."""
        try:
            if self._surroundings is None:
                raise RuntimeError("this worker never took its first place")
            self._surroundings.restore(message.place)
            self._surroundings.apply(message.place)
        except BaseException as error:
            self._send(Raised(message.number, RemoteError.of(error)))
            return
        self._load_and_invoke(Call(message.number, "reset", message.payload))
        self._is_moving = False  # not earlier: the control thread may have a call for the object that `reset` makes

    def _after_move(self, call: Call) -> None:
        """Make the call that was sent with a move; if the move has failed, there is no object to call."""
        if not self._is_moving:
            self._load_and_invoke(call)

    # -- answers -----------------------------------------------------------------------------------------------

    def _answer(self, number: int, future: Future[Any]) -> None:
        error = CancelledError() if future.cancelled() else future.exception()
        if error is not None:
            self._send(Raised(number, RemoteError.of(error)))
        else:
            self._answer_value(number, future.result())

    def _answer_value(self, number: int, value: Any) -> None:
        try:
            payload = b"" if value is None else pickled(value)
        except MemoryError:
            self._send_no_memory(number)
            return
        except BaseException as error:
            kind, reason = type(value).__qualname__, f"{type(error).__name__}: {error}"
            broken = TypeError(f"a value of type {kind} cannot be sent to the driver ({reason})")
            broken.__cause__ = error
            self._send(Raised(number, RemoteError.of(broken)))
            return
        try:
            self._send(Returned(number, payload))
        except MemoryError:
            self._send_no_memory(number)
        except ValueError as error:  # the message is too long
            self._send(Raised(number, RemoteError.of(error)))

    def _send_no_memory(self, number: int) -> None:
        """Report that memory is full. Nothing was sent before, because a message is complete before it is sent."""
        self._send(Raised(number, RemoteError.of(MemoryError("not enough memory to send this to the driver"))))

    def _send(self, message: Message) -> None:
        self.leave_if_forked()
        try:
            self._channel.send(message)
        except ChannelClosedError as error:
            self.on_channel_lost(error)

    # -- for the report pipe -----------------------------------------------------------------------------------

    def run_function(self, run: Callable[[], object], end: Callable[[BaseException | None], object]) -> _Step:
        """See `reports.Host`."""
        running = self._executor.submit(run)
        return self._executor.post(lambda: end(running.exception()))

    def call_number(self) -> int:
        """See `reports.Host`."""
        return self._last_call

    def check(self) -> int:
        """See `reports.Host`."""
        try:
            self._channel.check()
        except ChannelClosedError as error:
            self.on_channel_lost(error)
        return self._channel.send_limit_bytes

    def may_be_kept(self) -> bool:
        """See `reports.Host`."""
        return self._is_reusable and not self._has_leftovers()

    def leave_if_forked(self) -> None:
        """See `reports.Host`: user code has forked, and the child process has returned into our code."""
        if os.getpid() != self._pid:
            self._leave()

    def leave_unheard(self) -> NoReturn:
        """See `reports.Host`."""
        self._leave(STOP_SWALLOWED_EXIT)

    def on_channel_lost(self, error: ChannelClosedError) -> NoReturn:
        """End at once. The driver has ended, so none of our processes may stay; or user code has closed our channel."""
        if error.is_ours:
            try:
                os.write(2, f"the control channel was closed by the code that runs here: {error}\n".encode())
            except OSError:  # user code has closed that stream, too
                pass
            os._exit(CHANNEL_LOST_EXIT)
        process_tree.Hunt().strike(process_tree.children(self._pid))
        process_tree.kill_group(self._pid)
        os._exit(1)


def _raise_oom_score() -> None:
    """Make the kernel kill this process and not the driver if memory runs out (Linux).

    Call it while the process has one thread: with more, the kernel visits all processes of the machine.
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
