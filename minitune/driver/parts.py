"""Parts: how a plan becomes the plug-ins and the executor of a run.

This module, which comes before the run's directory, checks all that can be checked without the trials, and writes
nothing.

`build_components` chooses the searcher first, because the scheduler may refuse it, then builds the scheduler, because
the searcher must know whether it may stop trials early. Each gets a seed of its own, so another scheduler does not
change which configurations are drawn.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from minitune import runtime
from minitune.base.checks import of_class, shown
from minitune.base.lazy import PACKAGE
from minitune.base.seeds import component_seed
from minitune.base.settings import is_on
from minitune.base.text import warn_once
from minitune.driver.experiment_spec import stopper_of
from minitune.driver.plan import NEEDED_BY_TRIALS, Plan, each_stopper, for_this_run
from minitune.executors.trial_executor import TrialExecutor
from minitune.experiment.callback import Callback, check_callbacks
from minitune.experiment.trial import Trial
from minitune.output.progress import TrialProgress
from minitune.output.trial_output import TrialOutput
from minitune.resources import GPU
from minitune.schedulers import create_scheduler
from minitune.schedulers.trial_scheduler import FIFOScheduler, TrialScheduler
from minitune.search.by_name import chosen_searcher
from minitune.search.filters import Rules
from minitune.search.search_algorithm import SearchAlgorithm, SearchGenerator
from minitune.search.searcher import Searcher, call_set_search_properties, layers_of
from minitune.search.wrappers import ConcurrencyLimiter
from minitune.stopper import NoopStopper, Stopper
from minitune.stopper.stopper import share_of_time_left

if TYPE_CHECKING:
    from minitune.output.reporters import ProgressReporter

logger = logging.getLogger("minitune")

_HOOKS = ("on_trial_", "on_step_", "on_experiment_", "log_trial_")
"""The beginnings of the names of hooks."""


@dataclass
class Components:
    """The plug-ins of a run, configured and seeded."""

    search_alg: SearchAlgorithm
    scheduler: TrialScheduler
    stopper: Stopper
    callbacks: list[Callback]
    reporter: ProgressReporter | None


def build_components(plan: Plan, seed: int, trials: Callable[[], Sequence[Trial]]) -> Components:
    """Build and configure the plug-ins. `trials` returns the trials of the run."""
    _warn_of_checkpoint_order(plan)
    reporter = build_reporter(plan)
    # The scheduler is asked first: it may refuse the searcher, and the searcher must know whether it stops trials.
    search_alg = chosen_searcher("search_alg", plan.tune_config.search_alg)
    scheduler = build_scheduler(plan, seed, search_alg)
    stops_early = type(scheduler).on_trial_result is not TrialScheduler.on_trial_result
    search: Any = build_search_alg(plan, seed, search_alg, stops_early)
    experiment = plan.experiment
    stopper = stopper_of(each_stopper(experiment.stop, for_this_run), experiment.time_budget_s) or NoopStopper()
    if plan.tune_config.confirm:
        from minitune.search.confirm import Confirm

        goal = plan.goal
        maker = plan.experiment.maker
        count = plan.tune_config.confirm
        left = functools.partial(share_of_time_left, stopper)
        search = Confirm(search, count, str(goal.metric), str(goal.mode), maker, left, trials, cuts=stops_early)
    callbacks = build_callbacks(plan, reporter)
    for plugin in (*callbacks, scheduler, stopper, search_alg):
        _warn_of_uncalled_hooks(plugin)
    return Components(
        search_alg=search,
        scheduler=scheduler,
        stopper=stopper,
        callbacks=callbacks,
        reporter=reporter,
    )


def _warn_of_uncalled_hooks(plugin: object) -> None:
    """Warn of methods of a user's class that are named like hooks, and are none."""
    kind = type(plugin)
    base = next((each for each in kind.__mro__ if str(each.__module__).partition(".")[0] == PACKAGE), object)
    hooks = [name for name in dir(base) if name.startswith(_HOOKS)]
    for name in dir(kind):
        if name.startswith(_HOOKS) and name not in hooks:
            warn_once(f"{kind.__name__}.{name}() is never called; the hooks of {base.__name__} are {', '.join(hooks)}")


def _warn_of_checkpoint_order(plan: Plan) -> None:
    """Warn if the checkpoints with the worst values of an objective are kept: the order has a default of its own."""
    kept = plan.checkpoint_config
    name = kept.checkpoint_score_attribute
    wanted = plan.goal.one(name, None)[1] if name in plan.goal.metrics else None
    if wanted is not None and wanted != kept.checkpoint_score_order:
        warn_once(
            f"the checkpoints with the worst {name} are kept: the run's mode is {wanted!r}, "
            f"and checkpoint_score_order={kept.checkpoint_score_order!r}; pass checkpoint_score_order={wanted!r}"
        )


def build_scheduler(plan: Plan, seed: int, search_alg: Searcher | SearchAlgorithm) -> TrialScheduler:
    """The scheduler of the plan, seeded and configured."""
    tune = plan.tune_config
    scheduler = tune.scheduler
    if scheduler is None:
        scheduler = FIFOScheduler()
    if isinstance(scheduler, str):
        scheduler = create_scheduler(scheduler)
    if not issubclass(type(scheduler), TrialScheduler):  # a mock says that it is an instance, and decides nothing
        raise ValueError(
            f"scheduler must be a TrialScheduler or the name of one, but got {shown(scheduler)}{of_class(scheduler)}"
        )
    scheduler = for_this_run(scheduler)
    scheduler.set_seed(component_seed(seed, "scheduler"))
    searcher = search_alg
    if isinstance(search_alg, SearchGenerator):
        searcher = search_alg.searcher
    searcher_name = None
    if isinstance(searcher, Searcher):
        searcher_name = type(layers_of(searcher)[-1]).__name__
    spec = {
        **plan.experiment.public_spec,
        "searcher": searcher_name,
        "confirm": tune.confirm,
        "objectives": dict(plan.goal.objectives),
    }
    if not scheduler.set_search_properties(plan.goal.metric, plan.goal.mode, **spec):
        raise ValueError(
            f"metric and mode must be set in one place, but both {type(scheduler).__name__} and TuneConfig have them "
            f"(TuneConfig: metric={tune.metric!r}, mode={tune.mode!r}); leave them out of one"
        )
    return scheduler


def build_search_alg(
    plan: Plan, seed: int, search_alg: Searcher | SearchAlgorithm, stops_early: bool
) -> SearchAlgorithm:
    """The search algorithm: seeded, configured, limited in concurrency, and with the plan's experiment."""
    tune = plan.tune_config
    experiment = plan.experiment
    search_alg = for_this_run(search_alg)
    if isinstance(search_alg, Searcher):
        search_alg = SearchGenerator(_limited(search_alg, tune.max_concurrent_trials))
    rules = Rules.of(tune.on_duplicate, tune.constraints)
    if rules.refuse:
        search_alg.set_rules(rules)
    search_alg.set_seed(component_seed(seed, "searcher"))
    hook = search_alg.set_search_properties
    spec = {**experiment.public_spec, "stops_early": stops_early, "may_repeat": not stops_early}
    call_set_search_properties(hook, tune.metric, tune.mode, experiment.param_space, spec)
    if tune.warm_start:  # only now, because the searcher must know the space and the metric
        search_alg.learn_from(tune.warm_start)
    experiment.maker = experiment.new_maker(_id_prefix(plan, seed))
    search_alg.add_configurations([experiment])
    return search_alg


def _id_prefix(plan: Plan, seed: int) -> str:
    """The beginning of the ids of the run's trials; in a deterministic run they follow from its seed."""
    if plan.id_prefix is None and plan.tune_config.deterministic:
        return f"{component_seed(seed, 'ids'):08x}"[:5]
    return plan.id_prefix or ""


def _limited(searcher: Searcher, max_concurrent_trials: int | None) -> Searcher:
    if not isinstance(searcher, ConcurrencyLimiter):
        limit = max_concurrent_trials or searcher.max_concurrent
        if not limit:
            return searcher
        return ConcurrencyLimiter(searcher, max_concurrent=limit)
    if max_concurrent_trials and searcher.max_concurrent != max_concurrent_trials:
        raise ValueError(
            f"max_concurrent_trials must not contradict the ConcurrencyLimiter, but got {max_concurrent_trials} and "
            f"{searcher.max_concurrent}; leave max_concurrent_trials out"
        )
    return searcher


def build_callbacks(plan: Plan, reporter: ProgressReporter | None) -> list[Callback]:
    """The user's callbacks, the reporter, and the default loggers that are missing."""
    given = check_callbacks(plan.run_config.callbacks or ())
    names = plan.experiment.output_names
    progress: list[Callback] = []
    if shows_output(plan):
        progress.append(TrialOutput(reporter, names))
    if reporter is not None:
        progress.append(TrialProgress(reporter))
    loggers: list[Callback] = []
    if not is_on("DISABLE_AUTO_CALLBACK_LOGGERS"):
        from minitune.logger import default_loggers

        loggers = default_loggers(given)
    # The loggers come last: they write what the callbacks before them have added to a result.
    return [*given, *progress, *loggers]


def shows_output(plan: Plan) -> bool:
    """Whether the console shows the output of trials."""
    return plan.verbose >= 2 or plan.run_config.show_output


def build_reporter(plan: Plan) -> ProgressReporter | None:
    """The user's reporter, or the default one; None if the console shows no progress."""
    given: ProgressReporter | None = plan.run_config.progress_reporter
    if given is not None:
        from minitune.output.reporters import ProgressReporter

        if not isinstance(given, ProgressReporter):
            raise ValueError(
                f"progress_reporter must be None or a ProgressReporter, but got {shown(given)}{of_class(given)}"
            )
    if plan.is_silent:
        return None
    if given is not None:
        return given
    from minitune.output.live_reporter import default_reporter

    return default_reporter()


def build_executor(plan: Plan, directory: Callable[[], str]) -> TrialExecutor:
    """The executor of the plan, in logical order for a deterministic run. Writes nothing.

    Raises:
        ValueError: If no executor has that name.
    """
    name = plan.executor
    tune = plan.tune_config
    executor: TrialExecutor
    changes_directory = tune.chdir_to_trial_dir
    if changes_directory is None:
        changes_directory = is_on("CHDIR_TO_TRIAL_DIR")
    if runtime.cluster_address() is not None and isinstance(name, str) and name != "ray":
        warn_once(runtime.ON_THIS_MACHINE)
    if not isinstance(name, str):
        executor = name
    elif name == "local":
        from minitune.executors.local import LocalTrialExecutor

        executor = LocalTrialExecutor(
            runtime.machine(),
            directory=directory,
            output_names=plan.experiment.output_names,
            changes_directory=changes_directory,
            needed=NEEDED_BY_TRIALS,
            ahead=plan.zygote,
        )
    elif name == "inline":
        from minitune.executors.inline import InlineTrialExecutor

        executor = InlineTrialExecutor(runtime.machine())
    elif name == "ray":
        from minitune.ray.cluster.executor import RayTrialExecutor

        executor = RayTrialExecutor(
            address=runtime.cluster_address(),
            machine=runtime.machine(),
            output_names=plan.experiment.output_names,
            changes_directory=changes_directory,
        )
    else:
        raise ValueError(f"MINITUNE_EXECUTOR must be 'local', 'inline' or 'ray', but got {name!r}")
    if tune.deterministic:
        from minitune.executors.logical_order import OrderedExecutor

        return OrderedExecutor(executor, tune.max_concurrent_trials or 1)
    return executor


def check_requests(plan: Plan, executor: TrialExecutor) -> None:
    """Refuse resource requests that the executor can never grant, unless they depend on the configuration.

    Raises:
        TuneError: If a request exceeds the totals, or a deterministic run has no room for it as often as it needs.
    """
    request = plan.experiment.static_request
    if request is None:
        return
    executor.check_room(request)
    if executor.resources()[0].get(GPU, 0) and not request.required_resources.get(GPU):
        where = "the cluster" if executor.has_queue else "this machine"
        logger.warning("%s has GPUs, but the trials do not ask for one; see with_resources", where)
