"""The actor of one trial: a function or a class of the user, as an object that the driver calls."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

from minitune.base.shared_values import Handle
from minitune.checkpoint import (
    Checkpoint,
    CheckpointRecord,
    commit_prepared,
    prepared,
    require_directory,
)
from minitune.experiment.trial_info import TrialInfo
from minitune.resources import Allocation, Resources
from minitune.result import CONFIG, DONE, TRAINING_ITERATION, Report
from minitune.trainable.auto_fields import AutoFields
from minitune.trainable.function_runner import FunctionRunner, Host, UserFunction, is_clean_end, modern
from minitune.trainable.metric_checks import checked_metrics
from minitune.trainable.session import Session
from minitune.trainable.trainable import Trainable, building_for

logger = logging.getLogger("minitune")


def make_trial_actor(
    trainable: Handle,
    resources: Resources,
    host: Host,
    fields: tuple[Any, ...],
    allocation: Allocation,
) -> FunctionActor | ClassActor:
    """Make the actor of a trial. Runs user code: it loads the trainable and sets a class up.

    `functools.partial(make_trial_actor, trainable, resources)` is a factory for an executor, the same for many trials.
    """
    info = _info_of(fields, resources)
    loaded = trainable.get()
    if isinstance(loaded, type):
        return ClassActor(loaded, info, allocation)
    return FunctionActor(loaded, info, host, allocation)


class FunctionActor:
    """The actor of a function.

    Attributes:
        resets_at_once: `reset` runs no user code, and succeeds.
    """

    resets_at_once = True

    def __init__(self, function: UserFunction, info: TrialInfo, host: Host, allocation: Allocation):
        self._function = modern(function)
        self._host = host
        self._prepare(info, allocation)

    def _prepare(self, info: TrialInfo, allocation: Allocation) -> None:
        # config is None: the driver knows it, so no report has to carry it
        self._session = Session(info, allocation, AutoFields(info.trial_id, None))
        self._host.at_stop = self._session.tell_stop
        self._runner = FunctionRunner(self._function, info.config, self._session, self._host)

    def train(self) -> tuple[Any, ...]:
        """Run the function, and return the fields of a `Report` as a plain tuple, for C code."""
        return tuple(self._runner.run())

    def save(self) -> CheckpointRecord | None:
        """Return the last checkpoint that the function reported in this attempt, or None."""
        return self._session.last_record

    def restore(self, path: str, metrics: Mapping[str, Any]) -> None:
        """Make the function start from a committed checkpoint; the counts continue from `metrics`.

        Raises:
            RuntimeError: If the function has been started.
            FileNotFoundError: If there is no such directory.
        """
        # The function asks for its checkpoint when it begins.
        if self._runner.has_begun:
            raise RuntimeError("a function can only be restored before its first train()")
        require_directory(path)
        self._session.fields.restore(metrics)
        self._session.checkpoint = Checkpoint(path)

    def reset(self, fields: tuple[Any, ...], allocation: Allocation | None) -> bool:
        """Become the actor of another trial of the same function. True: the last one has ended."""
        self._prepare(_info_of(fields, self._session.info.resources), allocation or self._session.allocation)
        return True


class ClassActor:
    """The actor of a Trainable subclass, which is set up."""

    def __init__(self, kind: type[Trainable], info: TrialInfo, allocation: Allocation):
        self._can_save = kind.save_checkpoint is not Trainable.save_checkpoint
        self._enter(info, allocation)
        with self._session.bound(), building_for(info):
            self._session.seed_generators(iteration=0)
            self._trainable: Trainable = kind(config=info.config)
        if not hasattr(self._trainable, "trial_resources"):
            raise TypeError(
                f"__init__() of {kind.__name__} must call super().__init__(config), but it does not; call it, or "
                "define setup(self, config) instead"
            )

    def _enter(self, info: TrialInfo, allocation: Allocation) -> None:
        # a class counts its iterations itself; only functions use the fields of the session
        self._session = Session(info, allocation, AutoFields(info.trial_id, None))

    def train(self) -> tuple[Any, ...]:
        """Run one step, as `FunctionActor.train`."""
        with self._session.bound():
            try:
                result = dict(self._trainable.train())
            except BaseException as error:
                if is_clean_end(error):
                    return tuple(Report(metrics=None, done=True))
                raise
            result.pop(CONFIG, None)  # the driver knows it, so no report has to carry it
            result = checked_metrics(result)
            return tuple(Report(result, None, bool(result.get(DONE))))

    def save(self) -> CheckpointRecord | None:
        """Write and commit a checkpoint; None if the class does not define `save_checkpoint`."""
        if not self._can_save:
            return None
        info = self._session.info
        number = self._session.take_checkpoint_number()
        with self._session.bound(), prepared(info.directory, number, info.attempt) as directory:
            self._trainable.save_into(directory)
            record = commit_prepared(directory, info.directory, number)
        self._session.checkpoint = Checkpoint(os.path.join(info.directory, record.directory))
        return record

    def restore(self, path: str, metrics: Mapping[str, Any]) -> None:
        """Load a committed checkpoint; the counts continue from `metrics`."""
        with self._session.bound():
            # Other numbers than at the start: the object would otherwise repeat the draws of its first steps.
            self._session.seed_generators(metrics.get(TRAINING_ITERATION, 0))
            self._trainable.restore_from(path, metrics)
            self._session.checkpoint = Checkpoint(path)

    def reset(self, fields: tuple[Any, ...], allocation: Allocation | None) -> bool:
        """Become the actor of another trial of the same class, if `reset_config` allows it."""
        info = _info_of(fields, self._session.info.resources)
        self._enter(info, allocation or self._session.allocation)
        with self._session.bound():
            self._session.seed_generators(iteration=0)
            return self._trainable.reset_for(info)

    def stop(self) -> None:
        """Clean up by `cleanup`. Its exception is logged."""
        with self._session.bound():
            try:
                self._trainable.stop()
            except BaseException as error:
                if not is_clean_end(error):
                    logger.warning("cleanup() raised an exception; the trial keeps its status", exc_info=error)


def _info_of(fields: tuple[Any, ...], resources: Resources) -> TrialInfo:
    return TrialInfo._make((*fields, resources))
