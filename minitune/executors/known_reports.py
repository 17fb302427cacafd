"""KnownReports: an executor around another one, for actors whose only report is known before they start.

Such an actor has no process and holds no resources. For the caller it starts at once, answers `train` with its report,
and exits when it is stopped.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Any

from minitune.executors.admission import ExecutorAround
from minitune.executors.trial_executor import TRAIN, ActorSpec, CallReturned, Event, Exited, Started, TrialExecutor
from minitune.resources import Allocation, Resources
from minitune.result import Report

_AT_ONCE = 50
"""The most such actors at a time, so that a turn of the driver stays short: not measured."""


class KnownReports(ExecutorAround):
    """Answers for actors whose report is known, and lets another executor run all others."""

    def __init__(self, executor: TrialExecutor, find: Callable[[ActorSpec], Report | None], *, is_ordered: bool):
        super().__init__(executor)
        self._find = find
        self._is_ordered = is_ordered
        self._host = socket.gethostname()
        self._reports: dict[str, Report] = {}  # of the actors that are here
        self._answers: dict[str, CallReturned] = {}  # those that the caller has not taken yet, by actor

    def can_start(self, request: Resources, waiter: str | None = None) -> bool:
        """See `TrialExecutor.can_start`."""
        has_room = self._executor.can_start(request, waiter)  # in any case: it refuses what can never start
        return has_room and len(self._reports) < _AT_ONCE

    def start(self, spec: ActorSpec) -> Started | None:
        """See `TrialExecutor.start`."""
        report = self._find(spec)
        if report is None:
            return self._executor.start(spec)
        actor_id = spec.actor_id
        self._executor.forget(actor_id.rpartition("#")[0])  # it may have waited for resources
        self._reports[actor_id] = report
        return Started(actor_id, os.getpid(), self._host, Allocation())

    def call(self, actor_id: str, method: str, *args: Any) -> None:
        """See `TrialExecutor.call`."""
        report = self._reports.get(actor_id)
        if report is None:
            self._executor.call(actor_id, method, *args)
        elif method == TRAIN:
            self._answers[actor_id] = CallReturned(actor_id, report)
        else:  # it loads a checkpoint, which changes nothing
            self._answers[actor_id] = CallReturned(actor_id, None)

    def stop(self, actor_id: str, grace_s: float, keep: bool = False, dump: bool = False) -> Exited | None:
        """See `TrialExecutor.stop`."""
        if self._reports.pop(actor_id, None) is None:
            return self._executor.stop(actor_id, grace_s, keep, dump)
        self._answers.pop(actor_id, None)
        return Exited(actor_id, "stopped", "stopped", exit_code=0)

    def wait(self, timeout_s: float | None) -> list[Event]:
        """See `TrialExecutor.wait`."""
        if not self._answers:
            return self._executor.wait(timeout_s)
        events: list[Event] = list(self._answers.values())
        self._answers.clear()
        if not self._is_ordered:  # what has come from the others does not wait until no known actor is left
            events += self._executor.wait(0)
        return events

    def shutdown(self, grace_s: float = 0.0) -> None:
        """See `TrialExecutor.shutdown`."""
        self._reports.clear()
        self._answers.clear()
        self._executor.shutdown(grace_s)
