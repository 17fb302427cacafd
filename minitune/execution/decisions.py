"""What was decided about the trials of a run, and why: read from its journal, for people.

Nothing is kept for this while a run goes on. The journal has each decision with its reason and facts, each change of a
trial's status with its cause, and each exploit; what a scheduler does to a trial that waits (promote it, stop it) is
explained by how that trial stands at its rung by then.
"""

from __future__ import annotations

import math
import os
from bisect import bisect_right, insort
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from minitune._checks import is_real
from minitune._paths import local_path
from minitune.decision import CONTINUE, NOOP, PAUSE, STOP
from minitune.execution import journal, records
from minitune.execution.hooks import STOP_CRITERION
from minitune.execution.storage import RunDirectory
from minitune.experiment.lifecycle import ERROR, PAUSED, PENDING, RUNNING, TERMINATED
from minitune.result import TRAINING_ITERATION

EXPLOIT = "EXPLOIT"
"""The trial goes on from another one's checkpoint."""
EXPLORE = "EXPLORE"
"""The trial goes on from its own checkpoint under other hyperparameters."""
RESUME = "RESUME"
"""A paused trial goes on."""
PROMOTE = "PROMOTE"
"""A trial that has waited at a rung goes on."""
RETRY = "RETRY"
"""The trial has failed and is tried again."""
FAIL = "FAIL"
"""The trial has failed for good."""

_VERBS = {
    CONTINUE: "goes on",
    PAUSE: "paused",
    STOP: "stopped",
    EXPLOIT: "exploits another trial",
    EXPLORE: "explores",
    RESUME: "resumed",
    PROMOTE: "promoted",
    RETRY: "tried again",
    FAIL: "failed for good",
}


@dataclass(frozen=True)
class TrialDecision:
    """One thing that was decided about a trial. Its text is a sentence.

    Attributes:
        action: `CONTINUE` (only with a reason: it has passed a rung), `PAUSE`, `STOP`, `EXPLOIT`, `EXPLORE`,
            `RESUME`, `PROMOTE`, `RETRY` or `FAIL`.
        reason: Why, in words.
        facts: What the reason rests on, as plain data: as it applies `rule`, `metric`, `value`, `time`, `rung`,
            `bracket`, `band`, `cutoff`, `rank`, `of`, `donor`, `checkpoint`.
        iteration: The trial's last `training_iteration` by then; None if it had reported nothing.
    """

    action: str
    reason: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    iteration: int | None = None

    def __str__(self) -> str:
        when = "at the start" if self.iteration is None else f"after iteration {self.iteration}"
        verb, reason = _VERBS[self.action], self.reason
        if self.action == STOP and reason.startswith(f"{STOP_CRITERION}: "):
            return f"{when}: {verb} because {reason.removeprefix(f'{STOP_CRITERION}: ')}"
        if not reason:
            reason = ", ".join(f"{name}={value}" for name, value in self.facts.items())
        if reason.startswith(verb):
            return f"{when}: {reason}"
        return f"{when}: {verb}: {reason}" if reason else f"{when}: {verb}"


@dataclass
class _Told:
    """What is known of one trial on the way through the journal.

    Attributes:
        decisions: Those so far.
        iteration: Its last one.
        is_open: Whether the last decision is a STOP or PAUSE that its status has not confirmed yet.
        status: Its last one.
        waits_at: The rung where it waits, and its score there, if its pause has told.
    """

    decisions: list[TrialDecision] = field(default_factory=list)
    iteration: int | None = None
    is_open: bool = False
    status: str = PENDING
    waits_at: tuple[Any, float] | None = None

    def add(self, action: str, reason: str = "", facts: Mapping[str, Any] | None = None) -> None:
        """Take one decision."""
        self.decisions.append(TrialDecision(action, reason, facts or {}, self.iteration))


class Decisions:
    """The decisions of a run; `tell` takes its records in order.

    Attributes:
        by_trial: The decisions of each trial, by its id.
        by_directory: The same, by the name of its directory.
    """

    def __init__(self) -> None:
        self.by_trial: dict[str, list[TrialDecision]] = {}
        self.by_directory: dict[str, list[TrialDecision]] = {}
        self._told: dict[str, _Told] = {}
        self._sign = 0
        self._rungs: dict[Any, list[float]] = {}

    def tell(self, record: records.Record) -> None:
        """Take one record; those that decide nothing are passed over."""
        kind = record[records.KIND]
        if kind == records.RESULT:
            self._on_result(self._of(record), record)
        elif kind == records.STATUS:
            self._on_status(self._of(record), record["status"], record["cause"])
        elif kind == records.EXPLOIT:
            self._on_exploit(self._of(record), record)
        elif kind == records.START and record.get("directory"):
            self.by_directory[record["directory"]] = self._of(record).decisions
        elif kind == records.RUN:
            self._sign = {"max": 1, "min": -1}.get(record["mode"], 0)

    def _of(self, record: records.Record) -> _Told:
        trial_id = record["trial"]
        told = self._told.get(trial_id)
        if told is None:
            told = self._told[trial_id] = _Told()
            self.by_trial[trial_id] = told.decisions
        return told

    def _on_result(self, told: _Told, record: records.Record) -> None:
        told.iteration = record["metrics"].get(TRAINING_ITERATION, record["number"])
        action, reason, facts = record["decision"], record["reason"], record.get("facts")
        if (action == CONTINUE and not (reason or facts)) or action == NOOP:
            return
        told.add(action, reason, facts)
        told.is_open = action in (PAUSE, STOP)
        place = self._note_rung(facts) if facts and "rung" in facts else None
        told.waits_at = place if action == PAUSE else None

    def _note_rung(self, facts: Mapping[str, Any]) -> tuple[Any, float] | None:
        """Note a value at a rung; who waits there is ranked among all that have come to it."""
        if not self._sign:
            return None
        value: Any = facts.get("value")
        score = self._sign * value if is_real(value) and value == value else -math.inf
        rung = (f"{facts.get('band')} {facts.get('bracket')}", facts["rung"])
        insort(self._rungs.setdefault(rung, []), score)
        return rung, score

    def _standing(self, told: _Told) -> dict[str, Any]:
        """How a trial that waits stands at its rung by now: `rung`, `rank` and `of`; nothing if that is not known."""
        if told.waits_at is None:
            return {}
        (bracket, rung), score = told.waits_at
        scores = self._rungs[bracket, rung]
        return {"rung": rung, "rank": 1 + len(scores) - bisect_right(scores, score), "of": len(scores)}

    def _on_exploit(self, told: _Told, record: records.Record) -> None:
        facts = {"donor": record["donor"], "checkpoint": record["checkpoint"]}
        reason = f"goes on from checkpoint {record['checkpoint']} of trial {record['donor']}"
        reason = record.get("reason") or reason
        if told.is_open and told.decisions[-1].action == PAUSE:  # it was decided upon this very result
            last = told.decisions.pop()
            facts, reason = {**last.facts, **facts}, last.reason or reason
        told.add(EXPLORE if record["donor"] == record["trial"] else EXPLOIT, reason, facts)
        told.is_open = True

    def _on_status(self, told: _Told, status: str, cause: str) -> None:
        before, told.status = told.status, status
        was_open, told.is_open = told.is_open, False
        if status == PAUSED and not was_open:
            told.add(PAUSE, cause)
        elif status == TERMINATED and not (was_open and told.decisions[-1].action == STOP):
            standing = self._standing(told)
            told.add(STOP, f"{cause}; {_in_words(standing)}" if standing else cause, standing)
        elif status == ERROR:
            told.add(FAIL, cause)
        elif status == PENDING and before == PAUSED:
            standing = self._standing(told)
            told.add(PROMOTE if standing else RESUME, _in_words(standing) if standing else cause, standing)
            told.waits_at = None
        elif status == PENDING and before == RUNNING:
            told.add(RETRY, cause)


def _in_words(standing: Mapping[str, Any]) -> str:
    return f"by then rank {standing['rank']} of {standing['of']} at rung {standing['rung']}"


def read_decisions(path: str | os.PathLike[str]) -> Decisions:
    """Read what was decided in a run. Blocks while its journal is read, unless it was read just before.

    Args:
        path: The run's directory.

    Raises:
        FileNotFoundError: If there is no journal.
        TuneError: If it cannot be read.
    """
    file = RunDirectory(local_path(path)).journal
    found = os.stat(file)
    return _read(file, found.st_size, found.st_mtime_ns)


@lru_cache(maxsize=1)
def _read(file: str, size_bytes: int, changed_ns: int) -> Decisions:
    decisions = Decisions()
    for record in journal.read(file):
        decisions.tell(record)
    return decisions
