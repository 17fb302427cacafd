"""Trainable: the class form of a trainable. It also works alone, without a driver.

In a trial, the driver keeps iteration and totals. Without one, they are stored beside the checkpoint, so that its path
is enough to restore them. `refuse_async` and `way_out` serve function trainables, too: they name asynchronous code
where a plain function is needed, and show what to do.
"""

from __future__ import annotations

import copy
import functools
import inspect
import json
import logging
import os
import threading
from collections.abc import AsyncGenerator, Coroutine, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from minitune import clock
from minitune.base import files
from minitune.base.checks import shown
from minitune.base.files import absolute
from minitune.base.text import warn_once
from minitune.checkpoint import Checkpoint, Gone, directory_name, read_dict, require_directory, write_dict
from minitune.experiment.trial import TrialInfo
from minitune.resources import Resources
from minitune.result import EPISODES_TOTAL, TIME_TOTAL_S, TIMESTEPS_TOTAL, TRAINING_ITERATION
from minitune.trainable.session import LOG_SYS_USAGE, AutoFields

logger = logging.getLogger("minitune")

_RETURNED_FILE = ".returned_path"
"""Names the file in a checkpoint whose path `save_checkpoint` has returned."""
STATE_FILE = ".trainable_state.json"
"""The file with iteration and totals, beside a checkpoint that was saved without a driver."""
SLOW_SETUP_S = 10.0
"""A `setup` that takes longer is worth a warning."""
OUTSIDE = "default"
"""Name and id of a trainable that belongs to no trial."""


@dataclass(frozen=True)
class TrainingResult:
    """Returned by `Trainable.save`: a checkpoint and the result that it belongs to.

    Attributes:
        checkpoint: The directory.
        metrics: The last result before it was saved.
    """

    checkpoint: Checkpoint
    metrics: dict[str, Any] = field(default_factory=dict)


class Trainable:
    """Subclass it: `setup`, `step`, and where wanted `save_checkpoint`, `load_checkpoint`, `reset_config`, `cleanup`.

    Args:
        config: The configuration; `setup` gets a deep copy of it.
        storage: Accepted for Ray Tune's signature; only None is possible.

    Raises:
        ValueError: If `storage` is given.

    Example:
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
            raise ValueError(f"storage must be None: directories lie on the local file system, but got {storage!r}")
        if config is not None and not isinstance(config, Mapping):
            raise TypeError(f"config must be None or a dict, but got {shown(config)}")
        self._tune_info = _take_info()
        self.config: dict[str, Any] = config or {}
        self._tune_last_result: dict[str, Any] = {}
        self._tune_own_directory: str | None = None
        self._tune_fields = self._tune_new_fields()
        began_s = clock.current.monotonic()
        self.setup(copy.deepcopy(self.config))
        spent_s = clock.current.monotonic() - began_s
        if spent_s > SLOW_SETUP_S:
            logger.warning(
                "setup of %s took %.1f s; with reuse_actors=True and reset_config() it is done once per worker",
                type(self).__name__,
                spent_s,
            )

    def _tune_new_fields(self) -> AutoFields:
        return AutoFields(self.trial_id, self.config, bool(self.config.get(LOG_SYS_USAGE)))

    # -- what users override ---------------------------------------------------------------------------------------

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if hasattr(cls, "_train"):
            from minitune.legacy.trainables import use_old_methods

            use_old_methods(cls, Trainable)

    def setup(self, config: dict[str, Any]) -> None:
        """Prepare; called once per object.

        Args:
            config: A deep copy of the configuration; the values of `with_parameters` follow it as keywords.
        """

    def step(self) -> dict[str, Any]:
        """Do one iteration.

        Returns:
            The metrics. `done: True` ends the trial, `should_checkpoint: True` asks to be saved.
        """
        raise NotImplementedError(f"{type(self).__name__} must define step(), which returns a dict of metrics")

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any] | str | None:
        """Write the state.

        Args:
            checkpoint_dir: An empty directory to write to.

        Returns:
            None or `checkpoint_dir` after writing there, or a dict that is to be pickled. The path of one file in
            `checkpoint_dir`, as in Ray 1: `load_checkpoint` is given that file's path.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define save_checkpoint(), so it cannot be saved")

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Load the state.

        Args:
            checkpoint: The dict, if `save_checkpoint` returned one, else the directory.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define load_checkpoint(), so it cannot be restored")

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take another configuration without a new object.

        Args:
            new_config: The configuration of the next trial.

        Returns:
            True if this object can go on as the next trial's; False to have a new one made.
        """
        return False

    def cleanup(self) -> None:
        """Free what `setup` took; called once, at the end."""

    def log_result(self, result: dict[str, Any]) -> None:
        """Hook: called in the worker with each result of `train()`."""

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> Resources | Mapping[str, Any] | None:
        """The resources that a trial with this configuration needs; None leaves it to the run.

        Args:
            config: The trial's configuration.
        """
        return None

    # -- what is called --------------------------------------------------------------------------------------------

    def train(self) -> dict[str, Any]:
        """Do one step and complete its result. Blocks as long as the step does.

        Returns:
            The metrics followed by the automatic keys.

        Raises:
            TypeError: If `step` did not return a dict.
        """
        self._tune_fields.begin()
        metrics = self.step()
        if not isinstance(metrics, dict):
            raise TypeError(
                f"step() of {type(self).__name__} must return a dict of metrics, but returned "
                f"{type(metrics).__name__}: {metrics!r:.200}{way_out(metrics)}"
            )
        result = self._tune_fields.fill(metrics)
        self._tune_last_result = result
        self.log_result(result)
        return result

    def save(self, checkpoint_dir: str | None = None) -> TrainingResult:
        """Save the state to disk. Blocks while it writes.

        Args:
            checkpoint_dir: Where to; by default a new directory in `logdir`, named after the iteration.

        Returns:
            What `restore` takes.

        Raises:
            NotImplementedError: If the class does not define `save_checkpoint`.
            ValueError: If `save_checkpoint` returned something else than None, a dict or the directory.
        """
        import tempfile

        prefix = directory_name(self.iteration) + "_"
        directory = checkpoint_dir or tempfile.mkdtemp(prefix=prefix, dir=self.logdir)
        os.makedirs(directory, exist_ok=True)
        self.save_into(directory)
        write_state(directory, self._tune_fields)
        return TrainingResult(Checkpoint(directory), dict(self._tune_last_result))

    def save_into(self, directory: str) -> None:
        """Fill an existing directory with the state and nothing else.

        Raises:
            ValueError: If `save_checkpoint` returned something else than None, a dict or the directory.
        """
        returned = self.save_checkpoint(directory)
        if isinstance(returned, dict):
            write_dict(directory, returned)
            return
        rule = f"save_checkpoint() must return None, a dict, or the directory that it was given ({directory!r})"
        if isinstance(returned, str) and not _is_same_path(returned, directory):
            name = os.path.relpath(returned, directory)
            if name.split(os.sep)[0] == os.pardir or not os.path.exists(returned):
                raise ValueError(f"{rule}, but returned {returned!r:.200}")
            files.atomic_write(os.path.join(directory, _RETURNED_FILE), name.encode())
        if returned is not None and not isinstance(returned, (str, os.PathLike)):
            warn_once(f"{rule}; the rest of the returned value ({returned!r:.200}) is ignored", "save_checkpoint")

    def restore(self, checkpoint_path: Any) -> None:
        """Load the state from disk. Blocks while it reads.

        Iteration, time and totals come from the result that the checkpoint belongs to, where it is known; the
        `..._since_restore` keys start at 0.

        Args:
            checkpoint_path: What `save` returned, a Checkpoint, or a path.

        Raises:
            FileNotFoundError: If there is no such directory.
        """
        path = as_path(checkpoint_path)
        if isinstance(checkpoint_path, TrainingResult):
            self.restore_from(path, checkpoint_path.metrics or read_state(path))
        else:
            self.restore_from(path, read_state(path))

    def restore_from(self, path: str, metrics: Mapping[str, Any]) -> None:
        """Load the state from directory `path` and go on from the result `metrics`.

        Raises:
            FileNotFoundError: If there is no such directory.
        """
        require_directory(path)
        state: Any = read_dict(path)
        if state is None:
            state = path
            with suppress(FileNotFoundError), files.open_to_read(os.path.join(path, _RETURNED_FILE)) as file:
                state = os.path.join(path, file.read().decode())
        self.load_checkpoint(state)
        self._tune_last_result = dict(metrics)
        self._tune_fields.restore(metrics)

    def reset(self, new_config: dict[str, Any]) -> bool:
        """Become another trial's object, if `reset_config` allows it.

        Args:
            new_config: The other trial's configuration.

        Returns:
            Whether this object can be used on; its counters are at 0 then. `config` is the new one in either case.
        """
        self.config = new_config
        if not self.reset_config(copy.deepcopy(new_config)):
            return False
        self._tune_last_result = {}
        self._tune_fields = self._tune_new_fields()
        return True

    def reset_for(self, info: TrialInfo) -> bool:
        """Like `reset`, for trial `info`; the new name and directory are in force when `reset_config` is called."""
        self._tune_info = info
        return self.reset(info.config)

    def stop(self) -> None:
        """End this object's life: calls `cleanup`."""
        self.cleanup()

    export_model = Gone("write the model in save_checkpoint(), and read it from Result.checkpoint")
    train_buffered = Gone("call train() in a loop")
    resource_help = Gone("describe the resources in the docstring of the class")

    # -- what can be read ------------------------------------------------------------------------------------------

    @property
    def iteration(self) -> int:
        """Steps completed so far, those before a restore included."""
        return self._tune_fields.iteration

    @property
    def _iteration(self) -> int:
        # Ray Tune's own attribute: subclasses read it, and some set it.
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
        return OUTSIDE if self._tune_info is None else self._tune_info.trial_id

    @property
    def trial_name(self) -> str:
        """The trial's name; `"default"` outside of trials."""
        return OUTSIDE if self._tune_info is None else self._tune_info.name

    @property
    def trial_resources(self) -> Resources | None:
        """The resources that the trial asked for; None outside of trials."""
        return None if self._tune_info is None else self._tune_info.resources

    @property
    def logdir(self) -> str:
        """The trial's directory; outside of trials a new directory, made at the first access."""
        if self._tune_info is None:  # a trial's is there, or was removed: a new one would hide that
            os.makedirs(self._tune_directory, exist_ok=True)
        return self._tune_directory

    @property
    def _tune_directory(self) -> str:
        if self._tune_info is not None:
            return self._tune_info.directory
        if self._tune_own_directory is None:
            from minitune.config import default_storage_path

            name = f"{type(self).__name__}_{os.urandom(4).hex()}"
            self._tune_own_directory = os.path.join(os.path.abspath(default_storage_path()), name)
        return self._tune_own_directory

    def get_config(self) -> dict[str, Any]:
        """The configuration."""
        return self.config

    def get_state(self) -> dict[str, Any]:
        """Iteration, totals and the last result, as a dict."""
        fields = self._tune_fields
        return {
            "iteration": fields.iteration,
            "timesteps_total": fields.timesteps_total,
            "time_total": fields.time_total_s,
            "episodes_total": fields.episodes_total,
            "last_result": self._tune_last_result,
        }

    def get_auto_filled_metrics(
        self,
        now: datetime | None = None,
        time_this_iter: float | None = None,
        timestamp: int | None = None,
        debug_metrics_only: bool = False,
    ) -> dict[str, Any]:
        """The automatic keys as they stand.

        Args:
            now: The time to write; by default the current one.
            time_this_iter: Seconds of the current iteration, or None.
            timestamp: Seconds since the epoch; by default that of `now`.
            debug_metrics_only: Only the keys that are no measurements.
        """
        return self._tune_fields.snapshot(now, time_this_iter, timestamp, debug_metrics_only)


# -- construction for a trial ------------------------------------------------------------------------------------------
class _Building(threading.local):
    info: TrialInfo | None = None


_building = _Building()


@contextmanager
def building_for(info: TrialInfo) -> Iterator[None]:
    """The first Trainable made by this thread inside the `with` block belongs to trial `info`.

    Not an argument of the constructor: users override that with signatures of their own. Only the first one: a
    trainable may make others in its `setup`, which belong to no trial.
    """
    _building.info = info
    try:
        yield
    finally:
        _building.info = None


def _take_info() -> TrialInfo | None:
    info, _building.info = _building.info, None
    return info


# -- state beside a checkpoint -----------------------------------------------------------------------------------------
def as_path(checkpoint: Any) -> str:
    """Return the absolute directory of a result of `save`, of a Checkpoint, or of a path.

    Raises:
        TypeError: If it is none of these.
    """
    if isinstance(checkpoint, TrainingResult):
        checkpoint = checkpoint.checkpoint
    if isinstance(checkpoint, Checkpoint):
        return checkpoint.path
    if not isinstance(checkpoint, (str, os.PathLike)):
        raise TypeError(
            f"a checkpoint must be what save() returned, a Checkpoint or a path, but got {type(checkpoint).__name__}"
        )
    return absolute(os.fspath(checkpoint))


def write_state(directory: str, fields: AutoFields) -> None:
    """Put iteration and totals beside a checkpoint, so that its path alone is enough to restore them."""
    state = {
        TRAINING_ITERATION: fields.iteration,
        TIME_TOTAL_S: _plain(fields.time_total_s),
        TIMESTEPS_TOTAL: _plain(fields.timesteps_total),
        EPISODES_TOTAL: _plain(fields.episodes_total),
    }
    files.atomic_write(os.path.join(directory, STATE_FILE), json.dumps(state).encode())


def read_state(directory: str) -> dict[str, Any]:
    """Read what `write_state` wrote; `{}` if there is nothing."""
    try:
        with files.open_to_read(os.path.join(directory, STATE_FILE)) as file:
            state: dict[str, Any] = json.load(file)
    except FileNotFoundError:
        return {}
    return state


def _plain(number: Any) -> int | float | None:
    """`number` as JSON can hold it: a scalar of numpy becomes a plain one."""
    if number is None or isinstance(number, (int, float)):
        return number
    return int(number) if int(number) == number else float(number)


def _is_same_path(returned: Any, directory: str) -> bool:
    try:
        return bool(os.path.realpath(returned) == os.path.realpath(directory))
    except TypeError:
        return False


# -- asynchronous code -------------------------------------------------------------------------------------------------
def refuse_async(function: Any, name: str) -> None:
    """Refuse a function, or an object with a `__call__`, that is `async def`.

    Args:
        function: The function that would be called.
        name: Its name, for the message.

    Raises:
        TypeError: If it is asynchronous.
    """
    while isinstance(function, functools.partial):
        function = function.func
    ways = (function, type(function).__call__)
    if any(inspect.iscoroutinefunction(way) or inspect.isasyncgenfunction(way) for way in ways):
        raise TypeError(
            f"{name} is an async function, which a trial does not await: make it a plain function, and run the "
            "asynchronous part inside it with asyncio.run(...)"
        )


def way_out(value: Any) -> str:
    """The way out for a value in place of metrics that has not run yet, such as a coroutine; empty for another value.

    A coroutine is closed, so that Python does not warn as well that it was never awaited.
    """
    if isinstance(value, Coroutine):
        value.close()
        return "; it has not run: return asyncio.run(...) of it in a plain function"
    if isinstance(value, AsyncGenerator):
        return "; it has not run: consume it by an async function that reports, and call that with asyncio.run(...)"
    if isinstance(value, Generator):
        return "; return the metrics of one step, or yield those of all of them from a trainable function"
    return ""
