"""`run`: the older way into a run, for scripts that use it."""

from __future__ import annotations

import datetime
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from minitune._assemble import Plan
from minitune._fit import start_run
from minitune.analysis.experiment_analysis import ExperimentAnalysis
from minitune.config import CheckpointConfig, FailureConfig, RunConfig
from minitune.error import TuneError
from minitune.experiment.experiment import Experiment
from minitune.experiment.lifecycle import TERMINATED
from minitune.experiment.trial import Trial
from minitune.resources import Resources
from minitune.tune_config import TuneConfig

logger = logging.getLogger("minitune")


def run(
    run_or_experiment: Any,
    *,
    name: str | None = None,
    metric: str | None = None,
    mode: str | None = None,
    stop: Any = None,
    time_budget_s: int | float | datetime.timedelta | None = None,
    config: Mapping[str, Any] | None = None,
    resources_per_trial: Mapping[str, Any] | Resources | None = None,
    num_samples: int = 1,
    storage_path: str | os.PathLike[str] | None = None,
    search_alg: Any = None,
    scheduler: Any = None,
    checkpoint_config: CheckpointConfig | None = None,
    verbose: int | bool | None = None,
    progress_reporter: Any = None,
    log_to_file: bool | str | tuple[str, str] = False,
    trial_name_creator: Callable[[Trial], str] | None = None,
    trial_dirname_creator: Callable[[Trial], str] | None = None,
    max_failures: int = 0,
    fail_fast: bool | str = False,
    reuse_actors: bool = False,
    raise_on_failed_trial: bool = True,
    callbacks: Sequence[Any] | None = None,
    max_concurrent_trials: int | None = None,
) -> ExperimentAnalysis:
    """Evaluate a trainable under many configurations. Blocks.

    The arguments are those of `TuneConfig`, `RunConfig`, `FailureConfig` and `Tuner` of the same names, and:

    Args:
        run_or_experiment: The trainable: a function, a `Trainable` subclass, or a registered name.
        name: The run's name.
        metric: What is optimised.
        mode: `"min"` or `"max"`.
        stop: When a trial stops.
        time_budget_s: When the run stops.
        config: The search space.
        resources_per_trial: What each trial needs, such as `{"cpu": 2}`; not together with `with_resources`.
        num_samples: How often the space is sampled; -1 means without end.
        storage_path: The directory that holds runs.
        search_alg: Proposes configurations.
        scheduler: Decides about trials.
        checkpoint_config: Which checkpoints are made and kept.
        verbose: 0, 1 or 2.
        progress_reporter: Shows the progress.
        log_to_file: Names of the files of a trial's output.
        trial_name_creator: Names trials.
        trial_dirname_creator: Names their directories.
        max_failures: Retries of each trial.
        fail_fast: Whether a failure ends the run.
        reuse_actors: Whether workers are handed on.
        raise_on_failed_trial: Raise if a trial has not ended well, unless the run was interrupted.
        callbacks: Called at every turn of events.
        max_concurrent_trials: At most so many trials run at a time.

    Returns:
        The trials and the best of them.

    Raises:
        TuneError: As for `Tuner.fit`; and see `raise_on_failed_trial`.
        ValueError: If an argument breaks its rule.
    """
    plan = Plan(
        Experiment(run_or_experiment, config, resources_per_trial=resources_per_trial),
        TuneConfig(
            mode=mode,
            metric=metric,
            search_alg=search_alg,
            scheduler=scheduler,
            num_samples=num_samples,
            max_concurrent_trials=max_concurrent_trials,
            time_budget_s=time_budget_s,
            reuse_actors=reuse_actors,
            trial_name_creator=trial_name_creator,
            trial_dirname_creator=trial_dirname_creator,
        ),
        RunConfig(
            name=name,
            storage_path=storage_path,
            failure_config=FailureConfig(max_failures, fail_fast),
            checkpoint_config=checkpoint_config,
            verbose=verbose,
            stop=stop,
            callbacks=callbacks,
            progress_reporter=progress_reporter,
            log_to_file=log_to_file,
        ),
    )
    outcome, directory = start_run(plan)
    if outcome.raises and outcome.failed_fast is not None and outcome.failed_fast.error is not None:
        raise outcome.failed_fast.error.__cause__ or outcome.failed_fast.error
    incomplete = [trial for trial in outcome.trials if trial.status != TERMINATED]
    if incomplete and not outcome.interrupted:
        if raise_on_failed_trial:
            raise TuneError("Trials did not complete", incomplete) from incomplete[0].error
        logger.error("trials did not complete: %s", incomplete)
    return ExperimentAnalysis(directory.path, trials=outcome.trials, default_metric=metric, default_mode=mode)
