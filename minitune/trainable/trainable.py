"""Trainable: the base class of class trainables.

In a trial, the driver keeps iteration and totals; without one, `save` returns them with the checkpoint.
"""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from minitune.base import files
from minitune.base.checks import shown
from minitune.base.text import warn_once
from minitune.checkpoint import Checkpoint, directory_name, read_dict, require_directory, write_dict
from minitune.experiment.trial_info import TrialInfo
from minitune.resources import Resources
from minitune.trainable.auto_fields import AutoFields

# If `save_checkpoint` has returned the path of a file in the checkpoint, this file has its name.
_RETURNED_FILE = ".returned_path"
# Name and id of a trainable outside of trials.
_OUTSIDE = "default"


@dataclass(frozen=True)
class TrainingResult:
    """The result of `Trainable.save`: a checkpoint and the result that it belongs to."""

    checkpoint: Checkpoint
    metrics: dict[str, Any] = field(default_factory=dict)


class Trainable:
    """Base class of class trainables.

    A subclass defines `setup` and `step`, and may define `save_checkpoint`, `load_checkpoint`, `reset_config` and
    `cleanup`.

    Args:
        config: The configuration; `setup` gets a deep copy of it.
        storage: For Ray Tune's signature; must be None.

    Examples:
        >>> class Doubling(Trainable):
        ...     def setup(self, config):
        ...         self.x = config["start"]
        ...     def step(self):
        ...         self.x *= 2
        ...         return {"x": self.x}
        >>> trainable = Doubling(config={"start": 1})
        >>> trainable.train()["x"], trainable.train()["training_iteration"]
        (2, 2)
    """

    def __init__(self, config: dict[str, Any] | None = None, storage: None = None):
        if storage is not None:
            raise ValueError(f"storage must be None: directories are on the local file system, but got {storage!r}")
        if config is not None and not isinstance(config, Mapping):
            raise TypeError(f"config must be None or a dict, but got {shown(config)}")
        # Before `setup`, which may make other trainables.
        self._tune_info = _take_info()
        self.config: dict[str, Any] = config or {}
        self._tune_last_result: dict[str, Any] = {}
        self._tune_own_directory: str | None = None
        self._tune_fields = self._tune_new_fields()
        # Users may change the copy. The original goes into each result.
        self.setup(copy.deepcopy(self.config))

    def _tune_new_fields(self) -> AutoFields:
        return AutoFields(self.trial_id, self.config)

    # -- overridden by users ---------------------------------------------------------------------------------------

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if hasattr(cls, "_train"):
            from minitune.trainable.old_forms import use_old_methods

            use_old_methods(cls, Trainable)

    def setup(self, config: dict[str, Any]) -> None:
        """Prepare the object. Called once per object, with a deep copy of the configuration. Values of
        `with_parameters` are keyword arguments.
        """

    def step(self) -> dict[str, Any]:
        """Do one iteration.

        Returns:
            The metrics. `done: True` ends the trial. `should_checkpoint: True` makes the driver save it.
        """
        raise NotImplementedError(f"{type(self).__name__} must define step(), which returns a dict of metrics")

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any] | str | None:
        """Save the state of the object.

        Args:
            checkpoint_dir: An empty directory for files.

        Returns:
            None or `checkpoint_dir` if the state is in files there, or a dict, which is pickled. As in Ray 1, it may be
            the path of one file there, for `load_checkpoint`.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define save_checkpoint(), so it cannot be saved")

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Load the state: the dict or the path of a file if `save_checkpoint` returned one, else the directory."""
        raise NotImplementedError(f"{type(self).__name__} does not define load_checkpoint(), so it cannot be restored")

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Prepare this object for another trial, with its configuration. Returns False if that trial needs a new
        object.
        """
        return False

    def cleanup(self) -> None:
        """Free the resources of `setup`. Called once, at the end."""

    def log_result(self, result: dict[str, Any]) -> None:
        """A hook that is called in the worker with each result of `train()`."""

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> Resources | Mapping[str, Any] | None:
        """The resources that a trial with this configuration needs; None for the setting of the run."""
        return None

    # -- called by users and the driver ----------------------------------------------------------------------------

    def train(self) -> dict[str, Any]:
        """Do one step and complete its result: the metrics, then the automatic keys. Blocks.

        Raises:
            TypeError: If `step` did not return a dict.
        """
        # The time between two steps belongs to the driver, not to the iteration.
        self._tune_fields.begin()
        metrics = self.step()
        if not isinstance(metrics, dict):
            raise TypeError(
                f"step() of {type(self).__name__} must return a dict of metrics, but returned "
                f"{type(metrics).__name__}: {metrics!r:.200}"
            )
        result = self._tune_fields.fill(metrics)
        self._tune_last_result = result
        self.log_result(result)
        return result

    def save(self, checkpoint_dir: str | None = None) -> TrainingResult:
        """Save the state to disk. Blocks while it writes. By default in a directory of `logdir`, named after the
        iteration.

        Returns:
            The checkpoint with its result, for `restore`.

        Raises:
            NotImplementedError: If the class does not define `save_checkpoint`.
            ValueError: If `save_checkpoint` returned a path outside of it, or of a missing file.
        """
        import tempfile

        prefix = directory_name(self.iteration) + "_"
        directory = checkpoint_dir or tempfile.mkdtemp(prefix=prefix, dir=self.logdir)
        os.makedirs(directory, exist_ok=True)
        self.save_into(directory)
        return TrainingResult(Checkpoint(directory), dict(self._tune_last_result))

    def save_into(self, directory: str) -> None:
        """Save the state to an existing directory, without iteration and totals. Blocks while it writes.

        Raises:
            ValueError: As by `save`.
        """
        returned = self.save_checkpoint(directory)
        if isinstance(returned, dict):
            write_dict(directory, returned)
            return
        rule = f"save_checkpoint() must return None, a dict, or the directory that it was given ({directory!r})"
        if isinstance(returned, str) and not _is_same_path(returned, directory):
            name = os.path.relpath(returned, directory)
            # A file elsewhere would not be in the checkpoint, and a resume would not find it.
            if name.split(os.sep)[0] == os.pardir or not os.path.exists(returned):
                raise ValueError(f"{rule}, but returned {returned!r:.200}")
            files.atomic_write(os.path.join(directory, _RETURNED_FILE), name.encode())
        if returned is not None and not isinstance(returned, (str, os.PathLike)):
            warn_once(f"{rule}; the rest of the returned value ({returned!r:.200}) is ignored", "save_checkpoint")

    def restore(self, checkpoint_path: Any) -> None:
        """Load the state from disk. Blocks while it reads.

        Iteration, time and totals continue from the checkpoint's result, if it is known. The `..._since_restore` keys
        start at 0.

        Raises:
            FileNotFoundError: If there is no such directory.
        """
        self.restore_from(*path_and_metrics(checkpoint_path))

    def restore_from(self, path: str, metrics: Mapping[str, Any]) -> None:
        """Load the state from directory `path`, and continue from the result `metrics`. Blocks while it reads.

        Raises:
            FileNotFoundError: If there is no such directory.
        """
        require_directory(path)
        state: Any = read_dict(path)
        if state is None:
            state = path
            with suppress(FileNotFoundError), open(os.path.join(path, _RETURNED_FILE), "rb") as file:
                state = os.path.join(path, file.read().decode())
        self.load_checkpoint(state)
        self._tune_last_result = dict(metrics)
        self._tune_fields.restore(metrics)

    def reset(self, new_config: dict[str, Any]) -> bool:
        """Prepare this object for another trial, and return whether `reset_config` allows it. `config` is set in any
        case; the counters start at 0.
        """
        self.config = new_config
        # If it refuses, a new object is made, so the counters do not matter.
        if not self.reset_config(copy.deepcopy(new_config)):
            return False
        self._tune_last_result = {}
        self._tune_fields = self._tune_new_fields()
        return True

    def reset_for(self, info: TrialInfo) -> bool:
        """Like `reset`, for trial `info`. It has the new name and directory before `reset_config` is called."""
        self._tune_info = info
        return self.reset(info.config)

    def stop(self) -> None:
        """Release the object's resources: calls `cleanup`."""
        self.cleanup()

    # -- read by users ---------------------------------------------------------------------------------------------

    @property
    def iteration(self) -> int:
        """The number of completed steps, including those before a restore."""
        return self._tune_fields.iteration

    @property
    def _iteration(self) -> int:
        # Ray Tune's attribute of this name: subclasses read it, and some set it.
        return self._tune_fields.iteration

    @_iteration.setter
    def _iteration(self, iteration: int) -> None:
        self._tune_fields.iteration = iteration

    @property
    def training_iteration(self) -> int:
        """Same as `iteration`."""
        return self._tune_fields.iteration

    @property
    def trial_id(self) -> str:
        """The trial's id; `"default"` outside of trials."""
        if self._tune_info is None:
            return _OUTSIDE
        return self._tune_info.trial_id

    @property
    def trial_name(self) -> str:
        """The trial's name; `"default"` outside of trials."""
        if self._tune_info is None:
            return _OUTSIDE
        return self._tune_info.name

    @property
    def trial_resources(self) -> Resources | None:
        """The resources that the trial requested; None outside of trials."""
        if self._tune_info is None:
            return None
        return self._tune_info.resources

    @property
    def logdir(self) -> str:
        """The trial's directory. Outside of trials a new one, made at the first access."""
        if self._tune_info is not None:  # its directory exists; if it was removed, a new one would hide this
            return self._tune_info.directory
        if self._tune_own_directory is None:
            from minitune.config import default_storage_path

            name = f"{type(self).__name__}_{os.urandom(4).hex()}"
            self._tune_own_directory = os.path.join(os.path.abspath(default_storage_path()), name)
        os.makedirs(self._tune_own_directory, exist_ok=True)
        return self._tune_own_directory

    @property
    def _logdir(self) -> str:
        # Ray Tune's attribute of this name.
        return self.logdir

    def get_config(self) -> dict[str, Any]:
        """The configuration."""
        return self.config


# -- construction for a trial ------------------------------------------------------------------------------------------
class _Building(threading.local):
    info: TrialInfo | None = None


_building = _Building()


@contextmanager
def building_for(info: TrialInfo) -> Iterator[None]:
    """Make the first Trainable that this thread creates in the `with` block belong to trial `info`.

    Its `setup` may create others, which belong to no trial.
    """
    _building.info = info
    try:
        yield
    finally:
        _building.info = None


def _take_info() -> TrialInfo | None:
    info = _building.info
    _building.info = None
    return info


# -- checkpoints -------------------------------------------------------------------------------------------------------
def path_and_metrics(checkpoint: Any) -> tuple[str, dict[str, Any]]:
    """The directory of a checkpoint, and its result if that is known.

    Raises:
        TypeError: If it has another type.
    """
    metrics: dict[str, Any] = {}
    if isinstance(checkpoint, TrainingResult):
        metrics = checkpoint.metrics
        checkpoint = checkpoint.checkpoint
    if isinstance(checkpoint, Checkpoint):
        path = checkpoint.path
    elif isinstance(checkpoint, (str, os.PathLike)):
        path = os.path.abspath(os.fspath(checkpoint))
    else:
        raise TypeError(
            f"a checkpoint must be the result of save(), a Checkpoint or a path, but got {type(checkpoint).__name__}"
        )
    return path, metrics


def _is_same_path(returned: Any, directory: str) -> bool:
    try:
        return bool(os.path.realpath(returned) == os.path.realpath(directory))
    except TypeError:
        return False
