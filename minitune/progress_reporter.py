"""Progress reporters: where the state of a run is shown, a console or a notebook, and which one is the default."""

from __future__ import annotations

import importlib
import logging
import sys
import time
from collections.abc import Sequence
from typing import Any

from minitune import _table as table
from minitune._checks import require_flag
from minitune._live import Snapshot, progress_text
from minitune._live_reporter import LiveReporter
from minitune._reporter_base import ProgressReporter, TuneReporterBase
from minitune._screen_reporter import BACK_S, ScreenReporter
from minitune._snapshot_reporter import SnapshotReporter
from minitune._table import memory_line, resources_line, total_time_line
from minitune._text import broken, without_moves
from minitune.experiment.trial import Trial

__all__ = [
    "CLIReporter",
    "JupyterNotebookReporter",
    "ProgressReporter",
    "TuneReporterBase",
    "default_reporter",
    "in_notebook",
    "memory_line",
    "resources_line",
    "total_time_line",
]

_log = logging.getLogger("minitune")

_NOTEBOOK_S = 1.0
"""Between two updates of a notebook's cell."""
_SHARE = 0.05
"""So much of the driver's time may be spent on them: with very many trials they are rarer."""


class CLIReporter(ScreenReporter):
    """Shows status blocks on standard output; on a terminal, each in place of the last one.

    Its arguments are those of `TuneReporterBase`.
    """

    def should_report(self, trials: Sequence[Trial], done: bool = False) -> bool:
        """True at the start, when the interval is over, at the end, and when others' output has erased the block."""
        return super().should_report(trials, done) or (self._is_erased() and self._seconds_back() <= 0)

    def seconds_left(self) -> float | None:
        """Seconds until the next block."""
        left_s = super().seconds_left()
        return left_s if left_s is None or not self._is_erased() else min(left_s, self._seconds_back())

    def report(self, trials: Sequence[Trial], done: bool, *sys_info: str) -> None:
        """Show a status block; may block as printing does."""
        text = self._progress_str(trials, done, *sys_info)
        if done:
            self._release(keeps=False)
        if self._screen is None:
            self._console.write(f"{text}\n")
            return
        width, height = self._screen.size()
        lines = [part for line in text.splitlines() for part in broken(without_moves(line), width)]
        self._draw(self._screen, lines if len(lines) <= height else [*lines[: height - 1], "..."])

    def _is_erased(self) -> bool:
        return self._screen is not None and self._screen.is_erased

    def _seconds_back(self) -> float:
        return max(0.0, self._drawn_s + BACK_S - time.monotonic())


class JupyterNotebookReporter(SnapshotReporter):
    """Shows status blocks in a notebook, as HTML in one place. Needs IPython.

    Args:
        overwrite: Whether the cell's output is cleared before the first block.
        metric_columns: See `TuneReporterBase`, for this and all that follow.
        parameter_columns: Parameters to show.
        total_samples: How many trials there will be.
        max_progress_rows: Rows of the table.
        max_error_rows: Rows of the error table.
        max_column_length: Characters of a cell.
        max_report_frequency: Seconds between two blocks.
        infer_limit: How many metrics to find out.
        print_intermediate_tables: False shows the table only at the end.
        metric: What is optimised.
        mode: `min` or `max`.
        sort_by_metric: Show the best terminated trials first.

    Raises:
        ImportError: If IPython is not there.
        ValueError: If an argument is out of range.
    """

    def __init__(
        self,
        *,
        overwrite: bool = True,
        metric_columns: list[str] | dict[str, str] | None = None,
        parameter_columns: list[str] | dict[str, str] | None = None,
        total_samples: int | None = None,
        max_progress_rows: int = 20,
        max_error_rows: int = 20,
        max_column_length: int = 20,
        max_report_frequency: float = 5,
        infer_limit: int = 3,
        print_intermediate_tables: bool | None = None,
        metric: str | None = None,
        mode: str | None = None,
        sort_by_metric: bool = False,
    ):
        super().__init__(
            metric_columns=metric_columns,
            parameter_columns=parameter_columns,
            total_samples=total_samples,
            max_progress_rows=max_progress_rows,
            max_error_rows=max_error_rows,
            max_column_length=max_column_length,
            max_report_frequency=max_report_frequency,
            infer_limit=infer_limit,
            print_intermediate_tables=print_intermediate_tables,
            metric=metric,
            mode=mode,
            sort_by_metric=sort_by_metric,
        )
        require_flag("overwrite", overwrite)
        try:
            importlib.import_module("IPython.display")
        except ImportError as error:
            raise ImportError(
                f"JupyterNotebookReporter needs IPython ({error}); install it with: pip install ipython, or use a "
                "CLIReporter"
            ) from error
        if not in_notebook():
            _log.warning("JupyterNotebookReporter shows HTML, but this is no notebook; a CLIReporter shows text")
        self._overwrite = overwrite
        self._least_interval_s = self._interval_s
        self._handle: Any = None
        self._has_shown = False
        self._end = ""

    def setup(
        self,
        start_time: float | None = None,
        total_samples: int | None = None,
        metric: str | None = None,
        mode: str | None = None,
        **kwargs: Any,
    ) -> None:
        """See `ProgressReporter.setup`. Each run has a place of its own."""
        super().setup(start_time, total_samples, metric, mode, **kwargs)
        self._handle, self._has_shown, self._end = None, False, ""

    def report(self, trials: Sequence[Trial], done: bool, *sys_info: str) -> None:
        """Show a status block in place of the last one."""
        begin_s = time.monotonic()
        self._note_beginning(trials)
        blocks = table.as_html(self._parts(trials, done, sys_info))
        if done:
            self._end = blocks
        self.display(blocks if done else _bar(self._snapshot(trials, sys_info)) + blocks)
        self._interval_s = max(self._least_interval_s, (time.monotonic() - begin_s) / _SHARE)

    def say(self, text: str) -> None:
        """Show a message of the driver's: below the last block if that has come, else as printed output."""
        if self._end and self._verbose:
            self._end += table.as_html([text])
            self.display(self._end)
        else:
            super().say(text)

    def display(self, string: str) -> None:
        """Show HTML in place of what this reporter has shown last."""
        from IPython.display import HTML, clear_output, display

        if self._handle is not None:
            self._handle.update(HTML(string))
            return
        if self._overwrite or self._has_shown:  # a front end that cannot update what it shows
            clear_output(wait=True)
        self._handle = display(HTML(string), display_id=True)
        self._has_shown = True


def _bar(snapshot: Snapshot) -> str:
    """How far a run has come, as HTML."""
    from html import escape

    bar = f'<progress value="{snapshot.ended}" max="{snapshot.total}"></progress> ' if snapshot.total else ""
    return f"<div>{bar}{escape(progress_text(snapshot))}</div>"


def in_notebook() -> bool:
    """Whether this is a notebook's kernel. IPython is not imported for that: in a notebook it is there already."""
    ipython = sys.modules.get("IPython")
    try:
        return ipython is not None and "IPKernelApp" in ipython.get_ipython().config
    except Exception:  # no shell, or one without a configuration
        return False


def default_reporter(time_budget_s: float | None = None) -> TuneReporterBase:
    """The reporter of runs that name none; it shows four metrics, and the best trials first if they are known.

    Args:
        time_budget_s: Seconds after which the run ends anyway; None: there is no such limit.
    """
    reporter: TuneReporterBase
    if in_notebook():
        # What the user's cell has shown so far stays.
        reporter = JupyterNotebookReporter(overwrite=False, max_report_frequency=_NOTEBOOK_S, infer_limit=4)
    else:
        reporter = LiveReporter(time_budget_s=time_budget_s, infer_limit=4, max_error_rows=2)
    reporter.prefer_best()
    return reporter
