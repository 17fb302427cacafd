"""The interface of progress reporters: they show the state of a run in a terminal, a log or a notebook.

In every turn of its loop, the driver calls `should_report`, and perhaps `report`. It also reports each trial's start,
result and end at once. All of this delays the trials, so reporters limit their cost: by an interval, or by a share of
the driver's time. `live_reporter` has the one that minitune brings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from minitune.experiment.goal import Metric
from minitune.experiment.trial import Trial


@dataclass(frozen=True)
class RunInfo:
    """The state of a run and its machine at one moment, without the trials.

    Attributes:
        totals: The resources by name, memory in bytes; empty if unknown.
        ending: Why the run ends early, such as `interrupted by SIGINT`, or empty.
        importing: The library that the first workers import; empty if unknown.
        ended_before: How many trials had ended before this part of the run.
        time_budget_s: How long the run may take; None for no limit.
        took_s: How long it took; None before its end.
    """

    path: str = ""
    memory: tuple[int, int] | None = None
    totals: Mapping[str, float] = field(default_factory=dict)
    free: Mapping[str, float] = field(default_factory=dict)
    outputs: Sequence[str] = ()
    ending: str = ""
    importing: str = ""
    ended_before: int = 0
    time_budget_s: float | None = None
    took_s: float | None = None

    def used(self) -> list[str]:
        """The resources as short texts, such as `2/4 CPUs`."""
        # The text has one digit, so less memory would be shown as 0.0 GiB.
        least = {"memory": 0.05 * 2**30}
        names = [name for name, total in self.totals.items() if total and self._used(name) >= least.get(name, 0)]
        texts = [self._used_text(name) for name in names]
        if self.memory is None:
            return texts
        return [*texts, f"memory {self._memory_text(self.memory)}"]

    def _used(self, name: str) -> float:
        return float(self.totals.get(name, 0) - self.free.get(name, 0))

    def _used_text(self, name: str) -> str:
        used = self._used(name)
        total = self.totals.get(name, 0)
        if name == "memory":
            return f"{used / 2**30:.1f}/{total / 2**30:.1f} GiB memory"
        if name in ("CPU", "GPU"):
            name += "s"
        return f"{round(used, 3) or 0}/{total:g} {name}"  # a rest of 1e-17 of fractions is shown as 0

    @staticmethod
    def _memory_text(memory: tuple[int, int]) -> str:
        total, free = memory
        warning = ""
        if free < 0.1 * total:
            warning = " (less than 10 % is free)"
        return f"{(total - free) / 2**30:.1f}/{total / 2**30:.1f} GiB{warning}"


class ProgressReporter:
    """Base class of reporters. A subclass defines `should_report` and `report`."""

    def setup(
        self,
        start_time: float | None = None,
        total_samples: int | None = None,
        metric: Metric = None,
        mode: Metric = None,
        **kwargs: Any,
    ) -> None:
        """Called at the start of the run, at `start_time` in seconds since the epoch. `total_samples` is very large for
        an endless search.
        """

    def configure(self, *, verbose: int, print_errors: bool) -> None:
        """Set how much to show: `verbose` 0 shows nothing, 2 also shows each result and end of a trial. Called
        before `setup`.
        """

    def close(self) -> None:
        """Release the terminal. Called at the end of each run, also after a failure."""

    def should_report(self, trials: Sequence[Trial], done: bool = False) -> bool:
        """Whether to call `report` now. Asked in every turn of the driver's loop."""
        raise NotImplementedError(f"{type(self).__name__} has to define should_report(trials, done)")

    def note_run(self, info: RunInfo) -> None:
        """Receive the state of the machine and the run. Called before each `report`."""

    def report(self, trials: Sequence[Trial], done: bool, *sys_info: str) -> None:
        """Show the state of the run. There is no `sys_info`, which Ray Tune has; `note_run` gets the same as data."""
        raise NotImplementedError(f"{type(self).__name__} has to define report(trials, done, *sys_info)")

    def seconds_left(self) -> float | None:
        """Seconds after which the driver calls `should_report` again even without an event; None means never."""
        return None

    def say(self, text: str) -> None:
        """Show a message of the driver. The base class shows nothing."""

    def trial_result(self, trial: Trial, result: Mapping[str, Any]) -> None:
        """The trial has reported; `result` is nested."""

    def trial_ended(self, trial: Trial) -> None:
        """The trial has finished or failed."""
