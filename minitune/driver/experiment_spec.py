"""Experiment: a trainable, its space, and the limits of its trials."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from minitune.base.checks import check_num_samples, duration_s, require_creator, shown
from minitune.base.files import StorageContext, local_path
from minitune.checkpoint import Checkpoint
from minitune.config import (
    CheckpointConfig,
    FailureConfig,
    as_config,
    default_storage_path,
    log_file_names,
    refuse_out_of_scope,
)
from minitune.error import InvalidArgumentError, TuneError
from minitune.experiment.trial import Trial
from minitune.experiment.trial_maker import TrialMaker
from minitune.record.layout import check_run_name, default_run_name
from minitune.resources import Resources
from minitune.space.distributions import own_space
from minitune.space.domains import is_grid
from minitune.stopper import CombinedStopper, DictStopper, Stopper, TimeoutStopper, make_stopper
from minitune.trainable.registry import get_trainable
from minitune.trainable.trainable import Trainable
from minitune.trainable.util import (
    trainable_name,
    trainable_resources,
    validate_trainable,
    way_to_class,
)


class Experiment:
    """A trainable, its search space, and the settings of its trials.

    Args:
        name: The name of the run and its directory; if empty or None, `<trainable>_<date>`.
        time_budget_s: Seconds, or a timedelta.
        checkpoint_config: A `CheckpointConfig`, or a dict of its fields.
        log_to_file: Names of the files of a trial's output: True, one name, or a pair (stdout, stderr).
        max_failures: How often a failed trial is tried again; -1 for no limit.
        restore: The checkpoint from which every trial starts.
        **old: Keywords of earlier versions: those of `run`, `checkpoint_freq`, `checkpoint_at_end`,
            `keep_checkpoints_num` and `checkpoint_score_attr`.

    Raises:
        TuneError: If there is no trainable, or resources are set twice.
        TypeError: If the trainable is a class that is no `Trainable`.
        ValueError: If an argument has an invalid value.
    """

    def __init__(
        self,
        name: str | None,
        run: Any,
        *,
        stop: Any = None,
        time_budget_s: int | float | datetime.timedelta | None = None,
        config: Any = None,
        resources_per_trial: Mapping[str, Any] | Resources | None = None,
        num_samples: int = 1,
        storage_path: str | os.PathLike[str] | None = None,
        storage_filesystem: None = None,
        sync_config: Any = None,
        checkpoint_config: CheckpointConfig | Mapping[str, Any] | None = None,
        trial_name_creator: Callable[[Trial], str] | None = None,
        trial_dirname_creator: Callable[[Trial], str] | None = None,
        log_to_file: bool | str | Sequence[str] = False,
        export_formats: Sequence[str] | None = None,
        max_failures: int = 0,
        restore: str | os.PathLike[str] | Checkpoint | None = None,
        local_dir: str | os.PathLike[str] | None = None,
        **old: Any,
    ):
        # Old keywords first: they may set some of the arguments.
        if old:
            from minitune.ray.legacy.keywords import CHECKPOINT_KEYWORDS, modern, with_checkpoint_keywords

            checkpoints = {key: old.pop(key) for key in CHECKPOINT_KEYWORDS if key in old}
            if checkpoints:
                checkpoint_config = with_checkpoint_keywords(checkpoint_config, **checkpoints)
            given = modern(Experiment, old)
            num_samples = given.get("num_samples", num_samples)
            resources_per_trial = given.get("resources_per_trial", resources_per_trial)
        refuse_out_of_scope(storage_filesystem, sync_config, export_formats)
        # The run.
        self.trainable = _find_trainable(run)
        self.trainable_name = trainable_name(run)
        self.name = name or None
        if name:
            check_run_name(name)
        self.storage_path = storage_path or local_dir
        local_path(self.storage_path or default_storage_path())  # raises an error for a path on another machine
        self.param_space = as_space(config, "config")
        self.num_samples = check_num_samples(num_samples)
        # When trials stop: limits of a dict are read for each trial, and a stopper hears the results of all.
        self.stop = stop
        self.stopping_criterion: dict[str, Any] = {}
        if isinstance(stop, Mapping):
            self.stopping_criterion = dict(stop)
            DictStopper(self.stopping_criterion)  # raises an error for an invalid limit
        elif stop:
            make_stopper(stop)  # the same for an object that is no stopper
        self.time_budget_s = time_budget_s
        duration_s(time_budget_s, "time_budget_s")
        # The trials.
        self.checkpoint_config = as_config("checkpoint_config", checkpoint_config, CheckpointConfig)
        self.trial_name_creator = require_creator(trial_name_creator, "trial_name_creator")
        self.trial_dirname_creator = require_creator(trial_dirname_creator, "trial_dirname_creator")
        self.log_to_file = log_to_file
        self.output_names = log_file_names(log_to_file)
        self.max_failures = FailureConfig(max_failures).max_failures
        self.restore = _as_checkpoint(restore)
        self.resources_per_trial: Resources | None = None
        if resources_per_trial is not None:
            self.resources_per_trial = Resources.of(resources_per_trial)
        self.checkpoints()  # raises an error if the trainable cannot be saved as wanted
        # Only now, because it needs the checked resources. A run gives it another maker.
        self.maker = self.new_maker()

    # -- used by a run ---------------------------------------------------------------------------------------------

    def new_maker(self, id_prefix: str = "") -> TrialMaker:
        """A maker of this experiment's trials for one run."""
        return TrialMaker(
            self.trainable_name,
            id_prefix=id_prefix,
            request=self.request if self._depends_on_config else self.request({}),
            stopping_criterion=self.stopping_criterion,
            max_failures=self.max_failures,
            name_creator=self.trial_name_creator,
            start_checkpoint=self.restore,
        )

    @property
    def is_function(self) -> bool:
        """Whether the trainable is a function rather than a class."""
        return not isinstance(self.trainable, type)

    @property
    def saves(self) -> bool:
        """Whether the trainable is a class that can be saved between two steps."""
        if self.is_function:
            return False
        saves: bool = self.trainable.save_checkpoint is not Trainable.save_checkpoint
        return saves

    def checkpoints(self) -> CheckpointConfig:
        """The checkpoint config with `checkpoint_at_end` decided for this trainable.

        Raises:
            ValueError: If it asks for saves of a function, or of a class without `save_checkpoint`.
        """
        config = self.checkpoint_config
        asked = f"checkpoint_frequency={config.checkpoint_frequency}, checkpoint_at_end={config.checkpoint_at_end}"
        if (config.checkpoint_frequency or config.checkpoint_at_end) and not self.saves:
            what = "this class"
            why = f"{self.trainable_name} does not override save_checkpoint"
            if self.is_function:
                what = "a function"
                why = "a function passes its checkpoints to report(..., checkpoint=...)"
            raise ValueError(
                f"checkpoint_frequency and checkpoint_at_end must not be set for {what}, but got {asked}; {why}"
            )
        return replace(config, checkpoint_at_end=bool(self.saves and config.checkpoint_at_end is not False))

    @property
    def static_request(self) -> Resources | None:
        """The resources of every trial, or None if they depend on the configuration."""
        if self._depends_on_config:
            return self.resources_per_trial
        return self.request({})

    def request(self, config: dict[str, Any]) -> Resources:
        """The resources of a trial with this configuration."""
        declared = trainable_resources(self.trainable, config)
        if self.resources_per_trial is None:
            return Resources.of(declared)
        if declared is not None:
            raise TuneError(
                f"resources are set twice for {self.trainable_name}: by resources_per_trial and by the trainable "
                "itself; leave one of them out"
            )
        return self.resources_per_trial

    @property
    def _depends_on_config(self) -> bool:
        if isinstance(self.trainable, type):
            by_wrapper = isinstance(vars(self.trainable).get("_tune_resources"), Resources)
            return not by_wrapper and "default_resource_request" in _own_methods(self.trainable)
        return callable(getattr(self.trainable, "resources", None))

    # -- read by users ---------------------------------------------------------------------------------------------

    @property
    def stopper(self) -> Stopper | None:
        """The stoppers of `stop` and of the time budget as one, without a dict's limits; None without any."""
        return stopper_of(self.stop, self.time_budget_s)

    @property
    def path(self) -> str:
        """The run's directory, absolute. The run may get another one if it exists."""
        storage_path = local_path(self.storage_path or default_storage_path())
        return os.path.join(storage_path, self.name or default_run_name(self.trainable_name))

    @property
    def storage(self) -> StorageContext:
        """Where the run is on disk. A `SearchAlgorithm` that makes its trials passes it to them."""
        return StorageContext.of_run(self.path)

    @property
    def spec(self) -> dict[str, Any]:
        """What a `SearchAlgorithm` that makes its trials needs, by the names of the arguments."""
        return {
            **self.public_spec,
            "run": self.trainable_name,
            "config": self.param_space,
            "resources_per_trial": self.resources_per_trial,
            "storage": self.storage,
        }

    @property
    def public_spec(self) -> dict[str, Any]:
        """The part of the `spec` that callbacks, searchers and schedulers get."""
        return {
            "stop": self.stopping_criterion,
            "num_samples": self.num_samples,
            "time_budget_s": self.time_budget_s,
        }

    @classmethod
    def from_json(cls, name: str, spec: Mapping[str, Any]) -> Experiment:
        """Make an experiment from a dict.

        Raises:
            TuneError: If there is no trainable.
            TypeError: If a key is unknown.
        """
        if not isinstance(spec, Mapping) or "run" not in spec:
            raise TuneError(
                f"the spec of experiment {name!r} must be a dict with its trainable as 'run', but got {shown(spec)}"
            )
        return cls(name, **spec)


def convert_to_experiments(experiments: Any) -> list[Experiment]:
    """A list of experiments from an `Experiment`, a dict of specs by name, or a list of these."""
    if isinstance(experiments, Experiment):
        return [experiments]
    if isinstance(experiments, Mapping):
        found = [Experiment.from_json(name, spec) for name, spec in experiments.items()]
    elif isinstance(experiments, Sequence) and not isinstance(experiments, str):
        found = [one for part in experiments for one in convert_to_experiments(part)]
    else:
        found = []
    if not found:
        raise TuneError(
            f"experiments must be an Experiment, a dict of specs, or a list of these, but got {shown(experiments)}"
        )
    return found


def _find_trainable(run: Any) -> Any:
    if run is None:
        raise TuneError(
            "a trainable must be given: a function, a Trainable subclass, or a registered name, but got None; was the "
            "function called? Pass train, not train(...)"
        )
    if isinstance(run, str):
        try:
            run = get_trainable(run)
        except KeyError as error:
            raise InvalidArgumentError(error.args[0]) from None
    if not callable(run):
        raise TuneError(
            f"a trainable must be a function, a Trainable subclass or a name, but got {run!r:.200}"
            f"{way_to_class(run) or '; was the function called? Pass train, not train(...)'}"
        )
    validate_trainable(run)
    return run


def _own_methods(trainable: Any) -> set[str]:
    """Names of all attributes that a class and its bases define below `Trainable`; empty for a function."""
    if not isinstance(trainable, type):
        return set()
    return {name for kind in trainable.__mro__ if not issubclass(Trainable, kind) for name in vars(kind)}


def _as_checkpoint(restore: str | os.PathLike[str] | Checkpoint | None) -> Checkpoint | None:
    if not restore:
        return None
    checkpoint = restore if isinstance(restore, Checkpoint) else Checkpoint(local_path(restore))
    if not os.path.isdir(checkpoint.path):
        raise InvalidArgumentError(
            f"restore must be the directory of a checkpoint, but {checkpoint.path} is not a directory"
        )
    return checkpoint


def as_space(space: Any, name: str = "param_space") -> dict[str, Any]:
    """Convert a dict or None to a new dict, which must not be a single grid."""
    if space is None:
        return {}
    if not isinstance(space, Mapping):
        way = "give each parameter a name: {'x': uniform(0, 1)}"
        if callable(space):
            way = "a function that uses a trial of Optuna goes to OptunaSearch(space=...)"
        raise ValueError(f"{name} must be a dict, but got {shown(space)}; {way}")
    if is_grid(space):
        raise ValueError(
            f"{name} must be a dict of parameters by name, but got the grid {shown(space)}; "
            "give the grid a name: {'x': grid_search([...])}"
        )
    return own_space(space)


def stopper_of(stop: Any, time_budget_s: float | datetime.timedelta | None) -> Stopper | None:
    """The stoppers of `stop` and of a time budget as one, without a dict's limits; None without any."""
    parts = []
    if stop and not isinstance(stop, Mapping):  # limits of a dict are no stopper
        parts.append(make_stopper(stop))
    budget_s = duration_s(time_budget_s, "time_budget_s")
    if budget_s is not None:
        parts.append(TimeoutStopper(budget_s))
    if len(parts) > 1:
        return CombinedStopper(*parts)
    return next(iter(parts), None)
