"""A scheduler with a restored state makes the same decisions as the first one, with the same random draws."""

import math
import pickle
import random

import pytest
from kit import FakeContext, make_trial, run_trial

from minitune import uniform
from minitune.checkpoint import CheckpointRecord
from minitune.experiment.decision import Decision
from minitune.experiment.lifecycle import Transition
from minitune.schedulers import (
    ASHAScheduler,
    HyperBandScheduler,
    MedianStoppingRule,
    PopulationBasedTraining,
)

GOAL = {"time_attr": "training_iteration", "metric": "score", "mode": "max"}
TURNS = {**GOAL, "perturbation_interval": 2}
MUTATED = {**TURNS, "hyperparam_mutations": {"x": uniform(0, 1), "y": [1, 2, 3, 4]}}
SCHEDULERS = {
    "asha": lambda: ASHAScheduler(**GOAL, max_t=12, grace_period=1, reduction_factor=2, brackets=3),
    "asha promotes": lambda: ASHAScheduler(
        **GOAL, max_t=12, grace_period=1, reduction_factor=2, brackets=3, variant="promote"
    ),
    "hyperband": lambda: HyperBandScheduler(**GOAL, max_t=9),
    "median": lambda: MedianStoppingRule(**GOAL, grace_period=2, min_samples_required=2),
    "pbt": lambda: PopulationBasedTraining(**MUTATED, resample_probability=0.5),
    "pbt in step": lambda: PopulationBasedTraining(**MUTATED, synch=True, quantile_fraction=0.5),
}


class Lockstep:
    """Trials by hand whose scheduler may get a twin. Both get the same calls and must give the same answers."""

    def __init__(self, scheduler, seed, trials=10, room=4):
        self.rng = random.Random(seed)
        self.trials = [make_trial(n, config={"x": n / trials, "y": 1}, experiment_tag=str(n)) for n in range(trials)]
        self.times = dict.fromkeys(self.trials, 0)
        self.room = room
        self.twins = [(scheduler, FakeContext(self.trials))]
        for trial in self.trials:
            self._ask("on_trial_add", trial)

    def add(self, twin):
        self.twins.append((twin, FakeContext(self.trials)))

    def turn(self):
        """Start the trials that the schedulers choose; then one running trial reports or fails."""
        while len(running := [trial for trial in self.trials if trial.status == "RUNNING"]) < self.room:
            chosen = self._ask("choose_trial_to_run")
            if chosen is None or chosen.status not in ("PENDING", "PAUSED"):
                break
            run_trial(chosen)
        if running:
            trial = self.rng.choice(running)
            if self.rng.random() < 0.03:
                self._fail(trial)
            else:
                self._report(trial)

    def _fail(self, trial):
        trial.num_failures += 1
        trial.max_failures = self.rng.choice([0, 9])
        if trial.num_failures > trial.max_failures:
            trial.error = RuntimeError("for good")
        self._ask("on_trial_error", trial)
        if trial.error is None:
            trial.move(Transition.RETRY)
            self._ask("on_trial_add", trial)
        else:
            trial.move(Transition.FAIL)

    def _report(self, trial):
        self.times[trial] += 1
        value = self.rng.choice([math.nan, self.rng.random(), trial.config["x"], round(self.rng.random(), 1)])
        result = {"training_iteration": self.times[trial], "score": value}
        decision = self._ask("on_trial_result", trial, result)
        trial.record_result(result)
        if decision == "STOP" or self.times[trial] >= 16:
            self._ask("on_trial_complete", trial, result)
            trial.move(Transition.STOP)
            return
        if decision.save or decision == "PAUSE":
            trial.record_checkpoint(CheckpointRecord(trial.next_checkpoint, 0, 0, 0))
        if decision == "PAUSE":
            trial.move(Transition.PAUSE)
        if decision.exploit is not None:
            trial.set_config(decision.exploit[1])

    def _ask(self, hook, *arguments):
        """Call a hook of all schedulers, carry out their requests, and return their common answer."""
        said = [getattr(scheduler, hook)(context, *arguments) for scheduler, context in self.twins]
        if hook == "on_trial_result":
            said = [Decision.of(answer) for answer in said]
        assert [_shown(answer) for answer in said] == [_shown(said[0])] * len(said)
        asked = [list(context.requests) for _, context in self.twins]
        assert [_shown(each) for each in asked] == [_shown(asked[0])] * len(asked)
        for _, context in self.twins:
            context.requests.clear()
        for verb, trial, *more in asked[0]:
            if verb == "stop" and not trial.is_finished():
                self._ask("on_trial_remove", trial)
                trial.move(Transition.STOP)
            elif verb == "exploit":
                trial.set_config(more[1])
        return said[0]


def _shown(value):
    if isinstance(value, Decision):
        return str(value), value.reason, value.save, repr(value.exploit)
    return repr(value)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", SCHEDULERS)
def test_a_scheduler_with_a_saved_state_goes_on_like_the_first(kind, seed):
    first, second = (SCHEDULERS[kind]() for _ in range(2))
    for scheduler, own_seed in ((first, seed), (second, seed + 100)):
        scheduler.set_seed(own_seed)  # the state includes the generator
    run = Lockstep(first, seed)
    for _ in range(random.Random(seed).randint(8, 40)):
        run.turn()
    second.set_state(pickle.loads(pickle.dumps(first.get_state())))
    run.add(second)
    run.trials += (late := [make_trial(n, config={"x": 0.5, "y": 2}, experiment_tag=str(n)) for n in range(10, 16)])
    for trial in late:
        run.times[trial] = 0
        for _, context in run.twins:
            context.trials = run.trials
        run._ask("on_trial_add", trial)
    for _ in range(200):
        run.turn()
    assert first.debug_string() == second.debug_string()


@pytest.mark.parametrize("kind", ["pbt", "pbt in step"])
def test_a_population_keeps_nothing_of_trials_that_have_ended(kind):
    scheduler = SCHEDULERS[kind]()
    scheduler.set_seed(1)
    run = Lockstep(scheduler, 1)
    for _ in range(100):
        run.turn()
    for trial in run.trials:
        if not trial.is_finished():
            run._ask("on_trial_remove", trial)
            trial.move(Transition.STOP)
    state = pickle.dumps(scheduler.get_state())
    assert not [trial.trial_id for trial in run.trials if trial.trial_id.encode() in state]
