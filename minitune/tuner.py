"""Tuner: the entry point of a run.

`restore` makes a plan from the record of an earlier run, and `fit` gives it to a driver.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from minitune.base.calls import explains_calls
from minitune.base.checks import instance_of, is_whole, require, require_flag
from minitune.base.settings import RESUME, is_on, shared_variable
from minitune.config import ResumeConfig, ResumeType, RunConfig, refuse_out_of_scope
from minitune.driver.experiment_spec import as_space
from minitune.driver.plan import Plan
from minitune.error import TuneError, as_cause
from minitune.record.layout import RunDirectory, locate_run, run_path
from minitune.result import flatten
from minitune.trainable.util import BoundFunction
from minitune.tune_config import TuneConfig

if TYPE_CHECKING:
    from minitune.driver.driver import Driver, EndedRun
    from minitune.driver.resume import Resumption
    from minitune.experiment.run_description import RunDescription
    from minitune.record.run_files import RecordedTuner
    from minitune.result_grid import ResultGrid


@explains_calls
class Tuner:
    """Evaluates a trainable under many configurations.

    `fit` does all the work.

    Args:
        trainable: A function of the configuration, a `Trainable` subclass, or a registered name.
        param_space: The search space: a dict whose values may be domains, grids, and dicts or lists of these.
        tune_config: What is optimised, and how.
        run_config: Where the run is stored, and what it shows.
        _tuner_kwargs: Fields of `tune_config`, as libraries for Ray Tune pass some of them.

    Raises:
        TuneError: If there is no trainable.
        TypeError: If `trainable` is not a trainable, or a config has another type.
        ValueError: If the function does not take one argument, or `param_space` is no search space.

    Examples:
        >>> from minitune import RunConfig, Tuner, grid_search
        >>> def trainable(config):
        ...     return {"score": config["x"] ** 2}
        >>> tuner = Tuner(trainable, param_space={"x": grid_search([1, 2, 3])}, run_config=RunConfig(verbose=0))
        >>> tuner.fit().get_best_result("score", "max").config
        {'x': 3}
    """

    def __init__(
        self,
        trainable: Callable[..., Any] | str | None = None,
        *,
        param_space: Mapping[Any, Any] | None = None,
        tune_config: TuneConfig | None = None,
        run_config: RunConfig | None = None,
        _tuner_kwargs: Mapping[str, Any] | None = None,
    ):
        others = _tuner_kwargs if _tuner_kwargs is not None else {}
        require(isinstance(others, Mapping), "_tuner_kwargs: None or a dict", others)
        if isinstance(trainable, BoundFunction):
            param_space = trainable.space(param_space)
            run_config = run_config or trainable.run_config
        self._plan = Plan.of(
            trainable,
            param_space,
            replace(instance_of("tune_config", tune_config, TuneConfig), **others),
            instance_of("run_config", run_config, RunConfig),
        )
        self._resumption: Resumption | None = None  # until `fit` resumes the run
        self._grid: ResultGrid | None = None

    def __repr__(self) -> str:
        plan = self._plan
        experiment = plan.experiment
        of_run = f"tune_config={plan.tune_config!r}, run_config={plan.run_config!r}"
        return f"Tuner({experiment.trainable_name}, param_space={experiment.param_space!r}, {of_run})"

    def fit(self, *, raise_on_failed_trial: bool | None = None, raise_on_interrupt: bool = False) -> ResultGrid:
        """Run all trials until they have ended. Blocks.

        Args:
            raise_on_failed_trial: Raise if a trial has failed, as in CI; by default only if `MINITUNE_RAISE=1`.
            raise_on_interrupt: Raise after Ctrl-C, so that the script ends, too. By default `fit` returns the results
                so far.

        Returns:
            The results, in order of submission. The error of a failed trial is in its result.

        Raises:
            TypeError: If the trainable cannot be pickled, with the path to the part that causes this.
            TuneError: If a plug-in raises, if the trials request more resources than there are, or a trial has failed
                and `raise_on_failed_trial` is set.
            KeyboardInterrupt: After a second Ctrl-C; after the first one if `raise_on_interrupt` is set.
        """
        require_flag("raise_on_failed_trial", raise_on_failed_trial)
        require_flag("raise_on_interrupt", raise_on_interrupt)
        self._plan.raises = is_on("RAISE") if raise_on_failed_trial is None else bool(raise_on_failed_trial)
        with self._plan.start_ahead():
            ended = self._driver().run()
        self._resumption = None
        self._grid = self._make_grid(ended)
        if ended.interrupted and raise_on_interrupt:
            raise KeyboardInterrupt(f"the run {self._grid.experiment_path} was interrupted")
        ended.raise_failure()
        if self._plan.raises:
            _raise_first(self._grid)
        elif self._plan.is_silent and [trial for trial in ended.trials if trial.error is not None]:
            from minitune.analysis.summary import log_failures

            log_failures(self._grid._run, may_print=self._plan.verbose > 0)
        return self._grid

    def _driver(self) -> Driver:
        """The driver of a new or resumed run."""
        from minitune.driver.driver import Driver

        if self._resumption is None and not shared_variable(RESUME):
            return Driver(self._plan)
        from minitune.driver.resume import ResumedDriver, Resumption, run_to_resume

        if self._resumption is not None:
            return ResumedDriver(self._plan, self._resumption)
        found = run_to_resume(self._plan)
        return Driver(self._plan) if found is None else ResumedDriver(self._plan, Resumption(found))

    def get_results(self) -> ResultGrid:
        """The results of the last `fit`. Between `restore` and `fit`, those of the restored run so far.

        This unpickles objects of the run; `ExperimentAnalysis(path)` has texts in their place.

        Raises:
            RuntimeError: If `fit` has not been called and no run was restored.
            TuneError: If the restored run, or an object of it, cannot be read.
            UntrustedStateError: If another user may have written its pickles.
        """
        if self._grid is not None:
            return self._grid
        if self._resumption is None:
            raise RuntimeError("there are no results before fit() is called")
        from minitune.driver.driver import EndedRun
        from minitune.experiment.endings import EndKind
        from minitune.record.lock import check_trusted
        from minitune.record.reading import read_run
        from minitune.record.standing import settle

        run = self._resumption.run
        check_trusted(run.path)
        recorded = read_run(run.path, unpickle=True)
        settle(recorded)
        is_interrupted = recorded.driver.ending is not None and recorded.driver.ending.kind is EndKind.INTERRUPTED
        return self._make_grid(EndedRun(run, recorded.trials, interrupted=is_interrupted))

    @classmethod
    def can_restore(cls, path: str | os.PathLike[str], storage_filesystem: None = None) -> bool:
        """Whether there is a run `path`. True also for a damaged run.

        Args:
            path: The run's directory or its name, as for `restore`.
            storage_filesystem: Accepted for Ray Tune's signature; only None is possible.
        """
        refuse_out_of_scope(storage_filesystem)
        return locate_run(path) is not None

    @classmethod
    def restore(
        cls,
        path: str | os.PathLike[str],
        trainable: Any,
        resume_unfinished: bool = True,
        resume_errored: bool = False,
        restart_errored: bool = False,
        param_space: Any = None,
        storage_filesystem: None = None,
        _resume_config: ResumeConfig | None = None,
        *,
        tune_config: TuneConfig | None = None,
        run_config: RunConfig | None = None,
        add_samples: int = 0,
    ) -> Tuner:
        """A Tuner whose `fit` continues an earlier run. It keeps finished trials and continues unfinished ones.

        Args:
            path: The run's directory, which may have been moved, its name below the storage path, or `last`.
            trainable: A trainable with the same name as before.
            resume_unfinished: False ends unfinished trials.
            resume_errored: Also continue failed trials from their last checkpoints.
            restart_errored: Start them again, under new ids, unless `resume_errored`.
            param_space: A space with the same keys, from which new trials are drawn; or to replace objects.
            _resume_config: Replaces the three flags.
            tune_config: Replaces the recorded one, but not its mode.
            run_config: Replaces the recorded one.
            add_samples: How many samples to add.
            storage_filesystem: Only None is possible.

        Raises:
            TuneError: If there is no run, or it cannot be read.
            ValueError: If it has another trainable or other keys, or its samples cannot grow.
            UntrustedStateError: If another user may have written its pickles.
        """
        from minitune.driver.resume import Resumption, check_same_trainable
        from minitune.record.reading import read_description
        from minitune.record.run_files import load_tuner_file

        refuse_out_of_scope(storage_filesystem)
        require_flag("resume_unfinished", resume_unfinished)
        require_flag("resume_errored", resume_errored)
        require_flag("restart_errored", restart_errored)
        resume_config = instance_of("_resume_config", _resume_config, ResumeConfig)
        if _resume_config is None:
            resume_config.unfinished = ResumeType.RESUME if resume_unfinished else ResumeType.SKIP
            if resume_errored or restart_errored:
                resume_config.errored = ResumeType.RESUME if resume_errored else ResumeType.RESTART
        run = RunDirectory(run_path(path))
        recorded = load_tuner_file(run)
        _check_not_lost(recorded, param_space=param_space, tune_config=tune_config, run_config=run_config)
        if param_space is not None and "param_space" not in recorded.lost:
            _check_same_keys(recorded.param_space, as_space(param_space))
        tuner = cls(
            trainable,
            param_space=recorded.param_space if param_space is None else param_space,
            tune_config=tune_config or _of_last_driver(recorded.tune_config, read_description(run.path)),
            run_config=run_config or recorded.run_config,
        )
        check_same_trainable(tuner._plan, recorded.trainable_name)
        _check_samples(add_samples, tuner._plan.tune_config.num_samples)
        tuner._resumption = Resumption(
            run,
            resume_config,
            add_samples,
            tune_config is not None,
            run_config is not None,
        )
        return tuner

    def _make_grid(self, ended: EndedRun) -> ResultGrid:
        from minitune.analysis.experiment_analysis import ExperimentAnalysis
        from minitune.result_grid import ResultGrid

        tune = self._plan.tune_config
        analysis = ExperimentAnalysis(
            ended.run.path, trials=ended.trials, default_metric=tune.metric, default_mode=tune.mode
        )
        return ResultGrid(analysis, interrupted=ended.interrupted, checkpoint_config=self._plan.checkpoint_config)


def _raise_first(grid: ResultGrid) -> None:
    """Raise a `TuneError` about the failed trials."""
    if grid.num_errors:
        first = next(trial for trial in grid._run.trials if trial.error is not None)
        assert first.error is not None
        raise TuneError(
            f"{grid.num_errors} of {len(grid)} trials failed; the first of them: trial {first.name}, "
            f"{first.error.summary()} (all errors are below {grid.experiment_path})"
        ) from as_cause(first.error)


def _of_last_driver(recorded: TuneConfig, last: RunDescription) -> TuneConfig:
    """The recorded config with the objective and the samples of the run's last driver."""
    changes: dict[str, Any] = {}
    if last.metric is not None:
        changes.update(metric=last.metric, mode=last.mode)
    if last.num_samples is not None:
        changes["num_samples"] = last.num_samples
    return replace(recorded, **changes)


def _check_samples(add_samples: Any, num_samples: int) -> None:
    require(is_whole(add_samples) and add_samples >= 0, "add_samples: an int >= 0", add_samples)
    if add_samples and num_samples == -1:
        raise ValueError(
            f"add_samples must be 0 for a run with num_samples=-1, which has no end, but got {add_samples}"
        )


def _check_not_lost(recorded: RecordedTuner, **given: Any) -> None:
    """Refuse to resume without an object that could not be recorded."""
    for name in recorded.lost:
        argument, _, entry = name.partition(".")
        if given[argument] is None:
            what = f"its {entry}" if entry else "it"
            raise TuneError(
                f"{argument} must be passed again to restore this run: {what} could not be pickled when the run began"
            )


def _check_same_keys(recorded: dict[str, Any], given: dict[str, Any]) -> None:
    before = set(flatten(recorded))
    now = set(flatten(given))
    if before != now:
        raise ValueError(
            f"param_space must have the keys of the run's, but {sorted(now - before)} are new and "
            f"{sorted(before - now)} are missing"
        )
