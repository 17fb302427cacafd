"""Random lives of trials: status, queue and counters stay true."""

from types import SimpleNamespace

import hypothesis
import pytest
from hypothesis import strategies as st

from minitune import TuneConfig
from minitune.driver.state import RunningTrial, RunState
from minitune.error import TuneError
from minitune.experiment.lifecycle import ENDED_PHASES, OWNS_ACTOR, STATUS, TRANSITIONS, Phase, Transition
from minitune.experiment.trial import Trial
from minitune.resources import Resources

REQUESTS = [Resources.of({"cpu": cpus}) for cpus in (1, 2, 0.5)]


def make(number, request=0):
    return Trial("train", trial_id=f"t{number}", number=number, resources=REQUESTS[request])


@hypothesis.given(st.lists(st.sampled_from(list(Transition)), max_size=40))
def test_status_follows_the_table_and_an_illegal_step_changes_nothing(steps):
    trial, phase = make(0), Phase.QUEUED
    for step in steps:
        following = TRANSITIONS[phase].get(step)
        if following is None:
            with pytest.raises(TuneError, match=f"cannot take transition {step.name} in phase {phase.name}: no"):
                trial.move(step, "no")
        else:
            trial.move(step, "yes")
            phase = following
        assert trial.phase is phase
        assert trial.status == STATUS[phase]
        assert trial.is_finished() == (phase in ENDED_PHASES)


@hypothesis.given(st.data())
def test_the_indices_of_a_run_stay_true(data):
    state, trials = RunState(SimpleNamespace(tune_config=TuneConfig())), []
    gone, resting = [], set()
    for _ in range(data.draw(st.integers(1, 60))):
        action = data.draw(st.sampled_from(["add", "START", "STOP", "step", "step", "exit", "rest", "wake"]))
        if action == "add" and len(trials) < 6:
            trials.append(make(len(trials), data.draw(st.integers(0, 2))))
            state.add(trials[-1])
        elif action == "exit" and gone:
            state.has_left(gone.pop(data.draw(st.integers(0, len(gone) - 1))))
        elif action in ("START", "STOP", "step") and trials:
            step = data.draw(st.sampled_from(list(Transition))) if action == "step" else Transition[action]
            walk(state, data.draw(st.sampled_from(trials)), step, gone)
        elif action == "rest" and (running := [trial for trial in trials if trial.phase in OWNS_ACTOR]):
            resting.add(data.draw(st.sampled_from(running)))
            for trial in resting:
                if trial.phase is not Phase.QUEUED:
                    walk(state, trial, Transition.RETRY, gone)
                state.waiting.rest(trial, 1.0)
        elif action == "wake":
            assert state.waiting.end_rests(1.0) == bool(resting)
            resting.clear()
        resting = {trial for trial in resting if trial.phase is Phase.QUEUED}
        check(state, trials, resting)


def walk(state, trial, step, gone):
    """One step as the driver takes it: an actor comes with START, and is let go before the trial leaves it."""
    following = TRANSITIONS[trial.phase].get(step)
    before = trial.phase
    if following is None:
        with pytest.raises(TuneError):
            state.move(trial, step)
        return
    if step is Transition.START:
        if not state.waiting.may_start(trial):
            return
        trial.begin_attempt(trial.attempt.number + 1)
        state.move(trial, step)
        state.running[trial.attempt.actor_id] = RunningTrial(trial, trial.attempt.actor_id, trial.start_point())
        return
    if before in OWNS_ACTOR and following not in OWNS_ACTOR:
        running = state.running[trial.attempt.actor_id]
        state.let_go(running)
        gone.append(running)
    changed = state.move(trial, step)
    assert changed == (STATUS[before] != STATUS[following])


def check(state, trials, resting):
    queued = {trial for trial in trials if trial.phase is Phase.QUEUED} - resting
    assert state.waiting.num_pending == len(queued)
    assert set(state.unfinished) == {trial.trial_id for trial in trials if not trial.is_finished()}
    assert {running.trial.trial_id for running in state.running.values()} == {
        trial.trial_id for trial in trials if trial.phase in OWNS_ACTOR
    }
    waiting = [trial for trial in trials if trial.attempt.actor_id not in state.waiting.leaving]
    assert set(state.waiting.queue.values()) == queued & set(waiting)
    assert set(state.waiting.paused.values()) == {trial for trial in waiting if trial.phase is Phase.PAUSED}
    assert all(state.waiting.may_start(trial) == (trial in queued or trial.phase is Phase.PAUSED) for trial in waiting)
    heads = {}
    for trial in state.waiting.queue.values():
        heads.setdefault(trial.resources, trial)
    assert state.waiting.heads() == list(heads.values())
