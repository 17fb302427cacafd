"""The smallest driver there can be: one actor, its user thread, and bounds on every wait."""

from __future__ import annotations

import functools
import os
import pickle
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from minitune.experiment.trial_info import TrialInfo
from minitune.resources import Allocation, Resources
from minitune.result import Report
from minitune.shared import SharedObject
from minitune.trainable.trial_actor import make_trial_actor

BOUND_S = 10.0 * float(os.environ.get("MINITUNE_TEST_TIMEFACTOR", "1"))


def settle(value: Any) -> Any:
    """The value, or what its Future comes to within the bound."""
    return value.result(BOUND_S) if isinstance(value, Future) else value


class FakeDriver:
    """Starts actors on one user thread each and calls them as the driver does."""

    def __init__(self, directory: Path):
        self.directory = directory
        self._threads: list[ThreadPoolExecutor] = []
        self._actors: list[Any] = []

    def info(self, name: str = "t_00000", **changes: Any) -> TrialInfo:
        directory = self.directory / name
        directory.mkdir(exist_ok=True)
        fields: dict[str, Any] = {
            "trial_id": name,
            "name": f"fn_{name}",
            "directory": str(directory),
            "experiment_name": "exp",
            "resources": Resources([{"CPU": 2}]),
            "seed": 17,
        }
        return TrialInfo(**{**fields, **changes})

    def start(
        self,
        trainable: Any,
        config: Mapping[str, Any] | None = None,
        allocation: Allocation | None = None,
        **changes: Any,
    ) -> Any:
        thread = ThreadPoolExecutor(1)
        self._threads.append(thread)
        info = self.info(config=dict(config or {}), **changes)
        factory = functools.partial(make_trial_actor, SharedObject(trainable), info)
        future = thread.submit(lambda: factory(thread, allocation=allocation or Allocation()))
        actor = future.result(BOUND_S)
        self._actors.append(actor)
        return actor

    def close(self) -> None:
        for actor in self._actors:
            settle(actor.stop())
        for thread in self._threads:
            thread.shutdown(wait=True)


def pull(actor: Any) -> Report:
    """One answered `train()`; it must survive the way through a pipe."""
    report: Report = settle(actor.train())
    return pickle.loads(pickle.dumps(report))


def reports_of(actor: Any) -> list[Report]:
    """All reports up to the one that says that the trial is done."""
    reports = [pull(actor)]
    while not reports[-1].done:
        reports.append(pull(actor))
    return reports


def values_of(actor: Any, key: str) -> list[Any]:
    """What was reported under `key`, in order."""
    return [report.metrics[key] for report in reports_of(actor) if report.metrics is not None]


StartTrial = Callable[..., Any]
