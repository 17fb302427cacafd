"""From plain values to parts: builds the plug-ins and the executor of a run."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from minitune import runtime
from minitune._progress import TrialProgress
from minitune._samplers import draw_global_seed
from minitune._tuner_file import RecordedTuner
from minitune.callback import Callback, check_callbacks, environment_callbacks
from minitune.config import CheckpointConfig, FailureConfig, RunConfig
from minitune.execution.storage import RunDirectory
from minitune.execution.trial_executor import TrialExecutor
from minitune.experiment.experiment import Experiment
from minitune.experiment.trial import TrialMaker
from minitune.progress_reporter import ProgressReporter, default_reporter
from minitune.schedulers.trial_scheduler import FIFOScheduler, TrialScheduler
from minitune.search.basic_variant import BasicVariantGenerator
from minitune.search.concurrency_limiter import ConcurrencyLimiter
from minitune.search.search_generator import SearchAlgorithm, SearchGenerator
from minitune.search.searcher import Searcher
from minitune.settings import is_on, setting
from minitune.stopper import CombinedStopper, Stopper, TimeoutStopper, make_stopper
from minitune.trainable.trial_actor import make_trial_actor
from minitune.tune_config import TuneConfig

logger = logging.getLogger("minitune")


@dataclass
class Plan:
    """What is to be run.

    Attributes:
        experiment: The trainable and its space.
        tune_config: How it is searched.
        run_config: Where it lies and how it fails.
    """

    experiment: Experiment
    tune_config: TuneConfig
    run_config: RunConfig

    @property
    def failure_config(self) -> FailureConfig:
        """The failure config, with its defaults."""
        return self.run_config.failure_config or FailureConfig()

    @property
    def checkpoint_config(self) -> CheckpointConfig:
        """The checkpoint config, checked against the trainable.

        Raises:
            ValueError: If a function is to be saved at a frequency or at its end: it reports its checkpoints itself.
        """
        config = self.run_config.checkpoint_config or CheckpointConfig()
        if self.experiment.is_function and (config.checkpoint_frequency or config.checkpoint_at_end):
            raise ValueError(
                "checkpoint_frequency and checkpoint_at_end must not be set for a function, but got "
                f"checkpoint_frequency={config.checkpoint_frequency}, checkpoint_at_end={config.checkpoint_at_end}; a "
                "function passes its checkpoints to report(..., checkpoint=...)"
            )
        if (config.checkpoint_at_end or config.checkpoint_frequency) and not self.experiment.saves:
            raise ValueError(
                f"checkpoint_frequency and checkpoint_at_end must not be set for {self.experiment.name}, which does "
                f"not override save_checkpoint, but got checkpoint_frequency={config.checkpoint_frequency}, "
                f"checkpoint_at_end={config.checkpoint_at_end}"
            )
        at_end = self.experiment.saves if config.checkpoint_at_end is None else config.checkpoint_at_end
        return replace(config, checkpoint_at_end=at_end)

    def recorded(self) -> RecordedTuner:
        """What a later driver needs to know of this plan."""
        return RecordedTuner(self.experiment.name, self.experiment.param_space, self.tune_config, self.run_config)

    @property
    def verbose(self) -> int:
        """0, 1 or 2."""
        verbose = self.run_config.verbose
        return 1 if verbose is None else int(verbose)


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
    if seed is not None:
        return seed
    return draw_global_seed()


def build_components(plan: Plan, seed: int) -> Components:
    """Build and configure the plug-ins.

    Args:
        plan: What is to be run.
        seed: The base seed.

    Raises:
        ValueError: If metric or mode are set in two places, or something is no plug-in.
    """
    tune, run = plan.tune_config, plan.run_config
    spec = {"num_samples": tune.num_samples, "time_budget_s": tune.budget_s(), "stop": run.stop}
    scheduler = tune.scheduler if tune.scheduler is not None else FIFOScheduler()
    if not isinstance(scheduler, TrialScheduler):
        raise ValueError(f"scheduler must be a TrialScheduler, but got {scheduler!r}")
    scheduler.set_seed(component_seed(seed, "scheduler"))
    if not scheduler.set_search_properties(tune.metric, tune.mode, **spec):
        raise ValueError(
            f"metric and mode must be set in one place, but both {type(scheduler).__name__} and TuneConfig have them "
            f"(TuneConfig: metric={tune.metric!r}, mode={tune.mode!r}); leave them out of one"
        )
    stopper = make_stopper(run.stop)
    budget_s = tune.budget_s()
    if budget_s is not None:
        stopper = CombinedStopper(stopper, TimeoutStopper(budget_s))
    reporter = build_reporter(plan)
    return Components(
        search_alg=build_search_alg(plan, seed, spec),
        scheduler=scheduler,
        stopper=stopper,
        callbacks=build_callbacks(run.callbacks or (), reporter),
        reporter=reporter,
    )


def build_search_alg(plan: Plan, seed: int, spec: dict[str, Any]) -> SearchAlgorithm:
    """The search algorithm of the plan, limited and configured.

    Args:
        plan: What is to be run.
        seed: The base seed.
        spec: Limits of the run, for the searcher's information.

    Raises:
        ValueError: If it is no searcher, or the searcher was configured already and there are domains in the space.
    """
    tune, experiment = plan.tune_config, plan.experiment
    search_alg = tune.search_alg if tune.search_alg is not None else BasicVariantGenerator()
    if isinstance(search_alg, Searcher):
        limit = tune.max_concurrent_trials
        if limit and not isinstance(search_alg, ConcurrencyLimiter):
            search_alg = ConcurrencyLimiter(search_alg, max_concurrent=limit)
        search_alg = SearchGenerator(search_alg)
    if not isinstance(search_alg, SearchAlgorithm):
        raise ValueError(f"search_alg must be a Searcher or a SearchAlgorithm, but got {search_alg!r}")
    search_alg.set_seed(component_seed(seed, "searcher"))
    search_alg.set_search_properties(tune.metric, tune.mode, experiment.param_space, **spec)
    experiment.num_samples = tune.num_samples
    experiment.maker = TrialMaker(
        experiment.name,
        request=experiment.request,
        max_failures=plan.failure_config.max_failures,
        name_creator=tune.trial_name_creator,
    )
    search_alg.add_configurations(experiment)
    return search_alg


def build_callbacks(callbacks: Sequence[Any], reporter: ProgressReporter | None) -> list[Callback]:
    """The user's callbacks, those of the environment, the reporter, then the loggers that are not there already.

    Args:
        callbacks: The user's; the sequence is not changed.
        reporter: The run's reporter, or None.

    Raises:
        ValueError: If one of them is no callback.
    """
    from minitune.logger import default_loggers

    given = [*check_callbacks(callbacks), *environment_callbacks()]
    progress = [TrialProgress(reporter)] if reporter is not None else []
    loggers = [] if is_on("DISABLE_AUTO_CALLBACK_LOGGERS") else default_loggers(given)
    return [*given, *progress, *loggers]


def build_reporter(plan: Plan) -> ProgressReporter | None:
    """The user's reporter, or the default one, or None at `verbose=0`.

    Raises:
        ValueError: If the user's is none.
    """
    if plan.verbose == 0 or not plan.run_config.progress:
        return None
    given = plan.run_config.progress_reporter
    if given is not None and not isinstance(given, ProgressReporter):
        raise ValueError(f"progress_reporter must be a ProgressReporter, but got {given!r}")
    if given is not None:
        return given
    return default_reporter()


def build_executor(plan: Plan, run: RunDirectory) -> TrialExecutor:
    """The executor of the plan; `MINITUNE_EXECUTOR` is used where the plan leaves the default.

    Raises:
        ValueError: If there is none of that name.
    """
    choice = plan.tune_config.executor
    if not isinstance(choice, str):
        executor: TrialExecutor = choice
        return executor
    name = (setting("EXECUTOR") or runtime.default_executor() or choice) if choice == "local" else choice
    machine = runtime.machine()
    if name == "inline":
        from minitune.execution.inline import InlineTrialExecutor

        return InlineTrialExecutor(machine)
    if name != "local":
        raise ValueError(f"MINITUNE_EXECUTOR must be 'local' or 'inline', but got {name!r}")
    from minitune.execution.local import LocalTrialExecutor

    return LocalTrialExecutor(
        machine,
        directory=run.path,
        output_names=output_names(plan.run_config.log_to_file),
        changes_directory=is_on("CHDIR_TO_TRIAL_DIR"),
        keep_descendants=plan.run_config.keep_descendants,
        needed=(make_trial_actor,),
    )


def output_names(log_to_file: bool | str | tuple[str, str]) -> tuple[str, str]:
    """Names of the files that take a trial's output.

    Raises:
        ValueError: If it is neither a bool, a name nor a pair of names, or a name is a path.
    """
    if isinstance(log_to_file, bool):
        return "stdout", "stderr"
    names = (log_to_file, log_to_file) if isinstance(log_to_file, str) else tuple(log_to_file)
    if len(names) != 2 or not all(isinstance(n, str) and n and os.path.basename(n) == n for n in names):
        raise ValueError(
            f"log_to_file must be a bool, a file name, or a pair of names (stdout, stderr), but got {log_to_file!r}"
        )
    return names[0], names[1]


def component_seed(seed: int, component: str) -> int:
    """The seed of one component: a function of the base seed alone, between 0 and 2**32 - 1."""
    return random.Random(f"{seed}/{component}").getrandbits(32)
