"""Summaries of a run that has ended: for people, for the page of a CI job, and for `minitune ci`."""

from __future__ import annotations

import json
import logging
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from minitune.analysis.run_results import RunResults
from minitune.base.checks import is_real, require
from minitune.base.text import counted, cut, one_line, warn_once
from minitune.error import TrialError
from minitune.experiment import states
from minitune.experiment.goal import SCOPES, Best, check_mode
from minitune.experiment.lifecycle import TERMINATED
from minitune.experiment.trial import Trial
from minitune.result import flatten
from minitune.settings import ENDED_RUNS, STEP_SUMMARY, shared_variable
from minitune.trainable.session import current_session

logger = logging.getLogger("minitune")

SILENT = "without a result"
_ENDS = (*states.STATES, SILENT)
"""How trials end."""
_ROWS = 30
_CELL = 200
"""The maximum numbers of parameters and kinds of errors, and of characters of each."""
_FILE_LIMIT_BYTES = 1_000_000
"""GitHub does not show the summary of a step if it is larger than 1 MiB."""


@dataclass(frozen=True)
class Target:
    """A limit for the best value of a metric.

    Attributes:
        scope: The value that counts for a trial, one of `SCOPES`.
    """

    metric: str
    at_least: float | None
    at_most: float | None
    mode: str
    scope: str = "last"

    @classmethod
    def of(
        cls,
        metric: str | None,
        at_least: float | None,
        at_most: float | None,
        *,
        mode: str | None = None,
        scope: str = "last",
    ) -> Target:
        """Make a target. By default, the mode is `max` with a lower limit, otherwise `min`.

        Raises:
            ValueError: If metric or limits are missing, or mode or scope is unknown.
        """
        require(isinstance(metric, str), "metric: the metric's name, here or in the TuneConfig", metric)
        for name, bound in (("at_least", at_least), ("at_most", at_most)):
            require(bound is None or (is_real(bound) and not math.isnan(bound)), f"{name}: None or a number", bound)
        require(at_least is not None or at_most is not None, "at_least or at_most: a number", None)
        mode = mode or ("max" if at_least is not None else "min")
        check_mode(mode)
        require(scope in SCOPES, f"scope: one of {', '.join(SCOPES)}", scope)
        return cls(str(metric), at_least, at_most, mode, scope)

    def is_met(self, value: float) -> bool:
        """Whether `value` is within the limits."""
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)

    def __str__(self) -> str:
        bounds = [
            f"{sign} {bound:g}" for sign, bound in ((">=", self.at_least), ("<=", self.at_most)) if bound is not None
        ]
        return f"best {self.metric} {' and '.join(bounds)}".rstrip()


def grouped_errors(trials: Iterable[Trial]) -> list[str]:
    """A line for each of `error_groups`: how many errors there are, and the first one."""
    # here, because a run that shows nothing needs no tables
    from minitune.output.status_block import error_groups

    return [f"{len(alike)} x {one_line(_text_of(alike[0].error))[:_CELL]}" for alike in error_groups(trials)]


def _text_of(error: TrialError | None) -> str:
    if error is None:
        return ""
    if error.remote is not None and not error.cause:
        return error.remote.last_line()  # with all lines of the message
    return error.summary()


@dataclass(frozen=True)
class Summary:
    """The outcome of a run.

    Attributes:
        cut: The number of trials that the end of the run has interrupted, with those that were not started.
        early_end: See `status_block.early_end`.
        best: The best trial and its value; None without a metric, or a finite value of it.
        best_line: See `status_block.best_line`.
        errors: See `grouped_errors`.
    """

    name: str
    path: str
    elapsed_s: float
    is_interrupted: bool
    counts: Mapping[str, int]
    cut: int
    early_end: str
    best: str | None
    best_line: list[str]
    config: Mapping[str, str]
    errors: list[str]

    @classmethod
    def of(cls, results: RunResults, elapsed_s: float, is_interrupted: bool) -> Summary:
        """The summary of a run that has ended in this process."""
        # here, because a run that shows nothing needs no tables
        from minitune.base.table import short_repr
        from minitune.output.status_block import best_line, early_end

        counts = Counter(map(_how_it_ended, results.trials))
        best = None
        config: dict[str, str] = {}
        if results.goal.metric is not None and results.goal.mode is not None:
            best = Best.of(results.trials, results.goal.metric, results.goal.mode)
            if best is not None:
                config = {key: short_repr(value) for key, value in flatten(best.trial.reported_config).items()}
        return cls(
            os.path.basename(results.path),
            results.path,
            elapsed_s,
            is_interrupted,
            {how: counts[how] for how in _ENDS if counts[how]},
            sum(trial.ending is not None and trial.ending.kind.is_early for trial in results.trials),
            early_end(results.trials),
            None if best is None else f"{best} (trial {best.trial.trial_id})",
            best_line(results.trials, results.goal),
            config,
            grouped_errors(results.trials),
        )

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Summary:
        """The summary from a line of the file `ENDED_RUNS`."""
        return cls(**{entry.name: record[entry.name] for entry in fields(cls)})

    def counted(self) -> str:
        """The number of trials, how they ended, and the time."""
        parts = ", ".join(f"{count} {how}" for how, count in self.counts.items())
        head = f"{counted(sum(self.counts.values()), 'trial')} in {self.elapsed_s:.1f} s"
        if self.is_interrupted:
            head += " (interrupted)"
        return f"{head}: {parts or 'none'}"

    def lines(self) -> list[str]:
        """The summary for a terminal or a log."""
        lines = [f"run {self.name}: {self.counted()}"]
        if self.early_end:
            lines.append(f"  ended early: {self.early_end}")
        lines += [f"  {line}" for line in self.best_line]
        return lines + [f"  failed: {error}" for error in self.errors[:_ROWS]] + [f"  {self.path}"]

    def markdown(self) -> str:
        """The summary as Markdown, of at most some kilobytes."""
        lines = [f"### {escaped(self.name)}", "", f"{escaped(self.counted())}.", ""]
        if self.early_end:
            lines += [f"Ended early: {escaped(self.early_end)}.", ""]
        if self.best is not None:
            lines += [f"Best: **{escaped(self.best)}**", ""]
        if self.config:
            # Names and values come from a user's script, perhaps from a pull request: they must not become links or
            # HTML.
            rows = [(escaped(key), escaped(value)) for key, value in list(self.config.items())[:_ROWS]]
            left_out = len(self.config) - len(rows)
            if left_out:
                rows.append((f"and {left_out} more", ""))
            lines += ["| parameter | value |", "| --- | --- |", *(f"| {key} | {value} |" for key, value in rows), ""]
        if self.errors:
            lines += ["Failures:", "", *(f"- {escaped(error)}" for error in self.errors[:_ROWS])]
            left_out = len(self.errors) - _ROWS
            if left_out > 0:
                lines.append(f"- and {left_out} other kinds")
            lines.append("")
        return "\n".join(lines)


def _how_it_ended(trial: Trial) -> str:
    # It has returned without a word. In CI that is a mistake, though not a failure.
    if trial.status == TERMINATED and trial.has_started and not trial.progress.num_reports:
        return SILENT
    return trial.state


def escaped(text: str) -> str:
    """Escape Markdown and HTML, put the text on one line, and cut it to the length of a cell."""
    text = cut(" ".join(text.split()), _CELL)
    text = re.sub(r"([\\`*_{}\[\]()#+~!@])", r"\\\1", text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("|", "&#124;")


def log_failures(results: RunResults, may_print: bool = False) -> None:
    """Log the failed trials of a run once, if it shows no progress."""
    failed = [trial for trial in results.trials if trial.error is not None]
    if failed and (may_print or logger.hasHandlers()):
        kinds = "; ".join(grouped_errors(failed))
        logger.error("%d of %d trials failed: %s (%s)", len(failed), len(results.trials), kinds, results.path)


# -- when a run ends ---------------------------------------------------------------------------------------------------
def tell_run_ended(results: RunResults, elapsed_s: float, is_interrupted: bool) -> None:
    """Append the outcome of a run to the files of the variables `STEP_SUMMARY` and `ENDED_RUNS`. Blocks.

    A run within a trial appends nothing. A file that cannot be written causes one warning.
    """
    # A trial may run a tuning of its own, which is not what the job is about.
    if current_session() is not None:
        return
    try:
        summary = Summary.of(results, elapsed_s, is_interrupted)
        markdown = summary.markdown()
        line = {**asdict(summary), "best_values": _best_values(results.trials)}
    except Exception as error:  # a user's values may raise anything, but the run itself has finished
        warn_once(f"there is no summary of {results.path}: {error!r}", about="summary")
        return
    page = shared_variable(STEP_SUMMARY)
    if page:
        append_to(page, markdown + "\n", STEP_SUMMARY, limit_bytes=_FILE_LIMIT_BYTES)
    record = shared_variable(ENDED_RUNS)
    if record:
        append_to(record, json.dumps(line) + "\n", ENDED_RUNS)


def _best_values(trials: Sequence[Trial]) -> dict[str, dict[str, float]]:
    """The value of the best trial by each metric with finite values, and by each mode; see `Best`."""
    names = {name for trial in trials for name in flatten(trial.progress.metrics)}
    found: dict[str, dict[str, float]] = {}
    for name in names:
        bests = {mode: Best.of(trials, name, mode) for mode in ("min", "max")}
        values = {mode: best.value for mode, best in bests.items() if best is not None}
        if values:
            found[name] = values
    return found


def append_to(path: str, text: str, name: str, limit_bytes: float = math.inf) -> None:
    """Append text to a file in one write, unless it would become too large."""
    data = text.encode("utf-8", "replace")
    try:
        with open(path, "ab") as file:
            # Better the earlier summaries alone than none: above the limit, the service shows nothing at all.
            if file.tell() + len(data) <= limit_bytes:
                file.write(data)
            else:
                logger.debug("%s is full; the summary of a run was left out", path)
    except (OSError, ValueError) as error:
        warn_once(f"the file of {name} cannot be written: {error}", about=f"{name} {path}")
