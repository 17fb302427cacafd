"""Runs side by side: what `minitune compare` and the page show of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from minitune.base.text import date
from minitune.experiment import states
from minitune.experiment.goal import Best
from minitune.output.rows import USUAL_METRICS, titled
from minitune.record.standing import Standing
from minitune.record.story import Story
from minitune.result import CONFIG, TIME_TOTAL_S, flatten


@dataclass(frozen=True)
class ComparedRun:
    """The facts of a run beside others.

    Attributes:
        best: The best trial by the metric; None without a metric, or a trial with a finite value of it.
    """

    run: Story
    state: Standing
    metric: str
    begun: str
    reports: int
    training_s: float
    best: Best | None

    @classmethod
    def of(cls, run: Story, state: Standing, metric: str, mode: str) -> ComparedRun:
        """The facts of a run. The metric may be empty."""
        return cls(
            run,
            state,
            metric,
            date(run.setup.begun_s),
            sum(trial.progress.num_reports for trial in run.trials),
            sum(trial.progress.training_s for trial in run.trials),
            Best.of(run.trials, metric, mode) if metric else None,
        )

    def column(self, earlier_best: str) -> dict[str, Any]:
        """The run as a column: values by the name of their row. `earlier_best` is the text on a trial that was once
        better.
        """
        counts = self.state.counts(self.run)
        column: dict[str, Any] = {
            "state": self.state.name,
            "trainable": self.run.setup.trainable_name,
            "begun": self.begun,
            "trials": len(self.run.trials),
            states.FAILED: counts[states.FAILED],
            states.NOT_STARTED: counts[states.NOT_STARTED],
            "reports": self.reports,
            USUAL_METRICS[TIME_TOTAL_S]: self.training_s,
        }
        if self.best is not None:
            trial = self.best.trial
            column[f"best {self.metric}"] = self.best.value
            column["best trial"] = titled(trial)
            column["earlier best"] = earlier_best or None
            column |= {f"{CONFIG}/{name}": value for name, value in flatten(trial.reported_config).items()}
        return column
