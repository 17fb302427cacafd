"""Sweep: kill what carries a marker, pass by pass on the driver's loop, until nothing is left."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from minitune.actor import tree
from minitune.actor.limits import KILL_CONFIRM_S, QUIET_PASSES, SWEEP_TICK_S
from minitune.actor.loop import Loop


class Sweep:
    """Used where no zygote does it. One pass looks at all processes, so the passes get rarer.

    Args:
        loop: Calls us back between two passes.
        markers: What the victims show in their environment.
        roots: Asked before each pass for processes to kill with their trees, whatever they show.
        on_done: Called with whether something survived. Never from within the constructor.
        hunt: Who was hit already.
    """

    def __init__(
        self,
        loop: Loop,
        markers: Collection[str],
        on_done: Callable[[bool], object],
        roots: Callable[[], Collection[int]] = tuple,
        hunt: tree.Hunt | None = None,
    ) -> None:
        self._loop = loop
        self._markers = markers
        self._roots = roots
        self._on_done = on_done
        self._hunt = hunt or tree.Hunt()
        self._quiet_passes = 0
        self._until = time.monotonic() + KILL_CONFIRM_S
        self._pause_s = SWEEP_TICK_S
        loop.call_later(0.0, self._turn)

    def _turn(self) -> None:
        try:
            left = self._hunt.strike([*self._roots(), *tree.marked(self._markers)])
        except OSError:  # there is no descriptor left to look with
            left = 1
        self._quiet_passes = 0 if left else self._quiet_passes + 1
        if self._quiet_passes < QUIET_PASSES and time.monotonic() < self._until:
            self._loop.call_later(self._pause_s, self._turn)
            self._pause_s = min(0.2, self._pause_s * 2) if left else SWEEP_TICK_S
        else:
            self._on_done(left > 0)
