"""Decisions: why each trial of a run was started, stopped, paused, continued or tried again, from the journal.

The journal has each decision on a result with its reason and facts, each change of a trial's status with its cause,
each exploit, and each start with the reason of the scheduler that has chosen the trial.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from minitune.experiment.decision import CONTINUE, NOOP, PAUSE, STOP
from minitune.experiment.endings import EndKind
from minitune.experiment.lifecycle import Transition
from minitune.record import journal, records
from minitune.record.reading import journal_version
from minitune.record.story import Effect, Story
from minitune.result import TRAINING_ITERATION

EXPLOIT = "EXPLOIT"
"""The trial continues from a checkpoint of another trial."""

EXPLORE = "EXPLORE"
"""The trial continues from its own checkpoint with other hyperparameters."""

RESUME = "RESUME"
"""A paused trial continues."""

RETRY = "RETRY"
"""The trial failed and is tried again."""

FAIL = "FAIL"
"""The trial failed for good."""

_VERBS = {
    CONTINUE: "goes on",
    PAUSE: "paused",
    STOP: "stopped",
    EXPLOIT: "exploits another trial",
    EXPLORE: "explores",
    RESUME: "resumed",
    RETRY: "tried again",
    FAIL: "failed for good",
}


@dataclass(frozen=True)
class TrialDecision:
    """One decision about a trial. `str()` makes a sentence of it.

    Attributes:
        action: `CONTINUE` (only with a reason), `PAUSE`, `STOP`, `EXPLOIT`, `EXPLORE`, `RESUME`, `RETRY` or `FAIL`.
        facts: Plain data. Possible keys are `rule`, `metric`, `value`, `time`, `rung`, `bracket`, `band`, `cutoff`,
            `rank`, `of`, `donor` and `checkpoint`.
        kind: The kind of the ending, if something ended with this decision.
    """

    action: str
    reason: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    iteration: int | None = None
    kind: EndKind | None = None

    def __str__(self) -> str:
        if self.iteration is None:
            when = "at the start"
        else:
            when = f"after iteration {self.iteration}"
        verb = _VERBS[self.action]
        if self.kind is EndKind.CRITERION and "criterion" in self.facts:
            return f"{when}: {verb} because {self.facts['criterion']}"
        if self.kind in (EndKind.RETURNED, EndKind.DONE):
            verb = "finished"  # nothing has stopped it
        reason = self.reason or ", ".join(f"{name}={value}" for name, value in self.facts.items())
        if reason:
            return f"{when}: {verb}: {reason}"
        return f"{when}: {verb}"


@dataclass
class _History:
    """The decisions about one trial so far, and the state that later ones depend on.

    Attributes:
        is_open: Whether the transition to which the last one leads is still to come. It is no decision of its own.
    """

    decisions: list[TrialDecision] = field(default_factory=list)
    iteration: int | None = None
    is_open: bool = False

    def add(
        self, action: str, reason: str = "", facts: Mapping[str, Any] | None = None, kind: EndKind | None = None
    ) -> None:
        self.decisions.append(TrialDecision(action, reason, facts or {}, self.iteration, kind))


class Decisions:
    """The decisions of a run. Call `tell` with each effect of its story."""

    def __init__(self) -> None:
        self.by_trial: dict[str, list[TrialDecision]] = {}
        self.by_directory: dict[str, list[TrialDecision]] = {}
        self._histories: dict[str, _History] = {}

    def tell(self, effect: Effect) -> None:
        """Add the decision of an effect, if it has one."""
        kind = effect.kind
        trial = effect.trial
        if trial is None:
            return
        if (history := self._histories.get(trial.trial_id)) is None:
            history = _History()
            self._histories[trial.trial_id] = history
            self.by_trial[trial.trial_id] = history.decisions
        if kind == records.RESULT:
            self._on_result(history, effect.record)
        elif kind == records.EXPLOIT:
            self._on_exploit(history, effect.record)
        elif kind == records.START:
            if trial.custom_dirname:
                self.by_directory[trial.custom_dirname] = history.decisions
        elif kind == records.STATUS:
            self._on_transition(history, effect, effect.record["cause"])

    def _on_result(self, history: _History, record: records.Record) -> None:
        history.iteration = record["metrics"].get(TRAINING_ITERATION, record["number"])
        action = record["decision"]
        reason = record["reason"]
        facts = record.get(records.FACTS)
        if (action == CONTINUE and not (reason or facts)) or action == NOOP:
            return
        kind = None
        if action == STOP:
            ending = records.ending_of(record)
            kind = ending.kind
            facts = ending.facts
        history.add(action, reason, facts, kind)
        history.is_open = action in (PAUSE, STOP)

    def _on_exploit(self, history: _History, record: records.Record) -> None:
        donor = record["donor"]
        number = record["checkpoint"]
        facts = {"donor": donor, "checkpoint": number}
        reason = record["reason"] or f"continues from checkpoint {number} of trial {donor}"
        if history.is_open and history.decisions[-1].action == PAUSE:  # this pause was made for the exploit
            last = history.decisions.pop()
            facts = {**last.facts, **facts}
            reason = last.reason or reason
        history.add(EXPLORE if donor == record["trial"] else EXPLOIT, reason, facts)
        history.is_open = True

    def _on_transition(self, history: _History, effect: Effect, cause: str) -> None:
        transition = effect.transition
        kind = None
        if effect.ending is not None:
            kind = effect.ending.kind
            cause = effect.ending.text
        was_open = history.is_open
        history.is_open = False
        if transition is Transition.PAUSE and not was_open:
            history.add(PAUSE, cause)
        elif transition is Transition.STOP and not (was_open and history.decisions[-1].action == STOP):
            history.add(STOP, cause, None if effect.ending is None else effect.ending.facts, kind)
        elif transition is Transition.FAIL:
            history.add(FAIL, cause, kind=kind)
        elif transition is Transition.UNPAUSE:
            history.add(RESUME, cause)
        elif transition is Transition.RETRY and kind in (EndKind.FAILED, EndKind.LOST):
            history.add(RETRY, cause, kind=kind)


def read_decisions(path: str | os.PathLike[str]) -> Decisions:
    """Read the decisions of a run. Blocks, and raises, as `read_reports`."""
    return _cached_decisions(*journal_version(path))


@lru_cache(maxsize=1)
def _cached_decisions(file: str, size_bytes: int, changed_ns: int) -> Decisions:
    decisions = Decisions()
    for effect in Story(os.path.dirname(file), has_details=False).follow(journal.read(file)):
        decisions.tell(effect)
    return decisions
