"""TuneConfig: what is searched for, and how."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from minitune.base.checks import (
    check_num_samples,
    duration_s,
    is_whole,
    require,
    require_creator,
    require_flag,
    require_metric,
)
from minitune.base.text import warn_once
from minitune.config import Config
from minitune.config import ResumeConfig as ResumeConfig
from minitune.experiment.trial import Metric, Trial, check_objectives

EXECUTORS = ("local", "inline", "ray")


@dataclass(repr=False)
class TuneConfig(Config):
    """What is searched for, and how.

    Attributes:
        mode: `"min"` or `"max"`; for several objectives a list of these, in which `"obs"` marks one that is only
            observed.
        metric: The metric that is optimised, such as `"eval/loss"`, or a list of metrics for several objectives. The
            searcher must know several then. A scheduler that compares trials must have one of them as its own metric.
        search_alg: A `Searcher` or `SearchAlgorithm`, or the name of one; None means random and grid search.
        scheduler: A `TrialScheduler`, or the name of one; None means first in, first out.
        num_samples: How often the space is sampled (the whole grid each time); -1 means without end.
        max_concurrent_trials: At most so many trials run at a time; None means as many as the resources allow.
        time_budget_s: Seconds, or a timedelta, after which the run ends; None and 0 mean no limit.
        reuse_actors: Hand the worker of a finished trial on to the next one.
        trial_name_creator: Makes a trial's name from the trial.
        trial_dirname_creator: Makes the name of a trial's directory from the trial.
        chdir_to_trial_dir: Old form of the variable `RAY_CHDIR_TO_TRIAL_DIR`: whether a worker works in the directory
            of its trial; None means what the variable says.
        seed: Base seed of all that is random: configurations, searcher, scheduler, `get_context().get_trial_seed()`,
            each from a generator of its own, and what functions in the search space draw from global generators, which
            are left as they were. A component's own seed has precedence. None draws one from numpy's global state if
            numpy is already imported, else from `random`'s; `ResultGrid.seed` tells it.
        deterministic: Whether what learns from results (searchers, schedulers) makes the same decisions in each run
            with the same seed, however fast the trials and the machine are: results count in a fixed order, that of a
            machine on which every report takes the same time. `max_concurrent_trials` must be set then, and the
            machine must have room for as many: the order follows from it. A trial may have to wait for a slower one,
            so that workers are idle at times.
        executor: `"local"` for processes, `"inline"` for one process (a debugger works), `"ray"` for processes on the
            nodes of a Ray cluster (see the manual's page "More than one machine"), or a `TrialExecutor`.
        trial_timeout_s: Seconds, or a timedelta, that one attempt of a trial may take, from the start of its worker;
            None means no limit. What takes longer is asked to stop, then killed; it counts as a failure.
        report_timeout_s: The same for the time from one report to the next. In one process (`"inline"`) nothing can be
            ended from outside: there a limit is noticed when the trial reports.
        on_duplicate: What becomes of a configuration that this run has tried before. `"allow"`: it is tried again.
            `"resample"`: another one is drawn, and the search ends when there is none. `"reuse"`: its trial ends at
            once with the last result of the earlier one; where that has not finished by then, it runs. Numbers are
            equal by value (1 and 1.0, but not True), NaN is equal to itself.
        constraints: Functions of the configuration that must return True, such as `[lambda c: c["low"] < c["high"]]`.
            What violates one is drawn anew; points of a grid that do are left out. Where a searcher suggests nothing
            else, values are drawn at random. A point to evaluate that violates one is an error.
        warm_start: Earlier runs to learn from, over a space that has some of the parameters: directories of runs, or
            `ResultGrid` objects. They count less the more their trials are in another order than those of this run. The
            searcher must be able to: `"auto"` and `"tpe"` are. A resumed run does not need them.
        preload: Load the trainable and its bound values once per run where workers are forked (on Linux), and import
            once the installed packages with which it begins. False: each worker loads and imports everything itself,
            as all do where they are not forked. A module that must run once in each trial needs that.

    Raises:
        ValueError: If a value breaks its rule.
    """

    mode: Metric = None
    metric: Metric = None
    search_alg: Any = None
    scheduler: Any = None
    num_samples: int = 1
    max_concurrent_trials: int | None = None
    time_budget_s: int | float | datetime.timedelta | None = None
    reuse_actors: bool = False
    trial_name_creator: Callable[[Trial], str] | None = None
    trial_dirname_creator: Callable[[Trial], str] | None = None
    chdir_to_trial_dir: bool | None = None
    seed: int | None = None
    deterministic: bool = False
    executor: Any = "local"
    trial_timeout_s: int | float | datetime.timedelta | None = None
    report_timeout_s: int | float | datetime.timedelta | None = None
    on_duplicate: str = "allow"
    constraints: Sequence[Callable[[dict[str, Any]], bool]] | None = None
    preload: bool = True
    warm_start: Sequence[Any] | None = None

    def _check(self) -> None:
        if isinstance(self.metric, (list, tuple)):
            _check_several(self.metric, self.mode)
        else:
            require_metric("metric", self.metric)
            require(self.mode in (None, "min", "max"), "mode: None, 'min' or 'max'", self.mode)
        if isinstance(self.search_alg, str):
            from minitune.search.by_name import check_searcher_name

            check_searcher_name(self.search_alg)
        if isinstance(self.scheduler, str):
            from minitune.schedulers import check_scheduler_name

            check_scheduler_name(self.scheduler)
        check_num_samples(self.num_samples)
        limit = self.max_concurrent_trials
        require(
            limit is None or (is_whole(limit) and limit >= 0),
            "max_concurrent_trials: None or an int >= 0 (0 means no limit)",
            limit,
        )
        for name in ("time_budget_s", "trial_timeout_s", "report_timeout_s"):
            duration_s(getattr(self, name), name)
        changes = self.chdir_to_trial_dir
        require(changes is None or isinstance(changes, bool), "chdir_to_trial_dir: None, True or False", changes)
        if changes is not None:
            warn_once(f"chdir_to_trial_dir is deprecated: set RAY_CHDIR_TO_TRIAL_DIR={int(changes)} in the environment")
        require(self.seed is None or is_whole(self.seed), "seed: None or an int", self.seed)
        require_flag("reuse_actors", self.reuse_actors)
        require_flag("deterministic", self.deterministic)
        require_flag("preload", self.preload)
        if self.deterministic and not limit:
            raise ValueError(
                "deterministic=True needs max_concurrent_trials, because the order of results depends on it, but "
                f"got {limit!r}; set it to a number of trials that fits on every machine, such as 4"
            )
        known = self.executor in EXECUTORS if isinstance(self.executor, str) else hasattr(self.executor, "can_start")
        require(known, "executor: 'local', 'inline', 'ray' or a TrialExecutor", self.executor)
        if self.on_duplicate != "allow" or self.constraints is not None:
            from minitune.search.filters import Rules

            Rules.of(self.on_duplicate, self.constraints)
        require_creator(self.trial_name_creator, "trial_name_creator")
        require_creator(self.trial_dirname_creator, "trial_dirname_creator")

    def budget_s(self) -> float | None:
        """The time budget in seconds, or None."""
        return duration_s(self.time_budget_s, "time_budget_s")


def _check_several(metric: Sequence[Any], mode: Any) -> None:
    """Refuse what are no several objectives.

    Raises:
        ValueError: If there are fewer than two, one is named twice, or each is only observed.
    """
    check_objectives(list(metric), mode)
    good = len(metric) > 1 and len(set(metric)) == len(metric)
    require(good, "metric: the name of one metric, or a list of at least two different ones", metric)
    if mode is None or all(each == "obs" for each in mode):
        raise ValueError(f"mode must have 'min' or 'max' for each of the objectives {list(metric)}, but got {mode!r}")
