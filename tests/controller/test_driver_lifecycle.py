"""The table of a trial's life, and the indices that the driver keeps over its trials."""

from __future__ import annotations

import pytest

from minitune.error import TuneError
from minitune.execution.state import Live, RunState
from minitune.experiment.lifecycle import FINISHED, OWNS_ACTOR, STAGES, STATUS, TRANSITIONS, Phase, Step
from minitune.experiment.trial import Trial

ALLOWED = {
    (Phase.QUEUED, Step.START): "PENDING",
    (Phase.STARTING, Step.RESTORE): "RUNNING",
    (Phase.STARTING, Step.TRAIN): "RUNNING",
    (Phase.RESTORING, Step.TRAIN): "RUNNING",
    (Phase.TRAINING, Step.TRAIN): "RUNNING",
    (Phase.TRAINING, Step.SAVE): "RUNNING",
    (Phase.SAVING, Step.TRAIN): "RUNNING",
    (Phase.PAUSED, Step.UNPAUSE): "PENDING",
    (Phase.ERROR, Step.REVIVE): "PENDING",
    (Phase.TERMINATED, Step.REVIVE): "PENDING",
    **{(phase, Step.PAUSE): "PAUSED" for phase in (Phase.QUEUED, *OWNS_ACTOR)},
    **{(phase, Step.RETRY): "PENDING" for phase in OWNS_ACTOR},
    **{(phase, Step.STOP): "TERMINATED" for phase in Phase if phase not in FINISHED},
    **{(phase, Step.FAIL): "ERROR" for phase in Phase if phase not in FINISHED},
}


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("step", Step)
def test_each_step_is_allowed_or_refused(phase: Phase, step: Step) -> None:
    trial = Trial("train", trial_id="t0", stub=True)
    trial.phase = phase
    wanted = ALLOWED.get((phase, step))
    if wanted is None:
        assert step not in TRANSITIONS[phase]
        with pytest.raises(TuneError, match=f"cannot take step {step.name} in phase {phase.name}"):
            trial.move(step, "for a test")
        assert trial.phase is phase
    else:
        trial.move(step, "for a test")
        assert trial.status == wanted


def test_every_phase_has_a_status_and_a_stage() -> None:
    assert set(STATUS) == set(TRANSITIONS) == set(Phase)
    assert set(STAGES) == {None, *Phase}
    assert set(STATUS.values()) == {"PENDING", "RUNNING", "PAUSED", "TERMINATED", "ERROR"}


def test_the_error_of_an_illegal_step_holds_the_story() -> None:
    trial = Trial("train", trial_id="t0", stub=True)
    trial.move(Step.START, "attempt 1")
    trial.move(Step.TRAIN, "the worker is ready")
    trial.move(Step.STOP, "enough")
    with pytest.raises(TuneError) as caught:
        trial.move(Step.TRAIN, "too late")
    lines = str(caught.value).splitlines()
    assert "(too late)" in lines[0]
    assert [line.split(" ", 3)[3] for line in lines[1:]] == [
        "STARTING: attempt 1",
        "TRAINING: the worker is ready",
        "TERMINATED: enough",
    ]


def test_a_trial_waits_until_its_last_actor_is_gone() -> None:
    state = RunState()
    trial = Trial("train", trial_id="t0", stub=True)
    state.add(trial)
    assert state.queue.first() is trial
    state.move(trial, Step.START)
    live = Live(trial, trial.actor_id)
    state.live[live.actor_id] = live
    state.let_go(live)
    state.move(trial, Step.RETRY)
    assert trial.status == "PENDING"
    assert state.num_pending == 1
    assert state.queue.first() is None
    assert not state.is_startable(trial)
    state.has_left("t0")
    assert state.queue.first() is trial


def test_a_paused_trial_waits_likewise() -> None:
    state = RunState()
    trial = Trial("train", trial_id="t0", stub=True)
    state.add(trial)
    state.move(trial, Step.START)
    state.move(trial, Step.TRAIN)
    live = Live(trial, trial.actor_id)
    state.live[live.actor_id] = live
    state.let_go(live)
    state.move(trial, Step.PAUSE)
    assert next(iter(state.paused.values()), None) is None
    state.has_left("t0")
    assert next(iter(state.paused.values()), None) is trial
    assert state.is_startable(trial)
    state.has_left("unknown")


def test_a_changed_request_keeps_a_trial_in_the_queue() -> None:
    state = RunState()
    trials = [Trial("train", trial_id=f"t{n}", stub=True) for n in range(3)]
    for trial in trials:
        state.add(trial)
    state.change_resources(trials[0], {"cpu": 2})  # type: ignore[arg-type]  # whatever Resources.of takes
    assert set(state.queue) == set(trials)
    assert {trial.trial_id for trial in state.queue.heads()} == {"t0", "t1"}
    state.move(trials[0], Step.START)
    assert list(state.queue) == trials[1:]
