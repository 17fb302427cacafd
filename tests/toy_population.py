"""A population without a run: trials by hand, whose decisions are carried out at once; and the paper's toy problem.

`share_solved(range(200))` is the whole measurement; it takes some seconds.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

from kit import FakeContext, make_trial, run_trial

from minitune import uniform
from minitune.checkpoint import CheckpointRecord
from minitune.experiment.decision import Decision
from minitune.experiment.lifecycle import Transition
from minitune.experiment.trial import Trial
from minitune.result import TRAINING_ITERATION
from minitune.schedulers.pbt import PopulationBasedTraining
from minitune.schedulers.trial_scheduler import TrialScheduler

State = dict[str, Any]
"""The training state of a member, including `training_iteration`."""


class Loop:
    """Trains members in turns. All run at the same time, unless `room` is smaller.

    Args:
        scheduler: The scheduler.
        configs: One per member.
        start: The first state of each member.
        train: Changes a state by one step under a config, and returns the metrics.
        saves: Whether a member is saved when the scheduler asks for it.
        room: How many members may run at a time.
    """

    def __init__(
        self,
        scheduler: TrialScheduler,
        configs: list[dict[str, Any]],
        start: State,
        train: Callable[[State, dict[str, Any]], dict[str, Any]],
        *,
        saves: bool = True,
        room: int | None = None,
    ):
        self.scheduler = scheduler
        self.trials = [make_trial(n, config=config, experiment_tag=str(n)) for n, config in enumerate(configs)]
        self.context = FakeContext(self.trials)
        self.states = {trial.trial_id: {**copy.deepcopy(start), TRAINING_ITERATION: 0} for trial in self.trials}
        self.saved: dict[str, State] = {}
        self.decisions: list[tuple[Trial, Decision]] = []
        self._train, self._saves, self._room = train, saves, room or len(configs)
        for trial in self.trials:
            scheduler.on_trial_add(self.context, trial)
        self._fill_room()

    def running(self) -> list[Trial]:
        return [trial for trial in self.trials if trial.status == "RUNNING"]

    def step(self) -> None:
        """Every running member reports once."""
        for trial in self.running():
            self.report(trial)
        self._fill_room()

    def report(self, trial: Trial) -> Decision:
        """Do one step of one member. Return the decision."""
        state = self.states[trial.trial_id]
        state[TRAINING_ITERATION] += 1
        result = {**self._train(state, trial.config), TRAINING_ITERATION: state[TRAINING_ITERATION]}
        decision = Decision.of(self.scheduler.on_trial_result(self.context, trial, result))
        trial.record_result(result)
        self.decisions.append((trial, decision))
        if self._saves and (decision.save or (decision == "PAUSE" and decision.exploit is None)):
            self.save(trial)
        if decision.exploit is not None:
            self._exploit(trial, *decision.exploit)
        if decision == "PAUSE":
            trial.move(Transition.PAUSE)
            self.context.trials.remove(trial)
            self.context.trials.append(trial)  # `first_paused` is the one that has waited longest
        return decision

    def save(self, trial: Trial) -> None:
        """Save the present state of a member."""
        self.saved[trial.trial_id] = copy.deepcopy(self.states[trial.trial_id])
        trial.record_checkpoint(CheckpointRecord(trial.next_checkpoint, 0, 0, 0))

    def _exploit(self, trial: Trial, donor: Trial, config: dict[str, Any]) -> None:
        self.saved[trial.trial_id] = self.states[trial.trial_id] = copy.deepcopy(self.saved[donor.trial_id])
        trial.set_config(config)

    def _fill_room(self) -> None:
        while len(self.running()) < self._room:
            chosen = self.scheduler.choose_trial_to_run(self.context)
            while self.context.requests:
                verb, trial, *argument = self.context.requests.pop(0)
                assert verb == "exploit", verb
                self._exploit(trial, *argument)
            if chosen is None:
                return
            run_trial(chosen)

    def exploits(self) -> list[tuple[str, str, dict[str, Any]]]:
        """(taker, donor, new config) of every exploit that followed a result."""
        return [
            (trial.trial_id, decision.exploit[0].trial_id, decision.exploit[1])
            for trial, decision in self.decisions
            if decision.exploit is not None
        ]


def solve(seed: int, *, explores: bool = True, steps: int = 200, **settings: Any) -> float:
    """The toy problem of the paper: the best score of two members.

    To be maximised is 1.2 - (a^2 + b^2) from a = b = 0.9, by steps along the gradient of 1.2 - (h0 a^2 + h1 b^2): with
    h = (1, 0) and (0, 1) neither member alone can do it.
    """
    scheduler = PopulationBasedTraining(
        time_attr=TRAINING_ITERATION,
        metric="score",
        mode="max",
        perturbation_interval=4,
        hyperparam_mutations={"h0": uniform(0, 1), "h1": uniform(0, 1)} if explores else {},
        custom_explore_fn=None if explores else copy.copy,
        log_config=False,
        **settings,
    )
    scheduler.set_seed(seed)
    configs: list[dict[str, Any]] = [{"h0": 1.0, "h1": 0.0}, {"h0": 0.0, "h1": 1.0}]
    loop = Loop(scheduler, configs, {"a": 0.9, "b": 0.9}, _train_toy)
    for _ in range(steps):
        loop.step()
    return max(_score(state) for state in loop.states.values())


def share_solved(seeds: Iterable[int], **settings: Any) -> float:
    """How often the toy problem is solved; `settings` go to the scheduler."""
    reached = [solve(seed, **settings) >= 1.19 for seed in seeds]
    return sum(reached) / len(reached)


def _train_toy(state: State, config: dict[str, Any]) -> dict[str, Any]:
    state["a"] -= 0.02 * 2 * config["h0"] * state["a"]
    state["b"] -= 0.02 * 2 * config["h1"] * state["b"]
    return {"score": _score(state)}


def _score(state: State) -> float:
    return float(1.2 - (state["a"] ** 2 + state["b"] ** 2))
