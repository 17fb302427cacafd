"""Reporters that draw on the terminal: what they have in common."""

from __future__ import annotations

import time
from typing import Any

from minitune._reporter_base import TuneReporterBase
from minitune._screen import Screen, open_screen

BACK_S = 0.1
"""Seconds until a block that has given way to others' output comes back."""


class ScreenReporter(TuneReporterBase):
    """A reporter that has the terminal from `setup` to `close`, if standard output is one, and nobody else has it.

    Its arguments are those of `TuneReporterBase`.
    """

    _screen: Screen | None = None
    _drawn_s = 0.0

    def setup(
        self,
        start_time: float | None = None,
        total_samples: int | None = None,
        metric: str | None = None,
        mode: str | None = None,
        **kwargs: Any,
    ) -> None:
        """See `ProgressReporter.setup`. From now on the terminal is ours, until `close`."""
        super().setup(start_time, total_samples, metric, mode, **kwargs)
        self.close()
        if self._verbose:
            self._screen = open_screen()

    def close(self) -> None:
        """See `ProgressReporter.close`."""
        self._release(keeps=True)

    def _release(self, keeps: bool) -> None:
        """Give the terminal back, with or without the block."""
        if self._screen is not None:
            self._screen.close(keeps=keeps)
            self._screen = None

    def say(self, text: str) -> None:
        """Show a message of the driver's, above the block."""
        if self._screen is not None and self._verbose:
            self._screen.write(f"{text}\n")
        else:
            super().say(text)

    def _draw(self, screen: Screen, lines: list[str]) -> None:
        screen.draw(lines)
        self._drawn_s = time.monotonic()
