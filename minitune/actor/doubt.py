"""Doubt: whether a zygote is stuck.

A zygote is stuck if it was stopped by a signal, if a debugger traces it, or if it hangs in a function that a preloaded
package has registered for forks. Then no worker starts, and no end is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from minitune.actor.loop import Loop, TimeLimit
from minitune.actor.messages import ZYGOTE_ANSWER_PARTS, ZYGOTE_ANSWER_S


class Doubt:
    """A question to a zygote. `is_busy` says whether it may be silent, because it loads something; `on_stuck` is called
    if it does not answer in time.
    """

    def __init__(self, loop: Loop, is_busy: Callable[[], bool], on_stuck: Callable[[], object]):
        self._is_busy = is_busy
        self._on_stuck = on_stuck
        self._waiting: list[Callable[[], object]] = []
        self._limit = TimeLimit(loop)
        self.hear()

    def call_if_sound(self, on_sound: Callable[[], object]) -> None:
        """Call `on_sound` once the zygote has answered."""
        self._waiting.append(on_sound)

    def hear(self) -> None:
        """The zygote has sent another message, so it runs: restart the time limit."""
        self._limit.follow(self._wait())

    def _wait(self) -> Iterator[float]:
        # In parts: if all processes were stopped for a long time, that is the end of one part. And the loop reads what
        # has arrived before it looks at a limit. So the answer counts however late this process reads it.
        part_s = ZYGOTE_ANSWER_S / ZYGOTE_ANSWER_PARTS
        for _ in range(ZYGOTE_ANSWER_PARTS):
            yield part_s
        while self._is_busy():
            yield part_s
        self._on_stuck()

    def answered(self) -> None:
        """The zygote has answered."""
        self.close()
        for on_sound in self._waiting:
            on_sound()

    def close(self) -> None:
        """Give up; may be repeated."""
        self._limit.close()
