"""Experiment: a trainable, its space, and the limits of its trials."""

from __future__ import annotations

import copy
import datetime
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from minitune.base.checks import check_num_samples, duration_s, require, require_creator, shown
from minitune.base.files import StorageContext, local_path
from minitune.base.settings import number_setting, setting, variable_of
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
from minitune.experiment.trial_maker import TrialIds, TrialMaker
from minitune.record.layout import check_run_name, default_run_name
from minitune.resources import Resources
from minitune.space.distributions import own_space
from minitune.space.domains import Domain, is_grid
from minitune.stopper import CombinedStopper, DictStopper, Stopper, TimeoutStopper, make_stopper
from minitune.stopper.stopper import flat_criteria
from minitune.trainable.registry import get_trainable, register_trainable
from minitune.trainable.trainable import Trainable
from minitune.trainable.util import (
    trainable_name,
    trainable_resources,
    validate_trainable,
    way_to_class,
)

logger = logging.getLogger("minitune")


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

    PUBLIC_KEYS = frozenset({"stop", "num_samples", "time_budget_s"})
    """The keys of the `spec` that callbacks, searchers and schedulers get."""

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
        self.param_space = _copied_space(config, "config", "a dict")
        self.num_samples = _limited_samples(check_num_samples(num_samples))
        # When trials stop: limits of a dict are read for each trial, and a stopper hears the results of all.
        self.stop = stop
        self.stopping_criterion: dict[str, Any] = {}
        if isinstance(stop, Mapping):
            self.stopping_criterion = flat_criteria(stop)
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
            self._refuse_twice(self._declared_for_any())
        self.checkpoints()  # raises an error if the trainable cannot be saved as wanted
        # Only now, because it needs the checked resources. A run gives it another maker.
        self.maker = self.new_maker()

    # -- used by a run ---------------------------------------------------------------------------------------------

    def new_maker(self, ids: TrialIds | None = None) -> TrialMaker:
        """A maker of this experiment's trials for one run."""
        return TrialMaker(
            self.trainable_name,
            ids=ids,
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
        if self.resources_per_trial is not None:
            return self.resources_per_trial
        if self._depends_on_config:
            return None
        return self.request({})

    def request(self, config: dict[str, Any]) -> Resources:
        """The resources of a trial with this configuration."""
        declared = trainable_resources(self.trainable, config)
        if self.resources_per_trial is None:
            return Resources.of(declared)
        self._refuse_twice(declared)
        return self.resources_per_trial

    @property
    def _depends_on_config(self) -> bool:
        if isinstance(self.trainable, type):
            by_wrapper = isinstance(vars(self.trainable).get("_tune_resources"), Resources)
            return not by_wrapper and "default_resource_request" in _own_methods(self.trainable)
        return callable(getattr(self.trainable, "resources", None))

    def _declared_for_any(self) -> Resources | None:
        """The trainable's resources for an empty configuration; None if it sets none or needs parameters."""
        try:
            return trainable_resources(self.trainable, {})
        except Exception:  # the user's code probably misses a parameter; each trial calls it again
            return None

    def _refuse_twice(self, declared: Resources | None) -> None:
        if declared is not None:
            raise TuneError(
                f"resources are set twice for {self.trainable_name}: by resources_per_trial and by the trainable "
                "itself; leave one of them out"
            )

    # -- read by users ---------------------------------------------------------------------------------------------

    @property
    def stopper(self) -> Stopper | None:
        """The stoppers of `stop` and of the time budget as one, without a dict's limits; None without any."""
        parts = []
        if self.stop and not isinstance(self.stop, Mapping):  # limits of a dict are no stopper
            parts.append(make_stopper(self.stop))
        budget_s = _limited_budget_s(duration_s(self.time_budget_s, "time_budget_s"))
        if budget_s is not None:
            parts.append(TimeoutStopper(budget_s))
        if len(parts) > 1:
            return CombinedStopper(*parts)
        return next(iter(parts), None)

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
    def local_path(self) -> str:
        """Same as `path`."""
        return self.path

    @property
    def remote_path(self) -> str:
        """Same as `path`."""
        return self.path

    @property
    def run_identifier(self) -> str:
        """Name of the trainable."""
        return self.trainable_name

    @property
    def spec(self) -> dict[str, Any]:
        """The experiment as a dict with the names of its arguments."""
        return {
            "run": self.trainable_name,
            "stop": self.stopping_criterion,
            "time_budget_s": self.time_budget_s,
            "config": self.param_space,
            "resources_per_trial": self.resources_per_trial,
            "num_samples": self.num_samples,
            "checkpoint_config": self.checkpoint_config,
            "trial_name_creator": self.trial_name_creator,
            "trial_dirname_creator": self.trial_dirname_creator,
            "log_to_file": self.output_names if self.log_to_file else (None, None),
            "export_formats": [],
            "max_failures": self.max_failures,
            "restore": self.restore.path if self.restore is not None else None,
            "storage": self.storage,
        }

    @property
    def public_spec(self) -> dict[str, Any]:
        """The part of the `spec` that callbacks, searchers and schedulers get."""
        return {key: value for key, value in self.spec.items() if key in self.PUBLIC_KEYS}

    @classmethod
    def from_json(cls, name: str, spec: Mapping[str, Any]) -> Experiment:
        """Make an experiment from a dict.

        Raises:
            TuneError: If there is no trainable, or a key is unknown.
        """
        if not isinstance(spec, Mapping):
            raise TuneError(f"the spec of experiment {name!r} must be a dict, but got {shown(spec)}")
        if "run" not in spec:
            raise TuneError(
                f"experiment {name!r} has no trainable: its spec needs the key 'run', but has {sorted(spec)}"
            )
        arguments = {key: copy.deepcopy(value) for key, value in spec.items() if key not in ("run", "env")}
        if "env" in spec:
            arguments["config"] = {**_copied_space(arguments.get("config"), "config", "a dict"), "env": spec["env"]}
        unknown = sorted(set(arguments) - set(cls.__init__.__kwdefaults__ or ()))
        if unknown:
            from minitune.ray.legacy.keywords import OLD_KEYWORDS

            unknown = [key for key in unknown if key not in OLD_KEYWORDS]
        if unknown:
            raise TuneError(
                f"the spec of experiment {name!r} holds {', '.join(unknown)}, which Experiment does not take"
            )
        return cls(name, spec["run"], **arguments)

    @classmethod
    def get_trainable_name(cls, run_object: Any) -> str:
        """The name of a trainable. TuneError if it is neither a name nor callable."""
        if not isinstance(run_object, str) and not callable(run_object):
            raise TuneError(
                f"a trainable must be a function, a Trainable subclass or a name, but got {run_object!r:.200}"
                f"{way_to_class(run_object)}"
            )
        return trainable_name(run_object)

    @classmethod
    def register_if_needed(cls, run_object: Any) -> str:
        """Register a trainable under its own name, and return the name."""
        name = cls.get_trainable_name(run_object)
        if not isinstance(run_object, str):
            register_trainable(name, run_object)
        return name


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


class HasToDict(Protocol):
    """A search space of another library."""

    def to_dict(self) -> Any:
        """The space as a dict."""


def as_space(space: Any, name: str = "param_space") -> dict[str, Any]:
    """Convert a dict, None, or an object with `to_dict` to a new dict, which must not be a single grid."""
    if hasattr(space, "to_dict") and not isinstance(space, (Mapping, type)):
        space = space.to_dict()
    return _copied_space(space, name, "a dict, or an object with to_dict")


def _copied_space(space: Any, name: str, rule: str) -> dict[str, Any]:
    if space is None:
        return {}
    if not isinstance(space, Mapping):
        raise ValueError(f"{name} must be {rule}, but got {shown(space)}{_way_to_space(space)}")
    if is_grid(space):
        raise ValueError(
            f"{name} must be a dict of parameters by name, but got the grid {shown(space)}; "
            "give the grid a name: {'x': grid_search([...])}"
        )
    return own_space(space)


def _way_to_space(value: Any) -> str:
    """A hint how to write a space as a dict; may be empty."""
    if isinstance(value, Domain):
        return "; give the parameter a name: {'x': uniform(0, 1)}"
    if hasattr(value, "to_dict"):
        return "; give what its to_dict() returns"
    if isinstance(value, (list, tuple)):
        return "; give the parameter a name: {'x': choice([...])}, or {'x': grid_search([...])}"
    if type(value).__module__.startswith("hyperopt."):
        return "; a space of HyperOpt as a whole goes to HyperOptSearch(space=...)"
    if callable(value):
        return "; a function that uses a trial of Optuna goes to OptunaSearch(space=...)"
    return ""


def _limited_samples(num_samples: int) -> int:
    """`num_samples`, but at most the number that a variable sets."""
    if not setting("MAX_SAMPLES"):
        return num_samples
    limit = number_setting("MAX_SAMPLES")
    require(limit.is_integer() and limit >= 1, f"{variable_of('MAX_SAMPLES')}: an int >= 1", setting("MAX_SAMPLES"))
    if num_samples == -1:  # no limit of its own
        return int(limit)
    return min(num_samples, int(limit))


def _limited_budget_s(budget_s: float | None) -> float | None:
    """`budget_s` (None: no limit), but at most the time until the end that a variable sets."""
    if not setting("END_AT"):
        return budget_s
    left_s = max(0.0, number_setting("END_AT") - time.time())
    if budget_s is None:
        return left_s
    return min(budget_s, left_s)
