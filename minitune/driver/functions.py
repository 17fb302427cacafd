"""`run` and `run_experiments`: the older entry points, for scripts that use them.

They make configs from their arguments, and then go the way of `Tuner`.
"""

from __future__ import annotations

import datetime
import logging
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from minitune.base.checks import require_flag, shown
from minitune.base.files import local_path
from minitune.base.settings import RESUME, shared_variable
from minitune.base.text import warn_once
from minitune.checkpoint import Checkpoint
from minitune.config import CheckpointConfig, FailureConfig, ResumeConfig, ResumeType, RunConfig, refuse_out_of_scope
from minitune.driver.experiment_spec import Experiment, convert_to_experiments
from minitune.driver.plan import Plan
from minitune.error import TuneError, as_cause
from minitune.experiment.goal import Metric, Mode
from minitune.experiment.lifecycle import TERMINATED
from minitune.experiment.trial import Trial
from minitune.record.layout import RunDirectory, is_run
from minitune.resources import Resources
from minitune.tune_config import TuneConfig

if TYPE_CHECKING:
    from minitune.analysis.experiment_analysis import ExperimentAnalysis
    from minitune.driver.driver import Driver, EndedRun
    from minitune.schedulers.trial_scheduler import TrialScheduler
    from minitune.search.search_algorithm import SearchAlgorithm
    from minitune.search.searcher import Searcher

logger = logging.getLogger("minitune")

_AUTO = "AUTO"
_SUFFIXES = {
    "ERRORED": ResumeConfig(errored=ResumeType.RESUME),
    "RESTART_ERRORED": ResumeConfig(errored=ResumeType.RESTART),
    "ERRORED_ONLY": ResumeConfig(unfinished=ResumeType.SKIP, errored=ResumeType.RESUME),
    "RESTART_ERRORED_ONLY": ResumeConfig(unfinished=ResumeType.SKIP, errored=ResumeType.RESTART),
}


def run(
    run_or_experiment: Any,
    *,
    name: str | None = None,
    metric: Metric = None,
    mode: Mode = None,
    stop: Any = None,
    time_budget_s: int | float | datetime.timedelta | None = None,
    config: Any = None,
    resources_per_trial: Mapping[str, Any] | Resources | None = None,
    num_samples: int = 1,
    storage_path: str | os.PathLike[str] | None = None,
    storage_filesystem: None = None,
    search_alg: Searcher | SearchAlgorithm | str | None = None,
    scheduler: TrialScheduler | str | None = None,
    checkpoint_config: CheckpointConfig | None = None,
    verbose: int | bool | None = None,
    progress_reporter: Any = None,
    log_to_file: bool | str | Sequence[str] = False,
    trial_name_creator: Callable[[Trial], str] | None = None,
    trial_dirname_creator: Callable[[Trial], str] | None = None,
    sync_config: Any = None,
    export_formats: Sequence[str] | None = None,
    max_failures: int = 0,
    fail_fast: bool | str = False,
    restore: str | os.PathLike[str] | Checkpoint | None = None,
    resume: bool | str | None = None,
    resume_config: ResumeConfig | None = None,
    reuse_actors: bool = False,
    raise_on_failed_trial: bool = True,
    callbacks: Sequence[Any] | None = None,
    max_concurrent_trials: int | None = None,
    keep_checkpoints_num: int | None = None,
    checkpoint_score_attr: str | None = None,
    checkpoint_freq: int = 0,
    checkpoint_at_end: bool = False,
    chdir_to_trial_dir: bool | None = None,
    local_dir: str | os.PathLike[str] | None = None,
    **old: Any,
) -> ExperimentAnalysis:
    """Evaluate a trainable under many configurations. Blocks.

    Most arguments are fields of `TuneConfig`, `RunConfig`, `FailureConfig` or `CheckpointConfig`, with the same
    meaning. The others:

    - `run_or_experiment`: A trainable, its registered name, an `Experiment`, whose settings have precedence, or a list
      of these, which run one after the other (`name`, `name_2`, ...).
    - `config`: The search space.
    - `resources_per_trial`: Such as `{"cpu": 2}`; not together with `with_resources`.
    - `restore`: The checkpoint from which every trial starts.
    - `resume`: True or `"AUTO"` continues the run of this name if it exists. Suffixes such as `"AUTO+ERRORED"`, or
      `resume_config`, say which trials continue.
    - `raise_on_failed_trial`: Raise if a trial did not finish. False implies `FailureConfig(give_up_after=0)`.
    - `export_formats` has no effect. Keywords of earlier versions are taken with a warning.

    Returns:
        The trials, with methods that find the best one.

    Raises:
        TuneError: As by `Tuner.fit`, and at the end if a trial did not finish.
    """
    if old:
        from minitune.ray.legacy.keywords import modern

        given = modern(run, old)
        num_samples = given.get("num_samples", num_samples)
        resources_per_trial = given.get("resources_per_trial", resources_per_trial)
    require_flag("raise_on_failed_trial", raise_on_failed_trial)
    failure = FailureConfig(max_failures, fail_fast)
    if not raise_on_failed_trial:
        failure.give_up_after = 0
    if keep_checkpoints_num is not None or checkpoint_score_attr is not None or checkpoint_freq or checkpoint_at_end:
        from minitune.ray.legacy.keywords import with_checkpoint_keywords

        checkpoint_config = with_checkpoint_keywords(
            checkpoint_config, keep_checkpoints_num, checkpoint_score_attr, checkpoint_freq, checkpoint_at_end
        )
    if local_dir is not None:
        local_path(local_dir)  # refuse an invalid path, even if storage_path has precedence
        warn_once("local_dir is the old name of storage_path")
    refuse_out_of_scope(storage_filesystem, sync_config, export_formats)
    trainables = list(run_or_experiment) if isinstance(run_or_experiment, (list, tuple)) else [run_or_experiment]
    if not trainables:
        raise TuneError("a trainable must be given, but got an empty list")
    tune_config = TuneConfig(
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
        chdir_to_trial_dir=chdir_to_trial_dir,
    )
    run_config = RunConfig(
        name=name,
        storage_path=storage_path or local_dir,
        failure_config=failure,
        checkpoint_config=checkpoint_config,
        verbose=verbose,
        stop=stop,
        callbacks=callbacks,
        progress_reporter=progress_reporter,
        log_to_file=log_to_file,
    )
    plans: list[Plan] = []
    for one in trainables:
        if isinstance(one, Experiment):
            configs = _with_settings_of(one, tune_config, run_config)
            plans.append(Plan(one, *configs))
        else:
            plans.append(Plan.of(one, config, tune_config, run_config, resources_per_trial, restore))
    _name_apart(plans)
    choice = parse_resume(resume, resume_config)
    ended: list[EndedRun] = []
    for plan in plans:
        plan.raises = bool(raise_on_failed_trial)
        with plan.start_ahead():
            # imported now, while the parent process of the workers starts
            from minitune.analysis.experiment_analysis import ExperimentAnalysis

            ended.append(_driver(plan, choice, resume is True).run())
        ended[-1].raise_failure()
        if ended[-1].interrupted or ended[-1].failed_fast is not None:
            break
    trials = [trial for run in ended for trial in run.trials]
    analysis = ExperimentAnalysis(ended[0].run.path, trials=trials, default_metric=metric, default_mode=mode)
    if raise_on_failed_trial and not ended[-1].interrupted:
        _raise_incomplete(trials)
    elif plans[0].is_silent and any(trial.error is not None for trial in trials):
        from minitune.analysis.summary import log_failures

        log_failures(analysis._run)
    return analysis


def run_experiments(
    experiments: Any,
    scheduler: TrialScheduler | str | None = None,
    verbose: int | bool | None = None,
    progress_reporter: Any = None,
    resume: bool | str | None = None,
    resume_config: ResumeConfig | None = None,
    reuse_actors: bool = False,
    raise_on_failed_trial: bool = True,
    concurrent: bool | None = None,
    callbacks: Sequence[Any] | None = None,
    search_alg: Searcher | SearchAlgorithm | str | None = None,
    **old: Any,
) -> list[Trial]:
    """Run experiments one after the other. Blocks. The arguments that are not named here are those of `run`.

    `experiments` is an `Experiment`, a list of these, or a dict with a spec (arguments of `Experiment`) for each name.
    A function in `config` with the argument `spec` is called for each trial. `concurrent=True` has no effect but a
    warning.

    Returns:
        The trials, in order of submission.

    Raises:
        TuneError: As by `run`; also if there are no experiments, or a spec is invalid.
    """
    if concurrent is not None:
        require_flag("concurrent", concurrent)
    if concurrent:
        warn_once("concurrent=True has no effect: experiments run one after the other, each with trials side by side")
    from minitune.ray.legacy.keywords import with_called_functions

    found = convert_to_experiments(experiments)
    for experiment in found:
        experiment.param_space = with_called_functions(experiment.param_space)
    return run(
        found,
        scheduler=scheduler,
        verbose=verbose,
        progress_reporter=progress_reporter,
        resume=resume,
        resume_config=resume_config,
        reuse_actors=reuse_actors,
        raise_on_failed_trial=raise_on_failed_trial,
        callbacks=callbacks,
        search_alg=search_alg,
        **old,
    ).trials


def parse_resume(resume: bool | str | None, resume_config: ResumeConfig | None = None) -> ResumeConfig | None:
    """Which trials continue; None for a new run. The last suffix of `resume` has precedence, and `resume_config` over
    all.

    Raises:
        TypeError: If `resume_config` is not a `ResumeConfig`.
        ValueError: If `resume` has another value.
    """
    if resume_config is not None:
        if not isinstance(resume_config, ResumeConfig):
            raise TypeError(f"resume_config must be None or a ResumeConfig, but got {shown(resume_config)}")
        return resume_config
    if resume is None or resume is False:
        return None
    if resume is True:
        return ResumeConfig()
    first, *suffixes = resume.split("+") if isinstance(resume, str) else [""]
    if first != _AUTO or not set(suffixes) <= set(_SUFFIXES):
        raise ValueError(
            f"resume must be True, False, None or 'AUTO', optionally followed by one of "
            f"{', '.join(f'+{name}' for name in _SUFFIXES)}, but got {resume!r}"
        )
    return _SUFFIXES[suffixes[-1]] if suffixes else ResumeConfig()


def _with_settings_of(
    first: Experiment, tune_config: TuneConfig, run_config: RunConfig
) -> tuple[TuneConfig, RunConfig]:
    """The configs for a user's `Experiment`, which has precedence over the arguments."""
    tune_config = replace(
        tune_config,
        num_samples=first.num_samples,
        time_budget_s=first.time_budget_s,
        trial_name_creator=first.trial_name_creator,
        trial_dirname_creator=first.trial_dirname_creator,
    )
    run_config = replace(
        run_config,
        name=first.name,
        storage_path=first.storage_path,
        checkpoint_config=first.checkpoint_config,
        stop=first.stop,
        log_to_file=first.log_to_file,
    )
    return tune_config, run_config


def _name_apart(plans: Sequence[Plan]) -> None:
    """Give those plans whose name an earlier one has a number, so that a resume finds the run of each."""
    taken: Counter[str] = Counter()
    for plan in plans:
        name = plan.experiment.name
        if name is not None:
            taken[name] += 1
            if taken[name] > 1:
                plan.experiment.name = f"{name}_{taken[name]}"


def _driver(plan: Plan, choice: ResumeConfig | None, tells_if_new: bool) -> Driver:
    """The driver that resumes the run of this name, if that is wanted and possible; else of a new run."""
    from minitune.driver.driver import Driver

    path = plan.experiment.path
    goes_on = choice is not None and plan.experiment.name is not None and is_run(path)
    if goes_on or shared_variable(RESUME):
        from minitune.driver.resume import ResumedDriver, Resumption, run_to_resume

        found = run_to_resume(plan) or (RunDirectory(path) if goes_on else None)
        if found is not None:
            return ResumedDriver(plan, Resumption(found, choice or ResumeConfig()))
    if tells_if_new:
        logger.warning("there is no run to resume in %s; a new run starts", path)
    return Driver(plan)


def _raise_incomplete(trials: Sequence[Trial]) -> None:
    incomplete = [trial for trial in trials if trial.status != TERMINATED]
    if incomplete:
        first = next((trial.error for trial in incomplete if trial.error is not None), None)
        raise TuneError("Trials did not complete", incomplete) from (None if first is None else as_cause(first))
