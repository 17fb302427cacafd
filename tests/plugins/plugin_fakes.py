"""Trials made by hand and a context that records what schedulers ask for: no process, no file, no clock."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from minitune.experiment.lifecycle import PAUSED, PENDING, Step
from minitune.experiment.trial import Trial


def make_trial(number: int = 0, **kwargs: Any) -> Trial:
    return Trial("train", trial_id=f"t{number:04d}", number=number, stub=True, **kwargs)


def run_trial(trial: Trial) -> Trial:
    """Bring a waiting trial to RUNNING."""
    if trial.status == PAUSED:
        trial.move(Step.UNPAUSE)
    trial.attempt += 1
    trial.move(Step.START)
    trial.move(Step.TRAIN)
    return trial


class FakeContext:
    """A SchedulerContext over a plain list of trials."""

    def __init__(self, trials: Sequence[Trial] = ()):
        self.trials = list(trials)
        self.supply = "ENDED"
        self.search_alg: Any = None
        self.is_replaying = False
        self.requests: list[tuple[Any, ...]] = []
        self._resource_updater = SimpleNamespace(get_num_cpus=lambda: 4.0, get_num_gpus=lambda: 0.0)

    def get_trials(self) -> list[Trial]:
        return self.trials

    def get_live_trials(self) -> list[Trial]:
        return [trial for trial in self.trials if not trial.is_finished()]

    def first_pending(self) -> Trial | None:
        return next((trial for trial in self.trials if trial.status == PENDING), None)

    def first_paused(self) -> Trial | None:
        return next((trial for trial in self.trials if trial.status == PAUSED), None)

    def stop_trial(self, trial: Trial, reason: str = "") -> None:
        self.requests.append(("stop", trial))

    def pause_trial(self, trial: Trial, should_checkpoint: bool = True) -> None:
        self.requests.append(("pause", trial, should_checkpoint))

    def exploit_trial(self, trial: Trial, donor: Trial, config: dict[str, Any], reason: str = "") -> None:
        self.requests.append(("exploit", trial, donor, config))

    def set_resources(self, trial: Trial, request: Any) -> None:
        self.requests.append(("resources", trial, request))
