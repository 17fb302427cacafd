"""Runs side by side: what `minitune compare` and the page show of each."""

from __future__ import annotations

from typing import Any

from minitune.base.numbers import known_number
from minitune.base.text import date
from minitune.experiment import states
from minitune.experiment.goal import best_trial
from minitune.output.rows import USUAL_METRICS, shown_metric, titled
from minitune.record.standing import Standing
from minitune.record.story import Story
from minitune.result import CONFIG, TIME_TOTAL_S, flatten


def compared(run: Story, state: Standing, metric: str, mode: str, earlier_best: str) -> dict[str, Any]:
    """The column of a run: values by the name of their row.

    Without a metric, there is no best trial. `earlier_best` is the text on a trial that was once better.
    """
    counts = state.counts(run)
    totals_s = (known_number(trial.progress.metrics.get(TIME_TOTAL_S)) or 0.0 for trial in run.trials)
    column: dict[str, Any] = {
        "state": state.name,
        "trainable": run.setup.trainable_name,
        "begun": date(run.setup.begun_s),
        "trials": len(run.trials),
        states.FAILED: counts[states.FAILED],
        states.NOT_STARTED: counts[states.NOT_STARTED],
        "reports": sum(trial.progress.num_reports for trial in run.trials),
        USUAL_METRICS[TIME_TOTAL_S]: sum(totals_s),
    }
    best = best_trial(run.trials, metric, mode) if metric else None
    if best is not None:
        column[f"best {metric}"] = shown_metric(best, metric)
        column["best trial"] = titled(best)
        column["earlier best"] = earlier_best or None
        column |= {f"{CONFIG}/{name}": value for name, value in flatten(best.reported_config).items()}
    return column
