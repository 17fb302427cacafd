"""Schedulers compare numpy's values as numbers, and keep them as Python's own numbers."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from minitune import Trial
from minitune.schedulers import ASHAScheduler, HyperBandScheduler, MedianStoppingRule, TrialScheduler

MAKERS: dict[str, Any] = {
    "stop": lambda: ASHAScheduler(metric="score", mode="max", max_t=np.int64(9), reduction_factor=np.float64(3)),
    "promote": lambda: ASHAScheduler(metric="score", mode="max", max_t=9, reduction_factor=3, variant="promote"),
    "hyperband": lambda: HyperBandScheduler(metric="score", mode="max", max_t=np.int64(9)),
    "median": lambda: MedianStoppingRule("training_iteration", "score", "max", np.float32(1), np.int64(1)),
}


class Context:
    supply = "OPEN"

    def get_live_trials(self) -> list[Trial]:
        return []

    def stop_trial(self, trial: Trial, reason: str = "") -> None:
        pass


def decisions(scheduler: TrialScheduler, kind: Any) -> list[str]:
    trials = [Trial("train") for _ in range(6)]
    return [
        str(scheduler.on_trial_result(Context(), trial, {"training_iteration": kind(t), "score": kind(value)}))
        for t in (1, 3, 5)
        for value, trial in enumerate(trials)
    ]


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, np.array])
def test_numbers_of_numpy_are_numbers(name: str, kind: Any) -> None:
    of_numpy, plain = MAKERS[name](), MAKERS[name]()
    assert decisions(of_numpy, kind) == decisions(plain, int)
    assert b"numpy" not in pickle.dumps(of_numpy.get_state())
