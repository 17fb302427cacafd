"""get_context(): information about the trial that the calling code runs in. Also Ray's `session` functions."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

from minitune.base.files import StorageContext as StorageContext
from minitune.base.text import warn_once
from minitune.resources import BundleAllocation, Resources
from minitune.trainable.session import Session, current_session, warn_outside
from minitune.trainable.session import get_checkpoint as get_checkpoint
from minitune.trainable.session import report as report

_Value = TypeVar("_Value")


class TuneContext:
    """Information about the trial of the calling code. Outside of trials, a getter warns once and returns None."""

    def get_trial_name(self) -> str | None:
        """The trial's name."""
        session = _session("get_trial_name")
        return None if session is None else session.info.name

    def get_trial_id(self) -> str | None:
        """The trial's id."""
        session = _session("get_trial_id")
        return None if session is None else session.info.trial_id

    def get_trial_resources(self) -> Resources | None:
        """The resources that the trial requested."""
        session = _session("get_trial_resources")
        return None if session is None else session.info.resources

    def get_trial_dir(self) -> str | None:
        """The trial's directory, absolute."""
        session = _session("get_trial_dir")
        return None if session is None else session.info.directory

    def get_experiment_name(self) -> str | None:
        """The run's name."""
        session = _session("get_experiment_name")
        return None if session is None else session.info.experiment_name

    def get_storage(self) -> StorageContext | None:
        """The directories of the run and of the trial."""
        session = _session("get_storage")
        if session is None:
            return None
        experiment, trial_name = os.path.split(session.info.directory)
        return StorageContext.of_run(experiment, trial_name)

    def get_bundles(self) -> tuple[BundleAllocation, ...] | None:
        """The allocation of each bundle of the trial's request: CPUs, GPU ids, and `env` for a child that uses it."""
        session = _session("get_bundles")
        return None if session is None else session.allocation.bundles

    def get_trial_seed(self) -> int | None:
        """The trial's own seed, from 0 to 2**32 - 1. It depends only on the run's seed and the trial's number: it is
        the same in each attempt and after a resume.

        It seeds the global generators of `random`, numpy and torch before the trial begins.
        """
        session = _session("get_trial_seed")
        return None if session is None else session.info.seed

    def get_attempt(self) -> int | None:
        """1 for the first attempt, 2 for the first retry."""
        session = _session("get_attempt")
        return None if session is None else session.info.attempt

    def on_stop(self, function: Callable[[], object]) -> None:
        """Call `function()` when the trial is told to stop, for code that waits for something else than `report`.

        Such code learns of a stop only after the grace period (`MINITUNE_FORCE_TRIAL_CLEANUP_S`). Outside of a trial
        this warns once and does nothing.

        Args:
            function: Is called on another thread, such as `process.terminate` of a child; it must not block. After a
                stop, it is called at once, and possibly twice.

        Raises:
            RuntimeError: In a class trainable, which has `cleanup`.
        """
        session = _session("on_stop")
        if session is not None:
            session.on_stop(function)

    def get_world_size(self) -> int:
        """The number of workers of the trial: 1."""
        return 1

    def get_world_rank(self) -> int:
        """The rank of this worker: 0."""
        return 0

    def get_local_world_size(self) -> int:
        """The number of the trial's workers on this machine: 1."""
        return 1

    def get_local_rank(self) -> int:
        """The rank of this worker on this machine: 0."""
        return 0

    def get_node_rank(self) -> int:
        """The rank of this machine: 0."""
        return 0


_CONTEXT = TuneContext()


def get_context() -> TuneContext:
    """The context of the calling trial. Also outside of trials; see `TuneContext`."""
    return _CONTEXT


def get_gpu_ids() -> list[Any]:
    """The ids of the calling trial's GPUs, as ints if they are numbers; `[]` outside of trials."""
    session = current_session()
    ids = () if session is None else session.allocation.gpu_ids
    return [int(gpu) if gpu.isdecimal() else gpu for gpu in ids]


def _old(getter: Callable[[TuneContext], _Value]) -> Callable[[], _Value]:
    """A getter of `TuneContext` as a function, as it was in earlier versions of Ray; it warns once."""
    name = getter.__name__

    def get() -> _Value:
        warn_once(f"{name}() is old: use get_context().{name}()")
        return getter(_CONTEXT)

    get.__name__ = name
    get.__qualname__ = name
    get.__doc__ = f"Old form of `get_context().{name}()`; warns once."
    return get


get_experiment_name = _old(TuneContext.get_experiment_name)
get_trial_name = _old(TuneContext.get_trial_name)
get_trial_id = _old(TuneContext.get_trial_id)
get_trial_resources = _old(TuneContext.get_trial_resources)
get_trial_dir = _old(TuneContext.get_trial_dir)
get_world_size = _old(TuneContext.get_world_size)
get_world_rank = _old(TuneContext.get_world_rank)
get_local_rank = _old(TuneContext.get_local_rank)


def _session(name: str) -> Session | None:
    session = current_session()
    if session is None:
        warn_outside(name)
    return session
