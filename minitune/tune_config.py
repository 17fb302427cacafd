"""TuneConfig: what is searched for, and how."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from minitune.config import require
from minitune.experiment.trial import Trial

EXECUTORS = ("local", "inline")


@dataclass
class TuneConfig:
    """What is searched for, and how.

    Attributes:
        mode: `"min"` or `"max"`.
        metric: The metric that is optimised, such as `"eval/loss"`.
        search_alg: A `Searcher` or `SearchAlgorithm`; None means random and grid search.
        scheduler: A `TrialScheduler`; None means first in, first out.
        num_samples: How often the space is sampled (the whole grid each time); -1 means without end.
        max_concurrent_trials: At most so many trials run at a time; None means as many as the resources allow.
        time_budget_s: Seconds, or a timedelta, after which the run ends.
        reuse_actors: Hand a trial's worker on to the next one.
        trial_name_creator: Makes a trial's name from the trial.
        trial_dirname_creator: Makes the name of a trial's directory from the trial.
        seed: Base seed of every component; None draws one from numpy's global state if numpy is already imported, else
            from `random`'s.
        executor: `"local"` for processes, `"inline"` for one process (a debugger works), or a `TrialExecutor`.

    Raises:
        ValueError: If a value breaks its rule.
    """

    mode: str | None = None
    metric: str | None = None
    search_alg: Any = None
    scheduler: Any = None
    num_samples: int = 1
    max_concurrent_trials: int | None = None
    time_budget_s: int | float | datetime.timedelta | None = None
    reuse_actors: bool = False
    trial_name_creator: Callable[[Trial], str] | None = None
    trial_dirname_creator: Callable[[Trial], str] | None = None
    seed: int | None = None
    executor: Any = "local"

    def __post_init__(self) -> None:
        require(self.mode in (None, "min", "max"), "mode: None, 'min' or 'max'", self.mode)
        require(self.metric is None or isinstance(self.metric, str), "metric: None or the metric's name", self.metric)
        whole = isinstance(self.num_samples, int) and not isinstance(self.num_samples, bool)
        require(
            whole and (self.num_samples >= 1 or self.num_samples == -1),
            "num_samples: an int >= 1, or -1 for no end",
            self.num_samples,
        )
        limit = self.max_concurrent_trials
        require(
            limit is None or (isinstance(limit, int) and limit >= 0),
            "max_concurrent_trials: None or an int >= 0 (0 means no limit)",
            limit,
        )
        budget = self.budget_s()
        require(budget is None or budget > 0, "time_budget_s: None or a duration > 0", self.time_budget_s)
        require(self.seed is None or isinstance(self.seed, int), "seed: None or an int", self.seed)
        known = not isinstance(self.executor, str) or self.executor in EXECUTORS
        require(known, "executor: 'local', 'inline' or a TrialExecutor", self.executor)
        for name in ("trial_name_creator", "trial_dirname_creator"):
            creator = getattr(self, name)
            require(creator is None or callable(creator), f"{name}: None or a function of the trial", creator)

    def budget_s(self) -> float | None:
        """The time budget in seconds, or None."""
        budget = self.time_budget_s
        if isinstance(budget, datetime.timedelta):
            return budget.total_seconds()
        if budget is None:
            return None
        is_number = isinstance(budget, (int, float)) and not isinstance(budget, bool)
        require(is_number, "time_budget_s: a number of seconds or a timedelta", budget)
        return float(budget)
