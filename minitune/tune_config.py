"""TuneConfig: the objective of a run, and how it searches."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from minitune.base.calls import explains_calls
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
from minitune.experiment.goal import Metric, Mode, check_several
from minitune.experiment.trial import Trial

if TYPE_CHECKING:
    from minitune.executors.trial_executor import TrialExecutor
    from minitune.schedulers.trial_scheduler import TrialScheduler
    from minitune.search.search_algorithm import SearchAlgorithm
    from minitune.search.searcher import Searcher

ExecutorName = Literal["local", "inline", "ray"]
EXECUTORS = get_args(ExecutorName)


@explains_calls
@dataclass(repr=False)
class TuneConfig(Config):
    """The objective of a run, and how it searches.

    Attributes:
        mode: `"min"` or `"max"`; a list for several objectives, in which `"obs"` marks one that is only observed.
        metric: The metric, such as `"eval/loss"`, or a list.
        search_alg: A searcher or its name; None: random and grid search.
        scheduler: A scheduler or its name; None: first in, first out.
        num_samples: How often the space, and with it the whole grid, is sampled; -1: without end.
        max_concurrent_trials: None: as many as the resources allow.
        time_budget_s: Seconds, or a timedelta, after which the run ends.
        reuse_actors: Whether the worker of a finished trial runs the next one.
        trial_name_creator, trial_dirname_creator: Functions that name a trial, and its directory.
        chdir_to_trial_dir: Deprecated: set the variable `RAY_CHDIR_TO_TRIAL_DIR`.

    The other fields have their own texts.

    Raises:
        ValueError: If a field has an invalid value.
    """

    mode: Mode = None
    metric: Metric = None
    search_alg: Searcher | SearchAlgorithm | str | None = None
    scheduler: TrialScheduler | str | None = None
    num_samples: int = 1
    max_concurrent_trials: int | None = None
    time_budget_s: int | float | datetime.timedelta | None = None
    reuse_actors: bool = False
    trial_name_creator: Callable[[Trial], str] | None = None
    trial_dirname_creator: Callable[[Trial], str] | None = None
    chdir_to_trial_dir: bool | None = None
    seed: int | None = None
    """The base seed of everything random. None draws one, which `ResultGrid.seed` shows. A component's own seed has
    precedence. The global generators are seeded while functions in the search space run, and then restored.
    """
    deterministic: bool = False
    """Whether results count in the order of a machine on which every report takes the same time, so that equal seeds
    make equal decisions. Needs `max_concurrent_trials`. Workers may be idle while a trial waits for a slower one.
    """
    executor: TrialExecutor | ExecutorName | str = "local"
    """`"local"` runs trials in processes, `"inline"` in this process, where a debugger works, `"ray"` on the nodes of a
    Ray cluster. Or a `TrialExecutor`.
    """
    trial_timeout_s: int | float | datetime.timedelta | None = None
    """Seconds, or a timedelta, for one attempt of a trial. One that takes longer is asked to stop, then killed, and has
    failed. The `"inline"` executor looks only when the trial reports.
    """
    report_timeout_s: int | float | datetime.timedelta | None = None
    """The same limit for the time between two reports."""
    on_duplicate: str = "allow"
    """For a configuration that was tried: `"allow"` tries it again, `"resample"` draws another one, and ends the search
    if there is none.
    """
    constraints: Sequence[Callable[[dict[str, Any]], bool]] | None = None
    """Functions of the configuration that must return True. One that violates them is drawn again, and left out of a
    grid; a point to evaluate that does is an error.
    """
    warm_start: Sequence[Any] | None = None
    """Earlier runs whose trials the search takes up: directories, names, or `ResultGrid` objects. Their spaces share
    parameters with this one, and the metric means the same. For `"auto"`, `"tpe"` and `"bohb"`; others refuse it.
    """
    confirm: int = 0
    """How many more times the three most promising trials are run at the end, with other seeds. Then the best trial is
    the one with the best mean of these repeats; see `ResultGrid.get_confirmations`. They are trials beyond
    `num_samples`. No scheduler hears of them: if one may stop trials, a repeat runs as many iterations as its trial
    had. With a time budget, the search has nine tenths of it. Needs one metric and its mode here.
    """

    def _check(self) -> None:
        if isinstance(self.metric, (list, tuple)):
            check_several(self.metric, self.mode)
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
        require(is_whole(self.confirm) and self.confirm >= 0, "confirm: an int >= 0", self.confirm)
        if self.confirm and not (isinstance(self.metric, str) and isinstance(self.mode, str)):
            raise ValueError(
                "confirm compares the trials by one metric, so TuneConfig needs a metric and its mode, but got "
                f"metric={self.metric!r}, mode={self.mode!r}"
            )
        require_flag("reuse_actors", self.reuse_actors)
        require_flag("deterministic", self.deterministic)
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
