"""A run that has ended, in a few lines: for people, for the page of a CI job, and for `minitune ci`."""

from __future__ import annotations

import json
import logging
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from minitune.analysis.experiment_analysis import ExperimentAnalysis
from minitune.base.checks import is_real, require
from minitune.base.text import ShortRepr, is_long, one_line, warn_once
from minitune.error import TrialError
from minitune.experiment.lifecycle import ERROR, NOT_STARTED, TERMINATED
from minitune.experiment.trial import SCOPES, Trial, best_trial, check_mode
from minitune.result import CONFIG, flatten
from minitune.settings import is_on, setting, variable_of
from minitune.trainable.session import current_session

logger = logging.getLogger("minitune")

WELL, CUT, FAILED, UNFINISHED, SILENT = "finished", "cut short", "failed", "not finished", "without a result"
_ENDS = (WELL, CUT, FAILED, UNFINISHED, SILENT, NOT_STARTED)
"""How trials end."""
_ROWS, _CELL = 30, 200
_LONG = ShortRepr(_CELL)
"""How many parameters and kinds of errors are shown, and how many characters of each."""
_FILE_LIMIT_BYTES = 1_000_000
"""If the summary of a step is larger than 1 MiB, GitHub shows nothing of it."""


@dataclass(frozen=True)
class Target:
    """A limit for the best value of a metric.

    Attributes:
        metric: The metric's flattened name.
        at_least: The value must not be below this, or None.
        at_most: The value must not be above this, or None.
        mode: Which value is best.
        scope: Which value counts for a trial.
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
        """Make a target; without a mode, a lower bound means that more is better.

        Raises:
            ValueError: If there is no metric or no bound, or mode or scope is unknown.
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
        """Whether `value` is good enough."""
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)

    def __str__(self) -> str:
        bounds = [
            f"{sign} {bound:g}" for sign, bound in ((">=", self.at_least), ("<=", self.at_most)) if bound is not None
        ]
        return f"best {self.metric} {' and '.join(bounds)}".rstrip()


@dataclass(frozen=True)
class Best:
    """The best trial, and its value of the metric."""

    trial: Trial
    metric: str
    value: float

    def __str__(self) -> str:
        config = ", ".join(f"{key}={_shown(value)}" for key, value in config_of(self.trial).items())
        return f"{self.metric} = {self.value:.6g} of trial {self.trial.trial_id} ({config})"


def best_of_run(analysis: ExperimentAnalysis, target: Target) -> Best | None:
    """The best trial by a target's metric, or None if no trial has a finite value of it."""
    best = best_trial(analysis.trials, target.metric, target.mode, target.scope)
    if best is None:
        return None
    value = best.analysis.get(target.metric, target.mode if target.scope == "all" else target.scope)
    return Best(best, target.metric, math.nan if value is None else value)


def config_of(trial: Trial) -> dict[str, Any]:
    """The flattened configuration under which a trial was last trained."""
    return flatten(trial.last_result.get(CONFIG) or trial.config)


def grouped_errors(errors: Iterable[Exception]) -> list[str]:
    """Return one line for each kind of error, with its count; the most frequent first."""
    texts = (
        str(error)
        if not isinstance(error, TrialError)
        else error.summary()
        if error.cause or error.remote is None
        else error.remote.last_line()
        for error in errors
    )
    return [f"{count} x {one_line(text)[:_CELL]}" for text, count in Counter(texts).most_common()]


@dataclass(frozen=True)
class Summary:
    """The outcome of a run.

    Attributes:
        name: The run's name.
        path: Its directory.
        elapsed_s: How long it took, in seconds.
        is_interrupted: Whether a signal has ended it.
        counts: How many trials `finished`, were `cut short` by the end of the run, `failed`, are `not finished`,
            ended `without a result`, and were `not started`.
        cut: How many trials the end of the run has cut short, those that were not started included.
        early_end: Why the run ended before them, and how many had ended by then; empty if there are none.
        best: In a line; None without a metric, or a finite value of it.
        config: The best configuration, as text.
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
    config: Mapping[str, str]
    errors: list[str]

    @classmethod
    def of(cls, analysis: ExperimentAnalysis, elapsed_s: float, is_interrupted: bool) -> Summary:
        """The summary of a run that has ended in this process."""
        from minitune.output.table import cut_short, early_end

        cut = cut_short(analysis.trials)
        counts = Counter(_how_it_ended(trial, trial.trial_id in cut) for trial in analysis.trials)
        best = None
        if analysis.default_metric is not None and analysis.default_mode is not None:
            best = best_of_run(analysis, Target(analysis.default_metric, None, None, analysis.default_mode))
        return cls(
            os.path.basename(analysis.experiment_path),
            analysis.experiment_path,
            elapsed_s,
            is_interrupted,
            {how: counts[how] for how in _ENDS if counts[how]},
            len(cut),
            early_end(analysis.trials),
            None if best is None else f"{best.metric} = {best.value:.6g} (trial {best.trial.trial_id})",
            {} if best is None else {key: _shown(value) for key, value in config_of(best.trial).items()},
            grouped_errors(trial.error for trial in analysis.trials if trial.error is not None),
        )

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Summary:
        """The summary in a line of the file of `ENDED_RUNS`."""
        return cls(**{entry.name: record[entry.name] for entry in fields(cls)})

    def counted(self) -> str:
        """How many trials there were, how they ended, and the time."""
        number = sum(self.counts.values())
        parts = ", ".join(f"{count} {how}" for how, count in self.counts.items())
        what = " (interrupted)" if self.is_interrupted else ""
        return f"{number} {'trial' if number == 1 else 'trials'} in {self.elapsed_s:.1f} s{what}: {parts or 'none'}"

    def lines(self) -> list[str]:
        """The summary for a terminal or a log."""
        lines = [f"run {self.name}: {self.counted()}"]
        if self.early_end:
            lines.append(f"  ended early: {self.early_end}")
        if self.best is not None:
            lines.append(f"  best {self.best}: " + ", ".join(f"{k}={v}" for k, v in self.config.items()))
        return lines + [f"  failed: {error}" for error in self.errors[:_ROWS]] + [f"  {self.path}"]

    def markdown(self) -> str:
        """The summary for a page, some kilobytes at most."""
        lines = [f"### {escaped(self.name)}", "", f"{escaped(self.counted())}.", ""]
        if self.early_end:
            lines += [f"Ended early: {escaped(self.early_end)}.", ""]
        if self.best is not None:
            lines += [f"Best: **{escaped(self.best)}**", ""]
        if self.config:
            rows = [(escaped(key), escaped(value)) for key, value in list(self.config.items())[:_ROWS]]
            left_out = len(self.config) - len(rows)
            rows += [(f"and {left_out} more", "")] if left_out else []
            lines += ["| parameter | value |", "| --- | --- |", *(f"| {key} | {value} |" for key, value in rows), ""]
        if self.errors:
            lines += ["Failures:", "", *(f"- {escaped(error)}" for error in self.errors[:_ROWS])]
            left_out = len(self.errors) - _ROWS
            lines += [f"- and {left_out} other kinds", ""] if left_out > 0 else [""]
        return "\n".join(lines)


def _how_it_ended(trial: Trial, is_cut: bool) -> str:
    if trial.status == ERROR:
        return FAILED
    if not trial.has_started:
        return NOT_STARTED
    if trial.status != TERMINATED:
        return UNFINISHED
    if not trial.report_count:
        return SILENT
    return CUT if is_cut else WELL


def escaped(text: str) -> str:
    """Escape Markdown and HTML, put the text on one line, and cut it to the length of a cell."""
    text = re.sub(r"\s+", " ", text).strip()
    text = text if len(text) <= _CELL else text[: _CELL - 3] + "..."
    text = re.sub(r"([\\`*_{}\[\]()#+~!@])", r"\\\1", text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("|", "&#124;")


def _shown(value: Any) -> str:
    """A value of a configuration, shortened."""
    try:
        text = f"{value:.6g}" if isinstance(value, float) else _LONG.repr(value) if is_long(value) else repr(value)
    except Exception as error:  # whatever an object of the user's may raise
        text = f"<repr() raised {type(error).__name__}>"
    return text if len(text) <= _CELL else text[: _CELL - 3] + "..."


def log_failures(analysis: ExperimentAnalysis, may_print: bool = False) -> None:
    """Leave one record in the log of the trials that have failed; for a run that shows no progress.

    Args:
        analysis: The run's trials.
        may_print: Whether the record may come out on the standard error stream, where Python prints it if no log is
            configured. If not, there is no record then.
    """
    failed = [trial.error for trial in analysis.trials if trial.error is not None]
    if failed and (may_print or logger.hasHandlers()):
        kinds, path = "; ".join(grouped_errors(failed)), analysis.experiment_path
        logger.error("%d of %d trials failed: %s (%s)", len(failed), len(analysis.trials), kinds, path)


# -- when a run ends -------------------------------------------------------------------------------------------------


def tell_run_ended(analysis: ExperimentAnalysis, elapsed_s: float, is_interrupted: bool) -> None:
    """Append the outcome of a run to the files that the environment names: `STEP_SUMMARY`, `ENDED_RUNS`. Blocks.

    A run within a trial appends nothing. A file that cannot be written causes one warning.

    Args:
        analysis: The run's trials.
        elapsed_s: How long it took, in seconds.
        is_interrupted: Whether a signal has ended it.
    """
    page = setting("STEP_SUMMARY") if is_on("STEP_SUMMARY") else ""
    record = setting("ENDED_RUNS")
    if not (page or record) or current_session() is not None:
        return
    try:
        summary = Summary.of(analysis, elapsed_s, is_interrupted)
        markdown, line = summary.markdown(), {**asdict(summary), "extremes": _extremes(analysis.trials)}
    except Exception as error:  # whatever a user's values do, the run itself has finished
        warn_once(f"there is no summary of {analysis.experiment_path}: {error!r}", about="summary")
        return
    if page:
        append_to(page, markdown + "\n", "STEP_SUMMARY", limit_bytes=_FILE_LIMIT_BYTES)
    if record:
        append_to(record, json.dumps(line) + "\n", "ENDED_RUNS")


def _extremes(trials: Iterable[Trial]) -> dict[str, tuple[float, float]]:
    """The least and the largest of the trials' last values, of each metric that has finite ones."""
    found: dict[str, tuple[float, float]] = {}
    for trial in trials:
        for name in flatten({key: value for key, value in trial.last_result.items() if key != CONFIG}):
            value = trial.analysis.get(name, "last")
            if value is not None and -math.inf < value < math.inf:
                low, high = found.get(name, (value, value))
                found[name] = (min(low, value), max(high, value))
    return found


def append_to(path: str, text: str, name: str, limit_bytes: float = math.inf) -> None:
    """Append text to a file, in one write, unless it would grow too large. Blocks.

    Args:
        path: The file.
        text: The text to append.
        name: The setting that names the file.
        limit_bytes: How large the file may become, in bytes.
    """
    data = text.encode("utf-8", "replace")
    try:
        with open(path, "ab") as file:
            if file.tell() + len(data) <= limit_bytes:
                file.write(data)
            else:
                logger.debug("%s is full; the summary of a run was left out", path)
    except (OSError, ValueError) as error:
        warn_once(f"the file of {variable_of(name)} cannot be written: {error}", about=f"{name} {path}")
