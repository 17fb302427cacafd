"""The report pipe of a worker, on one thread: a signal handler that raises anywhere while the outcome is sent."""

from __future__ import annotations

import socket
import sys
from types import FrameType
from typing import Any

from minitune.actor.channel import CHUNK_BYTES, End
from minitune.actor.messages import Finished, FrameReader, Message
from minitune.actor.worker import ReportPipe


class _Worker:
    """The part of a worker that a pipe uses."""

    def leave_if_forked(self) -> None:
        pass

    def check(self) -> None:
        pass

    def may_be_kept(self) -> bool:
        return True


class _Alarm(Exception):
    pass


def _end_with_alarm(pipe: ReportPipe, line: int) -> bool:
    """Send an outcome. An alarm comes before the given line of the code that runs, counted from 0; False if none."""
    left = line
    before = sys.gettrace()

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        if event == "line":
            left -= 1
            if left < 0:
                sys.settrace(before)
                raise _Alarm
        return trace

    sys.settrace(trace)
    try:
        pipe.end({"x": 1})
    except _Alarm:
        pipe.end({"x": 1})  # as the main thread does with a step that was interrupted
    finally:
        sys.settrace(before)
    return left < 0


def test_an_alarm_while_the_outcome_is_sent_never_replaces_it() -> None:
    line = 0
    while True:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            worker: Any = _Worker()
            is_hit = _end_with_alarm(ReportPipe(worker, End(theirs)), line)
            found: list[Message] = []
            FrameReader().feed(ours.recv(CHUNK_BYTES), found.append)
        assert [type(message) for message in found] == [Finished], f"an alarm at line {line}"
        if not is_hit:
            break
        line += 1
    assert line > 20
