"""ReportPipe: sends the reports of a function to the driver, beside the control channel.

While a function runs, it holds the user's thread. Each `report()` is one exchange on a separate pipe: that thread
writes the report, reads the answer and continues. The control thread takes no part, so neither thread has to wake the
other, and the control thread can receive a stop at any time.

The exception of a signal handler
---------------------------------
A signal handler of the user may raise between any two instructions of the main thread. So each step of an exchange
stores its state where the next step finds it, and can be repeated:

- A report counts once its whole frame is sent. `Outgoing` knows how much of a frame is sent. The next user of the pipe,
  another report or the end of the function, sends the rest. If nothing of a frame was sent, it is dropped, as if
  `report()` had not been called.
- If the answer to a report was not read, the report stays open. The next user of the pipe reads that answer first. So
  reports and answers alternate, none comes twice, and no answer is taken for the answer to another report.
- The bytes that were read are kept until the exchange is over.
- The end of the function is queued behind the function as a task that is repeated until it is done.

The driver answers each report, with Quit if the trial has to stop. The pipe shares no lock and no Future with the
control thread. The caller makes sure that only one thread uses the pipe at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from minitune.actor.channel import CHUNK_BYTES, ChannelClosedError, End, Outgoing, check_identity
from minitune.actor.messages import (
    Finished,
    FrameReader,
    GoOn,
    Message,
    ProtocolError,
    Quit,
    Raised,
    Reported,
    Returned,
)
from minitune.base.pickling import dump_value
from minitune.error import RemoteError

_ATTEMPTS = 3


def pickled(value: Any) -> bytes:
    """Pickle an answer. A signal handler may have raised the first two errors, so only the third one counts.

    Raises:
        BaseException: See `dump_value`.
    """
    for _ in range(_ATTEMPTS - 1):
        with suppress(BaseException):
            return dump_value(value)
    return dump_value(value)


class Host(Protocol):
    """The methods of the worker that the pipe uses."""

    def run_function(self, run: Callable[[], object], end: Callable[[BaseException | None], object]) -> Any:
        """Queue `run`, and behind it `end` with the exception of `run`. The result tells when both are done."""

    def call_number(self) -> int:
        """Return the number of the last call on the control channel."""

    def check(self) -> int:
        """Check that the control channel is open; return the longest body that may be sent."""

    def may_be_kept(self) -> bool:
        """Whether this process can be used again, and nothing that the function has started still runs."""

    def on_channel_lost(self, error: ChannelClosedError) -> None:
        """End the process."""

    def leave_if_forked(self) -> None:
        """Exit if this process is not the worker but a forked child of it."""

    def leave_unheard(self) -> None:
        """Exit: the user's code was told to stop and has not stopped."""


class _Exchange:
    """A frame, and the answer to it if it has one.

    Attributes:
        frame: The frame that is sent.
        commit: Called when it is sent; any number of times.
        received: The part of the answer that was read.
    """

    __slots__ = ("commit", "frame", "received")

    def __init__(self, frame: Outgoing, commit: Callable[[], object]):
        self.frame = frame
        self.commit = commit
        self.received: list[bytes] = []


class ReportPipe:
    """The reports of one function.

    Args:
        end: The worker's end of the pipe.
        identity: What `end.identity()` was at the start.
        host: The worker.
    """

    def __init__(self, end: End, identity: int, host: Host):
        self._end = end
        self._identity = identity
        self._host = host
        self._number = 0
        self._goes_on = True
        self._open: _Exchange | None = None
        self._last: Outgoing | None = None

    # -- on the control thread -------------------------------------------------------------------------------------

    def start(self, run: Callable[[], object], end: Callable[[BaseException | None], object]) -> Any:
        """Run the function as the call that came last; see `Host.run_function`."""
        self._number = self._host.call_number()
        return self._host.run_function(run, end)

    def pull(self) -> ReportPipe:
        """Stands for an answer that comes through this pipe."""
        return self

    def stop(self) -> None:
        """Do nothing: the driver answers the open report, which wakes the function."""

    # -- on the user's threads, one at a time ------------------------------------------------------------------------

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

    def exchange(self, report: Any, commit: Callable[[], object]) -> bool:
        """Send a report and wait for the answer. Call `settle` first.

        Args:
            report: Any object that can be pickled.
            commit: Called once the report counts; any number of times.

        Returns:
            Whether the function may continue.

        Raises:
            Exception: If the report cannot be pickled, or is too long; nothing was sent.
        """
        limit_bytes = self._host.check()
        try:
            frame = Outgoing(Reported(self._number, dump_value(report)), limit_bytes)
        except MemoryError as error:
            raise MemoryError("not enough memory to send this to the driver") from error
        self._open = exchange = _Exchange(frame, commit)
        self._finish(exchange)
        return self._goes_on

    def end(self, last_word: Any) -> None:
        """Send the outcome of the function, an exception or a value. If it is interrupted, it has to be repeated."""
        self._host.leave_if_forked()
        if not self._goes_on:  # the driver does not wait for an outcome any more
            return
        if self._last is None:
            self._last = self._frame_of(last_word)
        try:
            check_identity(self._end, self._identity)
            self._last.send(self._end)
        except (OSError, ChannelClosedError) as error:
            self._on_error(error)

    def abandon(self) -> None:
        """End the process, because the function has caught the stop and continues."""
        self._host.leave_unheard()

    def _frame_of(self, last_word: Any) -> Outgoing:
        """Return the frame of the outcome. If a signal handler raises outside of the `try`, `end` is repeated."""
        limit_bytes = self._host.check()
        if not isinstance(last_word, BaseException):
            kind = Finished if self._host.may_be_kept() else Returned
            failures: list[BaseException] = []
            while len(failures) < _ATTEMPTS:  # see `pickled`
                try:
                    return Outgoing(kind(self._number, dump_value(last_word)), limit_bytes)
                except BaseException as error:
                    failures.append(error)
            last_word = failures[-1]
        return Outgoing(Raised(self._number, RemoteError.of(last_word)), limit_bytes)

    def _finish(self, exchange: _Exchange) -> None:
        """Send the rest of a report, and read the answer. Blocks."""
        try:
            check_identity(self._end, self._identity)
            exchange.frame.send(self._end)
            exchange.commit()
            answer = self._answer_in(exchange.received)
            while answer is None:
                self._end.wait()
                exchange.received.extend(map(self._end.receive, (CHUNK_BYTES,)))  # see `End`
                answer = self._answer_in(exchange.received)
        except (OSError, ChannelClosedError) as error:
            self._on_error(error)
            return
        if isinstance(answer, GoOn):
            self._number = answer.number
        elif isinstance(answer, Quit):
            self._goes_on = False
        else:
            raise ProtocolError(f"a report cannot be answered by {type(answer).__name__}")
        self._open = None

    @staticmethod
    def _answer_in(received: list[bytes]) -> Message | None:
        """Return the answer, if it is complete."""
        if not received:
            return None
        if not received[-1]:
            raise ChannelClosedError("end of file")
        answers: list[Message] = []
        FrameReader().feed(b"".join(received), answers.append)
        return answers[0] if answers else None

    def _on_error(self, error: OSError | ChannelClosedError) -> None:
        self._host.on_channel_lost(error if isinstance(error, ChannelClosedError) else ChannelClosedError.of(error))
