"""The actor of one trial: answers the driver's calls on the control thread, and runs user code on the user's thread."""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

from minitune.base.shared_values import Shared
from minitune.checkpoint import (
    Checkpoint,
    CheckpointRecord,
    commit_prepared,
    prepared,
    require_directory,
)
from minitune.experiment.trial import TrialInfo
from minitune.registry import register_env
from minitune.resources import Allocation
from minitune.result import CONFIG, DONE, TRAINING_ITERATION, Report
from minitune.trainable.function_runner import FunctionRunner, UserFunction, is_clean_end, modern
from minitune.trainable.session import LOG_SYS_USAGE, AutoFields, Session, check_metrics
from minitune.trainable.trainable import Trainable, building_for
from minitune.trainable.util import as_function, is_function_trainable

logger = logging.getLogger("minitune")

_T = TypeVar("_T")


def make_trial_actor(
    trainable: Shared,
    info: TrialInfo,
    user_thread: Executor,
    allocation: Allocation,
    *,
    env_creators: Mapping[str, Shared] | None = None,
    directory: str | None = None,
) -> FunctionActor | ClassActor:
    """Make the actor of a trial. Runs on the user's thread, because it loads the trainable and sets a class up.

    `functools.partial(make_trial_actor, handle, info)` is a factory for an executor.

    Args:
        trainable: Handle of a function or a Trainable subclass.
        info: The trial.
        user_thread: An executor with one thread, for all user code.
        allocation: The trial's resources.
        env_creators: Handles of environment creators by the names under which the trial may ask for them.
        directory: The trial's directory on a machine that does not see `info.directory`.

    Raises:
        BaseException: Any error of loading the trainable, or of the `setup` of a class.
    """
    for name, creator in (env_creators or {}).items():
        register_env(name, creator.get())
    if directory is not None:
        info = info._replace(directory=directory)
    loaded = trainable.get()
    if is_function_trainable(loaded):
        return FunctionActor(as_function(loaded), info, user_thread, allocation)
    return ClassActor(loaded, info, user_thread, allocation)


class FunctionActor:
    """The actor of a function. No method blocks.

    Args:
        function: The user's function.
        info: The trial.
        user_thread: An executor with one thread, on which the function runs.
        allocation: The trial's resources.

    Attributes:
        resets_at_once: `reset` runs no user code, and succeeds once the function has ended.
    """

    resets_at_once = True

    def __init__(self, function: UserFunction, info: TrialInfo, user_thread: Executor, allocation: Allocation):
        self._function = modern(function)
        self._user_thread = user_thread
        self._prepare(info, allocation)

    def _prepare(self, info: TrialInfo, allocation: Allocation) -> None:
        fields = AutoFields(info.trial_id, bool(info.config.get(LOG_SYS_USAGE)))
        self._session = Session(info, allocation, fields)
        self._runner = FunctionRunner(self._function, info.config, self._session, self._user_thread)

    def train(self) -> Any:
        """Ask for the next report; the first call starts the function. See `FunctionRunner.pull`."""
        return self._runner.pull()

    def save(self) -> CheckpointRecord | None:
        """Return the last checkpoint that the function reported in this attempt, or None."""
        return self._session.last_record

    def restore(self, path: str, metrics: Mapping[str, Any]) -> None:
        """Make the function start from a committed checkpoint.

        Args:
            path: Its directory.
            metrics: The result that it belongs to: iteration, time and totals continue from there.

        Raises:
            RuntimeError: If the function has been started.
            FileNotFoundError: If there is no such directory.
        """
        if self._runner.is_started:
            raise RuntimeError("a function can only be restored before its first train()")
        require_directory(path)
        self._session.fields.restore(metrics)
        self._session.checkpoint = Checkpoint(path)

    def reset(self, fields: tuple[Any, ...], allocation: Allocation | None, directory: str | None = None) -> bool:
        """Become the actor of another trial of the same function.

        Args:
            fields: The other trial's `TrialInfo.for_reset`.
            allocation: Its resources; None if they are those of the trial before.
            directory: See `make_trial_actor`.

        Returns:
            True if the previous function has ended; otherwise this actor cannot be used again.
        """
        if not self._runner.has_ended:
            return False
        info = self._session.info.reset(fields)
        if directory is not None:
            info = info._replace(directory=directory)
        self._prepare(info, allocation or self._session.allocation)
        return True

    def stop(self) -> Any:
        """Stop the function: its current or next `report()` raises `TrialStopped`. See `FunctionRunner.stop`."""
        return self._runner.stop()


class ClassActor:
    """The actor of a Trainable subclass. Making one sets the class up, on the calling thread; no method blocks.

    Args:
        kind: The user's class.
        info: The trial.
        user_thread: An executor with one thread, on which all methods of the class run.
        allocation: The trial's resources.
    """

    def __init__(self, kind: type[Trainable], info: TrialInfo, user_thread: Executor, allocation: Allocation):
        self._user_thread = user_thread
        self._can_save = kind.save_checkpoint is not Trainable.save_checkpoint
        self._enter(info, allocation)
        with self._session.bound(), building_for(info):
            self._session.seed_generators(iteration=0)
            self._trainable: Trainable = kind(config=info.config, **_storage_argument(kind))
        if not hasattr(self._trainable, "trial_resources"):
            raise TypeError(
                f"__init__() of {kind.__name__} must call super().__init__(config), but it does not; call it, or "
                "define setup(self, config) instead"
            )

    def _enter(self, info: TrialInfo, allocation: Allocation) -> None:
        # a class counts its iterations itself; only functions use the fields of the session
        self._session = Session(info, allocation, AutoFields(info.trial_id))

    def train(self) -> Future[Report]:
        """Run one step."""
        return self._on_user_thread(self._train)

    def save(self) -> Future[CheckpointRecord] | None:
        """Write and commit a checkpoint; None if the class does not define `save_checkpoint`."""
        return self._on_user_thread(self._save) if self._can_save else None

    def restore(self, path: str, metrics: Mapping[str, Any]) -> Future[None]:
        """Load a committed checkpoint.

        Args:
            path: Its directory.
            metrics: The result that it belongs to: iteration, time and totals continue from there.
        """
        return self._on_user_thread(lambda: self._restore(path, metrics))

    def reset(
        self, fields: tuple[Any, ...], allocation: Allocation | None, directory: str | None = None
    ) -> Future[bool]:
        """Become the actor of another trial of the same class, through its `reset_config`.

        Args:
            fields: The other trial's `TrialInfo.for_reset`.
            allocation: Its resources; None if they are those of the trial before.
            directory: See `make_trial_actor`.

        Returns:
            Whether the class allows it.
        """
        info = self._session.info.reset(fields)
        if directory is not None:
            info = info._replace(directory=directory)
        self._enter(info, allocation or self._session.allocation)
        return self._on_user_thread(lambda: self._reset(info))

    def park(self) -> Future[None]:
        """Wait for the running step. The object stays unchanged for `reset`; `stop` cleans it up later."""
        return self._on_user_thread(lambda: None)

    def stop(self) -> Future[None]:
        """Clean up after the running step. An exception of `cleanup` is logged; the trial keeps its status."""
        return self._on_user_thread(self._stop)

    # -- on the user's thread --------------------------------------------------------------------------------------

    def _on_user_thread(self, work: Callable[[], _T]) -> Future[_T]:
        session = self._session

        def run() -> _T:
            with session.bound():
                return work()

        return self._user_thread.submit(run)

    def _train(self) -> Report:
        try:
            result = dict(self._trainable.train())
        except BaseException as error:
            if is_clean_end(error):
                return Report(metrics=None, done=True)
            raise
        result.pop(CONFIG, None)  # `train` is for users, too; the driver knows the configuration
        check_metrics(result)
        return Report(result, None, bool(result.get(DONE)))

    def _save(self) -> CheckpointRecord:
        info, number = self._session.info, self._session.take_checkpoint_number()
        with prepared(info.directory, number, info.attempt) as directory:
            self._trainable.save_into(directory)
            record = commit_prepared(directory, info.directory, number)
        self._session.last_record = record
        self._session.checkpoint = Checkpoint(os.path.join(info.directory, record.directory))
        return record

    def _reset(self, info: TrialInfo) -> bool:
        self._session.seed_generators(iteration=0)
        return self._trainable.reset_for(info)

    def _restore(self, path: str, metrics: Mapping[str, Any]) -> None:
        self._session.seed_generators(metrics.get(TRAINING_ITERATION, 0))
        self._trainable.restore_from(path, metrics)
        self._session.checkpoint = Checkpoint(path)

    def _stop(self) -> None:
        try:
            self._trainable.stop()
        except BaseException as error:
            if not is_clean_end(error):
                logger.warning("cleanup() raised an exception; the trial keeps its status", exc_info=error)


def _storage_argument(kind: type[Trainable]) -> dict[str, None]:
    """Return the argument `storage` if a user's constructor requires it, as Ray Tune passes it."""
    if kind.__init__ is Trainable.__init__:  # the usual case; reading the signature takes a millisecond
        return {}
    parameter = inspect.signature(kind).parameters.get("storage")
    return {"storage": None} if parameter is not None and parameter.default is parameter.empty else {}
