"""Run: what the parts of the driver work on."""

from __future__ import annotations

from dataclasses import dataclass

from minitune.driver.hooks import Hooks
from minitune.driver.state import RunState
from minitune.executors.trial_executor import TrialExecutor
from minitune.record.recorder import Recorder


@dataclass(frozen=True)
class Run:
    """One run: where its trials run, how they stand, whom it tells, and what is on record."""

    executor: TrialExecutor
    state: RunState
    hooks: Hooks
    recorder: Recorder
