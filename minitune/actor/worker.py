"""A worker: the process of one actor. One thread communicates with the driver, the main thread runs user code.

The *control thread* always reads the control channel, so a stop arrives while user code runs. The *main thread* belongs
to user code; `main_thread` has the rules for our own code on it. The actor's methods are called on the control thread,
or on the main thread if loading their arguments may run user code. They must not block: they return a value, a Future,
or the report pipe.

The report pipe
---------------
A function that reports holds the main thread. Each `report()` is one exchange on a second channel, the report pipe: the
reporting thread writes the report, reads the answer and continues. The control thread takes no part, so neither thread
has to wake the other. The driver answers each report; with Quit if the function has to stop. Each step of an exchange
can be repeated, because a signal handler may raise between any two instructions:

- A report counts once its whole frame is sent. `Outgoing` knows how much of a frame is sent. The next user of the pipe,
  another report or the end of the function, sends the rest. If nothing of a frame was sent, it is dropped, as if
  `report()` had not been called.
- If the answer to a report was not read, the report stays open, and the next user of the pipe reads that answer first.
  So reports and answers alternate, none comes twice, and no answer is taken for the answer to another report.
- The bytes that were read are kept until the exchange is over.
- The end of the function is a `Step` behind the function, which is repeated until it is done.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the C module of `signal`, without its slow enums
import _thread
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError, Future
from functools import partial
from types import FrameType
from typing import Any, NamedTuple, NoReturn, TypeVar

from minitune.actor import process_tree
from minitune.actor.channel import (
    CHUNK_BYTES,
    ChannelClosedError,
    End,
    Outgoing,
    WorkerChannel,
)
from minitune.actor.main_thread import MainThreadExecutor, Step, Task
from minitune.actor.messages import (
    CHANNEL_LOST_EXIT,
    NO_THREAD_EXIT,
    OOM_SCORE,
    STOP_SWALLOWED_EXIT,
    SWEEP_TICK_S,
    Boot,
    Call,
    Finished,
    FrameReader,
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
    go_on,
)
from minitune.actor.surroundings import (
    Surroundings,
    arm_stack_dump,
    dump_stacks,
    fork_by_default,
    line_buffer_c_output,
    move_high,
    stop_timers,
)
from minitune.base.pickling import UserCodeNeededError, dump_value, load_plain, load_value
from minitune.error import RemoteError

_T = TypeVar("_T")
_ATTEMPTS = 3
"""Attempts to pickle an answer. Signal handlers may have raised the first errors; the last one counts."""


# -- the start ---------------------------------------------------------------------------------------------------------
class Seat(NamedTuple):
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


def main(control: int, reports: int) -> NoReturn:
    """Run a worker in a new interpreter. Never returns.

    Args:
        control: The inherited descriptor of the control channel.
        reports: The inherited descriptor of the report pipe.
    """
    line_buffer_c_output()
    fork_by_default()
    seat = Seat(_open(control), _open(reports), os.environ[process_tree.TRIAL_VARIABLE])
    serve(seat)


def _open(inherited: int) -> End:
    descriptor = move_high(inherited)
    os.close(inherited)
    return End(socket.socket(fileno=descriptor))


def serve(seat: Seat) -> NoReturn:
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


# -- the worker --------------------------------------------------------------------------------------------------------
class Worker:
    """A worker's process, except for user code.

    Args:
        seat: See `Seat`.

    Attributes:
        executor: Runs user code on the main thread.
        last_call: The number of the last call on the control channel.
    """

    def __init__(self, seat: Seat):
        self.executor = MainThreadExecutor()
        self.last_call = 0
        self._seat = seat
        self._pid = os.getpid()
        self._channel = WorkerChannel(seat.end)
        self.executor.let_go = self._channel.let_go
        self.executor.new_reports = partial(ReportPipe, self, seat.reports)
        self._object: Any = None
        self._surroundings: Surroundings | None = None
        self._is_asked_to_stop = False  # by Quit; from then on, SIGTERM ends user code by an exception
        self._is_reusable = False
        self._is_moving = False  # from a Move to the reset of the object; stays True if the move fails
        self._mask: Iterable[int] = ()  # the blocked signals before a fork
        self._control_thread = 0
        self._strangers: dict[int, int] = {}  # inodes of processes of other workers, by pid; reading a marker is slow

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
        self.executor.post(self._answer, 0, self.executor.submit(self._make, first))
        try:
            _thread.start_new_thread(self._control, (others,))  # half a millisecond faster than with `threading`
        except RuntimeError:  # the system cannot start a thread
            os._exit(NO_THREAD_EXIT)
        self.executor.run()
        self.leave()

    def _make(self, boot: Boot) -> None:
        """Take the place and make the actor's object. A task, because the factory runs user code."""
        self._is_reusable = boot.is_reusable
        sys.path[:], sys.argv[:] = boot.sys_path, boot.argv
        arm_stack_dump()
        self._surroundings = Surroundings()
        self._surroundings.apply(boot.place)
        factory = load_value(boot.factory)
        self._object = factory(self.executor)

    def _arm_termination(self) -> None:
        """Make SIGTERM end user code by an exception if the driver has asked for a stop; otherwise it kills, as always.

        A child process that user code forks is no actor and gets the default handler. The signal is blocked during the
        fork, so that a signal to the child that comes at once does not run our handler.
        """
        _signal.signal(_signal.SIGTERM, self._on_terminate)
        os.register_at_fork(
            before=self._block_termination,
            after_in_parent=self._unblock_termination,
            after_in_child=self._disarm_termination,
        )

    def _block_termination(self) -> None:
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])

    def _unblock_termination(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def _disarm_termination(self) -> None:
        if signal.getsignal(signal.SIGTERM) == self._on_terminate:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._unblock_termination()

    def _on_terminate(self, number: int, frame: FrameType | None) -> None:
        if self._is_asked_to_stop and os.getpid() == self._pid:
            self.executor.interrupt()
        else:
            _die_of(number)

    def leave(self, exit_code: int = 0) -> NoReturn:
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
        # The main thread has to handle these signals. The system must not send them to this thread: that would not wake
        # the main thread.
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
            self.executor.post(self._move, message)
        else:
            raise ProtocolError(f"a worker does not expect {type(message).__name__}")

    def _on_call(self, call: Call) -> None:
        self.last_call = call.number
        if self._is_moving:
            self.executor.post(self._after_move, call)
        else:
            self._invoke(call, load_plain)

    def _invoke(self, call: Call, load: Callable[[bytes], Any]) -> None:
        """Load the arguments and call the method.

        Plain arguments are loaded on the control thread, because a call must arrive while user code blocks the main
        thread. If loading them may run user code, the main thread does both.
        """
        try:
            args = load(call.payload) if call.payload else ()
            value = getattr(self._object, call.method)(*args)
        except UserCodeNeededError:
            self.executor.post(self._invoke, call, load_value)
            return
        except BaseException as error:
            self._send(Raised(call.number, RemoteError.of(error)))
            return
        if isinstance(value, Task):
            self.executor.post(self._answer, call.number, value)
        elif isinstance(value, Future):
            value.add_done_callback(partial(self._answer, call.number))
        elif not isinstance(value, ReportPipe):  # the report pipe sends the answer itself
            self._answer_value(call.number, value)

    def _on_quit(self, message: Quit) -> None:
        """Stop or park the actor's object, however that ends, and then exit or stay."""
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
        if isinstance(value, Step):
            self.executor.post(self._after_stop, message, None)
        elif isinstance(value, Task):
            self.executor.post(self._after_stop, message, value)
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
            if threading.get_ident() == self._control_thread and self.executor.is_idle:
                self._park(message)
            else:
                self.executor.post(self._park, message)
        else:
            self.executor.shutdown()

    def _park(self, message: Quit) -> None:
        """Stay for another actor if nothing of this one is left; otherwise exit."""
        if self._has_leftovers():
            self.executor.shutdown()
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
            stop_timers()  # the search takes so long that a handler which raises could interrupt each attempt
            if process_tree.marked([self._seat.marker]):
                return True
            time.sleep(SWEEP_TICK_S)  # see `process_tree.marked`
            return bool(process_tree.marked([self._seat.marker]))
        # Orphans have become children of the zygote, beside the other workers.
        marker, strangers = self._seat.marker.encode(), self._strangers
        self._strangers = {}
        for pid in process_tree.children(self._seat.reaper_pid, has_one_thread=True):
            if pid != self._pid:
                inode = process_tree.inode(pid)
                if strangers.get(pid) != inode:
                    shown = process_tree.environment(pid)  # empty while it starts another program; it may be ours then
                    if (not shown or marker in shown) and process_tree.life(pid):
                        return True
                self._strangers[pid] = inode
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
        self._invoke(Call(message.number, "reset", message.payload), load_value)
        self._is_moving = False  # not earlier: the control thread may have a call for the object that `reset` makes

    def _after_move(self, call: Call) -> None:
        """Make the call that was sent with a move; if the move has failed, there is no object to call."""
        if not self._is_moving:
            self._invoke(call, load_value)

    # -- answers -----------------------------------------------------------------------------------------------

    def _answer(self, number: int, future: Future[Any]) -> None:
        """Answer a call with the outcome of a Future that is done."""
        error = CancelledError() if future.cancelled() else future.exception()
        if error is not None:
            self._send(Raised(number, RemoteError.of(error)))
        else:
            self._answer_value(number, future.result())

    def _answer_value(self, number: int, value: Any) -> None:
        payload = b"" if value is None else _outcome_of(lambda: dump_value(value))
        if isinstance(payload, MemoryError):
            self._send_no_memory(number)
            return
        if isinstance(payload, BaseException):
            kind, reason = type(value).__qualname__, f"{type(payload).__name__}: {payload}"
            broken = TypeError(f"a value of type {kind} cannot be sent to the driver ({reason})")
            broken.__cause__ = payload
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

    def check(self) -> None:
        """End at once if user code has closed the control channel: no stop could arrive."""
        try:
            self._seat.end.check()
        except ChannelClosedError as error:
            self.on_channel_lost(error)

    def may_be_kept(self) -> bool:
        """Whether this process can be used again, and nothing that the function has started still runs."""
        return self._is_reusable and not self._has_leftovers()

    def leave_if_forked(self) -> None:
        """Exit if this process is a child that user code has forked, and that has returned into our code."""
        if os.getpid() != self._pid:
            self.leave()

    def on_channel_lost(self, error: ChannelClosedError) -> NoReturn:
        """End at once. The driver has ended, so none of our processes may stay; or user code has closed our channel."""
        if error.is_ours:
            try:
                os.write(2, f"the control channel was closed by the code that runs here: {error}\n".encode())
            except OSError:  # user code has closed that stream, too
                pass
            os._exit(CHANNEL_LOST_EXIT)
        process_tree.Hunt().strike(process_tree.children(self._pid))
        process_tree.kill_group(self._pid, signal.SIGKILL)
        os._exit(1)


def _outcome_of(make: Callable[[], _T]) -> _T | BaseException:
    """Call `make` until it returns, at most `_ATTEMPTS` times, because a signal handler may raise within it.

    Returns:
        Its value, or its last exception. So an exception that leaves this function is of a signal handler, and the
        caller's step is repeated.
    """
    failures: list[BaseException] = []
    while len(failures) < _ATTEMPTS:
        try:
            return make()
        except BaseException as error:
            failures.append(error)
    return failures[-1]


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


# -- the report pipe ---------------------------------------------------------------------------------------------------
class _Exchange:
    """A report, and the answer to it.

    Attributes:
        frame: The frame of the report.
        commit: Called when the frame is sent; any number of times.
        received: The part of the answer that was read.
    """

    __slots__ = ("commit", "frame", "received")

    def __init__(self, frame: Outgoing, commit: Callable[[], object]):
        self.frame = frame
        self.commit = commit
        self.received: list[bytes] = []


class ReportPipe:
    """The reports of one function. Only one thread may use it at a time.

    Args:
        worker: The worker.
        end: Its end of the report pipe.
    """

    def __init__(self, worker: Worker, end: End):
        self._worker = worker
        self._end = end
        self._number = 0
        self._goes_on = True
        self._open: _Exchange | None = None
        self._last: Outgoing | None = None

    # -- on the control thread -------------------------------------------------------------------------------------

    def start(self, run: Callable[[], object], end: Callable[[BaseException | None], object]) -> Step:
        """Run the function as the call that came last: queue `run`, and behind it `end` with the exception of `run`.

        Returns:
            The step that calls `end`.
        """
        self._number = self._worker.last_call
        running = self._worker.executor.submit(run)
        return self._worker.executor.post(lambda: end(running.exception()))

    def pull(self) -> ReportPipe:
        """Return the result of a call whose answer comes through this pipe."""
        return self

    def stop(self) -> None:
        """Do nothing: the driver answers the open report, which wakes the function."""

    # -- on the threads of the function ------------------------------------------------------------------------------

    def settle(self) -> bool:
        """Finish an exchange that a signal handler has interrupted, if there is one. Blocks.

        Returns:
            Whether the function may continue.
        """
        if self._open is not None:
            if self._open.frame.has_begun:
                self._finish(self._open)
            self._open = None
        return self._goes_on

    def exchange(self, report: tuple[Any, ...], commit: Callable[[], object]) -> bool:
        """Send a report and wait for the answer. Call `settle` first.

        Args:
            report: A tuple of objects that can be pickled. The driver gets it as a plain tuple, also if it has names.
            commit: Called once the report counts; any number of times.

        Returns:
            Whether the function may continue.

        Raises:
            Exception: If the report cannot be pickled, or is too long; nothing was sent.
        """
        self._worker.check()
        try:
            frame = Outgoing(Reported(self._number, dump_value(tuple(report))))
        except MemoryError as error:
            raise MemoryError("not enough memory to send this to the driver") from error
        self._open = exchange = _Exchange(frame, commit)
        self._finish(exchange)
        return self._goes_on

    def end(self, last_word: Any) -> None:
        """Send the outcome of the function, an exception or a value. If it is interrupted, it has to be repeated."""
        self._worker.leave_if_forked()
        if not self._goes_on:  # the driver does not wait for an outcome any more
            return
        if self._last is None:
            self._last = self._frame_of(last_word)
        try:
            self._end.check()
            self._last.send(self._end)
        except (OSError, ChannelClosedError) as error:
            self._worker.on_channel_lost(ChannelClosedError.of(error))

    def abandon(self) -> None:
        """End the process, because the function has caught the stop and continues."""
        self._worker.leave(STOP_SWALLOWED_EXIT)

    def _frame_of(self, last_word: Any) -> Outgoing:
        """Return the frame of the outcome; if it cannot be sent, of the reason."""
        self._worker.check()
        if not isinstance(last_word, BaseException):
            kind = Finished if self._worker.may_be_kept() else Returned
            value = last_word
            frame = _outcome_of(lambda: Outgoing(kind(self._number, dump_value(value))))
            if not isinstance(frame, BaseException):
                return frame
            last_word = frame
        return Outgoing(Raised(self._number, RemoteError.of(last_word)))

    def _finish(self, exchange: _Exchange) -> None:
        """Send the rest of a report, and read the answer. Blocks."""
        try:
            self._end.check()
            exchange.frame.send(self._end)
            exchange.commit()
            while (answer := self._answer_in(exchange.received)) is None:
                self._end.wait()
                exchange.received.extend(map(self._end.receive, (CHUNK_BYTES,)))  # see `main_thread`
        except (OSError, ChannelClosedError) as error:
            self._worker.on_channel_lost(ChannelClosedError.of(error))
        if isinstance(answer, GoOn):
            self._number = answer.number
        elif isinstance(answer, Quit):
            self._goes_on = False
        else:
            raise ProtocolError(f"a report cannot be answered by {type(answer).__name__}")
        self._open = None

    def _answer_in(self, received: list[bytes]) -> Message | None:
        """Return the answer, if it is complete."""
        if not received:
            return None
        if received[0] == go_on(self._number + 1):  # nearly always; a comparison takes a third of the time of reading
            return GoOn(self._number + 1)
        if not received[-1]:
            raise ChannelClosedError("end of file")
        answers: list[Message] = []
        FrameReader().feed(b"".join(received), answers.append)
        return answers[0] if answers else None
