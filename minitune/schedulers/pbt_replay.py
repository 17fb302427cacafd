"""Replay: one trial is trained under the schedule of configurations that population based training has found."""

from __future__ import annotations

import logging
import os
from typing import Any

from minitune import decision
from minitune._checks import require, shown
from minitune.decision import Decision
from minitune.experiment.tags import format_vars
from minitune.experiment.trial import Trial
from minitune.result import TRAINING_ITERATION
from minitune.schedulers._explore import copied
from minitune.schedulers._policy import PERTURBED, read_policy
from minitune.schedulers.trial_scheduler import CONTINUE, FIFOScheduler, SchedulerContext, as_number

_log = logging.getLogger("minitune")


class PopulationBasedTrainingReplay(FIFOScheduler):
    """Trains one trial under the schedule of configurations that population based training has found.

    Whenever the trial comes to an iteration at which the configuration changed, it is saved and goes on from there
    under the next one.

    Args:
        policy_file: A member's `pbt_policy_<trial id>.txt`, which is in the run's directory.

    Raises:
        ValueError: If it cannot be read, or is no such file.
    """

    def __init__(self, policy_file: str | os.PathLike[str]):
        require(isinstance(policy_file, (str, os.PathLike)), "policy_file: the path of a policy file", policy_file)
        self.policy_file = os.path.expanduser(os.fspath(policy_file))
        start, self._changes = read_policy(self.policy_file)
        self.config: dict[str, Any] = start or {}
        self.experiment_tag = f"replay_{os.path.basename(self.policy_file)}"
        self._trial_id = ""
        self._step = 0
        self._num_perturbations = 0

    def on_trial_add(self, tune_controller: SchedulerContext, trial: Trial) -> None:
        """Give the trial the configuration that the schedule begins with.

        Raises:
            ValueError: If it is the second one, or there is no configuration at all.
        """
        if trial.trial_id == self._trial_id:
            return
        if self._trial_id:
            raise ValueError(
                "a replay trains one trial, but got a second one, which would train the same schedule again; use "
                "num_samples=1 and no grid_search"
            )
        self._trial_id = trial.trial_id
        if not self._changes:
            if not trial.config:
                raise ValueError(f"there is no configuration: {self.policy_file!r} is empty, and so is param_space")
            self.config = trial.config
            return
        if trial.config:
            _log.warning("the configuration of trial %s gives way to that of %s", trial.name, self.policy_file)
        trial.set_config(self.config)

    def on_trial_result(self, tune_controller: SchedulerContext, trial: Trial, result: dict[str, Any]) -> str:
        """Change the configuration if the trial has come to that point; of several points passed the last one counts.

        Returns:
            The decision, with the change as its reason.
        """
        step = as_number(result.get(TRAINING_ITERATION))
        if step is None:
            return CONTINUE
        self._step = int(step)
        passed = sum(1 for at, _ in self._changes if at <= step)
        if passed <= self._num_perturbations:
            return CONTINUE
        self._num_perturbations = passed
        at, self.config = self._changes[passed - 1]
        values = {(str(name),): value for name, value in self.config.items()}
        trial.set_experiment_tag(f"{self.experiment_tag}{PERTURBED}{format_vars(values)}]")
        return Decision(
            decision.PAUSE,
            f"the schedule changes at {TRAINING_ITERATION} {at} to {shown(self.config)}",
            exploit=(trial, copied(self.config)),
            save=True,
            facts={"rule": "pbt replay", "time": step, "donor": trial.trial_id},
        )

    def debug_string(self) -> str:
        """Where the trial is, and how often its configuration was changed."""
        return f"PopulationBasedTraining replay: Step {self._step}, perturb {self._num_perturbations}"

    def get_state(self) -> dict[str, Any]:
        """See `TrialScheduler.get_state`."""
        return {"trial_id": self._trial_id, "step": self._step, "num_perturbations": self._num_perturbations}

    def set_state(self, state: dict[str, Any]) -> None:
        """See `TrialScheduler.set_state`."""
        self._trial_id, self._step = state["trial_id"], state["step"]
        self._num_perturbations = state["num_perturbations"]
