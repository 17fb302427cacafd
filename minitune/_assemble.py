"""From plain values to parts: builds the plug-ins and the executor of a run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from minitune import runtime
from minitune._checks import of_class, shown
from minitune._output_limit import output_limit
from minitune._plan import NEEDED_BY_TRIALS, Plan
from minitune._pristine import for_this_run
from minitune._progress import TrialProgress
from minitune._samplers import component_seed, draw_global_seed
from minitune.callback import Callback, check_callbacks, environment_callbacks
from minitune.execution.trial_executor import TrialExecutor
from minitune.experiment.trial_maker import TrialIds
from minitune.schedulers import create_scheduler
from minitune.schedulers.trial_scheduler import FIFOScheduler, TrialScheduler
from minitune.search import create_searcher
from minitune.search.basic_variant import BasicVariantGenerator
from minitune.search.concurrency_limiter import ConcurrencyLimiter
from minitune.search.filters import Rules
from minitune.search.search_generator import SearchAlgorithm, SearchGenerator
from minitune.search.searcher import Searcher, call_set_search_properties
from minitune.settings import is_on, setting
from minitune.stopper import NoopStopper, Stopper

if TYPE_CHECKING:
    from minitune.execution.ahead import Template
    from minitune.progress_reporter import ProgressReporter

logger = logging.getLogger("minitune")


@dataclass
class Components:
    """The plug-ins of a run, configured and seeded.

    Attributes:
        search_alg: Proposes configurations.
        scheduler: Decides about trials.
        stopper: Stops trials or the run.
        callbacks: In their order, loggers last.
        reporter: Shows the progress, or None.
    """

    search_alg: SearchAlgorithm
    scheduler: TrialScheduler
    stopper: Stopper
    callbacks: list[Callback]
    reporter: ProgressReporter | None


# -- building ------------------------------------------------------------------------------------------------------


def base_seed(seed: int | None) -> int:
    """The base seed of a run: the user's, else one draw from numpy's global state if it is loaded, else `random`'s."""
    return draw_global_seed() if seed is None else seed


def load_libraries(plan: Plan) -> None:
    """Import the libraries that the parts of a plan are built upon, and keep nothing else of them.

    A library may set variables or start threads when it is first imported, and they stay. Who looks for what a run
    leaves behind calls this first, so that the run does not import them.

    Args:
        plan: What is to be run. Its objects stay as they are.

    Raises:
        ValueError: If the plan's searcher or a callback is none.
        ImportError: If the library of that searcher is not installed.
    """
    chosen_search_alg(plan)
    _loggers(check_callbacks(plan.run_config.callbacks or ()))


def build_components(plan: Plan, seed: int) -> Components:
    """Build and configure the plug-ins.

    Args:
        plan: What is to be run.
        seed: The base seed.

    Raises:
        ValueError: If metric or mode are set in two places, or something is no plug-in.
    """
    reporter = build_reporter(plan)
    search_alg = chosen_search_alg(plan)
    scheduler = build_scheduler(plan, seed, search_alg)
    return Components(
        search_alg=build_search_alg(plan, seed, search_alg, stops_early=decides_upon_results(scheduler)),
        scheduler=scheduler,
        stopper=plan.experiment.stopper or NoopStopper(),
        callbacks=build_callbacks(plan, reporter),
        reporter=reporter,
    )


def build_scheduler(plan: Plan, seed: int, search_alg: Searcher | SearchAlgorithm) -> TrialScheduler:
    """The scheduler of the plan, seeded and configured.

    Args:
        plan: What is to be run.
        seed: The base seed.
        search_alg: What the plan says proposes configurations; the scheduler may refuse it.

    Raises:
        ValueError: If it is none, metric and mode are set in two places, or it does not go with the rest of the plan.
    """
    tune = plan.tune_config
    scheduler = tune.scheduler if tune.scheduler is not None else FIFOScheduler()
    if isinstance(scheduler, str):
        scheduler = create_scheduler(scheduler)
    if not isinstance(scheduler, TrialScheduler):
        raise ValueError(
            f"scheduler must be a TrialScheduler or the name of one, but got {shown(scheduler)}{of_class(scheduler)}"
        )
    scheduler = for_this_run(scheduler)
    scheduler.set_seed(component_seed(seed, "scheduler"))
    searcher = search_alg.searcher if isinstance(search_alg, SearchGenerator) else search_alg
    spec = {
        **plan.experiment.public_spec,
        "searcher": type(searcher).__name__ if isinstance(searcher, Searcher) else None,
        "reuse_actors": tune.reuse_actors,
    }
    if not scheduler.set_search_properties(tune.metric, tune.mode, **spec):
        raise ValueError(
            f"metric and mode must be set in one place, but both {type(scheduler).__name__} and TuneConfig have them "
            f"(TuneConfig: metric={tune.metric!r}, mode={tune.mode!r}); leave them out of one"
        )
    return scheduler


def decides_upon_results(scheduler: TrialScheduler) -> bool:
    """Whether a scheduler may end trials before their time."""
    return type(scheduler).on_trial_result is not TrialScheduler.on_trial_result


def chosen_search_alg(plan: Plan) -> Searcher | SearchAlgorithm:
    """The searcher or search algorithm of the plan, as the user has made it, or made by its name.

    Raises:
        ValueError: If it is none, or there is none of that name.
        ImportError: If the library of the one with that name is not installed.
    """
    search_alg = plan.tune_config.search_alg
    if search_alg is None:
        return BasicVariantGenerator()
    if isinstance(search_alg, str):
        search_alg = create_searcher(search_alg)
    if not isinstance(search_alg, (Searcher, SearchAlgorithm)):
        raise ValueError(
            f"search_alg must be a Searcher, a SearchAlgorithm or the name of one, but got {shown(search_alg)}"
            f"{of_class(search_alg)}"
        )
    return search_alg


def build_search_alg(
    plan: Plan, seed: int, search_alg: Searcher | SearchAlgorithm, stops_early: bool
) -> SearchAlgorithm:
    """The search algorithm of the plan, limited, seeded and configured; it has the experiments.

    Args:
        plan: What is to be run.
        seed: The base seed.
        search_alg: See `chosen_search_alg`.
        stops_early: Whether the run's scheduler may end trials before their time, which the searcher is told.

    Raises:
        ValueError: If the searcher was configured already and there are domains in the space.
    """
    tune, experiment = plan.tune_config, plan.experiment
    search_alg = for_this_run(search_alg)
    if isinstance(search_alg, Searcher):
        search_alg = SearchGenerator(_limited(search_alg, tune.max_concurrent_trials))
    rules = Rules.of(tune.on_duplicate, tune.constraints)
    if rules.concern(tune.num_samples):
        search_alg.set_rules(rules)
    search_alg.set_seed(component_seed(seed, "searcher"))
    hook = search_alg.set_search_properties
    spec = {**experiment.public_spec, "stops_early": stops_early}
    call_set_search_properties(hook, tune.metric, tune.mode, experiment.param_space, spec)
    ids = _trial_ids(plan, seed)
    for number, one in enumerate(plan.experiments):
        one.maker = one.new_maker(ids=ids, experiment_number=number)
    search_alg.add_configurations(plan.experiments)
    return search_alg


def _trial_ids(plan: Plan, seed: int) -> TrialIds:
    """The ids of the run's trials; those of a deterministic run are repeatable too."""
    ids = TrialIds(plan.id_prefix) if plan.id_prefix else TrialIds()
    if plan.tune_config.deterministic and not plan.id_prefix and not setting("TRIAL_ID_PREFIX"):
        ids.prefix = f"{component_seed(seed, 'ids'):08x}"[:5]
    return ids


def _limited(searcher: Searcher, max_concurrent_trials: int | None) -> Searcher:
    """The searcher with the run's limit around it; the driver itself keeps to it as well."""
    if not max_concurrent_trials:
        return searcher
    if not isinstance(searcher, ConcurrencyLimiter):
        return ConcurrencyLimiter(searcher, max_concurrent=max_concurrent_trials)
    if searcher.max_concurrent != max_concurrent_trials:
        raise ValueError(
            f"max_concurrent_trials must not contradict the ConcurrencyLimiter, but got {max_concurrent_trials} and "
            f"{searcher.max_concurrent}; leave max_concurrent_trials out"
        )
    return searcher


def build_callbacks(plan: Plan, reporter: ProgressReporter | None) -> list[Callback]:
    """The user's callbacks, those of the environment, the reporter, then the loggers that are not there already.

    Args:
        plan: Holds the user's callbacks; the sequence is not changed.
        reporter: The run's reporter, or None.

    Raises:
        ValueError: If one of them is no callback.
    """
    given = [*check_callbacks(plan.run_config.callbacks or ()), *environment_callbacks()]
    progress: list[Callback] = [TrialProgress(reporter)] if reporter is not None else []
    if plan.verbose >= 2 or plan.run_config.show_output:
        from minitune._trial_output import TrialOutput

        progress.insert(0, TrialOutput(reporter, plan.experiment.output_names))
    progress += output_limit(plan.experiment.output_names)
    return [*given, *progress, *_loggers(given)]


def _loggers(given: Sequence[Callback]) -> list[Callback]:
    """The loggers that a run has besides the given callbacks."""
    from minitune.logger import default_loggers

    return [] if is_on("DISABLE_AUTO_CALLBACK_LOGGERS") else default_loggers(given)


def build_reporter(plan: Plan) -> ProgressReporter | None:
    """The user's reporter, or the default one, or None at `verbose=0`.

    Raises:
        ValueError: If the user's is none.
    """
    given: ProgressReporter | None = plan.run_config.progress_reporter
    if given is None and plan.is_silent:
        return None
    from minitune.progress_reporter import ProgressReporter, default_reporter

    if given is not None and not isinstance(given, ProgressReporter):
        raise ValueError(
            f"progress_reporter must be None or a ProgressReporter, but got {shown(given)}{of_class(given)}"
        )
    if plan.is_silent:
        return None
    if given is not None:
        return given
    return default_reporter(plan.tune_config.budget_s())


def build_executor(plan: Plan, directory: Callable[[], str], ahead: Template | None = None) -> TrialExecutor:
    """The executor of the plan, in logical order if it wants that. Nothing is on disk yet.

    Args:
        plan: What is to be run.
        directory: Gives the run's directory, once there is something to be stored in it.
        ahead: See `Plan.start_ahead`.

    Raises:
        ValueError: If there is none of that name.
    """
    executor, tune = _plain_executor(plan, directory, ahead), plan.tune_config
    if not tune.deterministic:
        return executor
    from minitune.execution.logical_order import OrderedExecutor

    return OrderedExecutor(executor, tune.max_concurrent_trials or 1)


def _plain_executor(plan: Plan, directory: Callable[[], str], ahead: Template | None) -> TrialExecutor:
    name = plan.executor
    if not isinstance(name, str):
        return name
    machine = runtime.machine()
    if name == "inline":
        from minitune.execution.inline import InlineTrialExecutor

        return InlineTrialExecutor(machine)
    if name != "local":
        raise ValueError(f"MINITUNE_EXECUTOR must be 'local' or 'inline', but got {name!r}")
    from minitune.execution.local import LocalTrialExecutor

    changes = plan.tune_config.chdir_to_trial_dir
    return LocalTrialExecutor(
        machine,
        directory=directory,
        output_names=plan.experiment.output_names,
        changes_directory=is_on("CHDIR_TO_TRIAL_DIR") if changes is None else changes,
        keep_descendants=plan.run_config.keep_descendants,
        needed=NEEDED_BY_TRIALS,
        preload=bool(plan.tune_config.preload),
        ahead=ahead,
    )
