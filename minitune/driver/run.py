"""Run: what the parts of the driver work on."""

from __future__ import annotations

from dataclasses import dataclass

from minitune.driver.hooks import Hooks
from minitune.driver.state import RunState
from minitune.executors.trial_executor import TrialExecutor
from minitune.record.recorder import Recorder


@dataclass(frozen=True)
class Run:
    """What each part of the driver may use: where trials run, how they stand, who is told, and the record."""

    executor: TrialExecutor
    state: RunState
    hooks: Hooks
    recorder: Recorder
