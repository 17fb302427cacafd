"""The table of a trial's life, and the queue."""

import pytest

from minitune.driver.state import TrialQueue
from minitune.error import TuneError
from minitune.experiment.lifecycle import ENDED_PHASES, OWNS_ACTOR, STATUS, TRANSITIONS, Phase, Transition
from minitune.experiment.trial import Trial
from minitune.resources import Resources

ALLOWED = {
    (Phase.QUEUED, Transition.START): "PENDING",
    (Phase.STARTING, Transition.RESTORE): "RUNNING",
    (Phase.STARTING, Transition.TRAIN): "RUNNING",
    (Phase.RESTORING, Transition.TRAIN): "RUNNING",
    (Phase.TRAINING, Transition.TRAIN): "RUNNING",
    (Phase.TRAINING, Transition.SAVE): "RUNNING",
    (Phase.SAVING, Transition.TRAIN): "RUNNING",
    (Phase.PAUSED, Transition.UNPAUSE): "PENDING",
    (Phase.ERROR, Transition.REVIVE): "PENDING",
    (Phase.TERMINATED, Transition.REVIVE): "PENDING",
    **{(phase, Transition.PAUSE): "PAUSED" for phase in (Phase.QUEUED, *OWNS_ACTOR)},
    **{(phase, Transition.RETRY): "PENDING" for phase in OWNS_ACTOR},
    **{(phase, Transition.STOP): "TERMINATED" for phase in Phase if phase not in ENDED_PHASES},
    **{(phase, Transition.FAIL): "ERROR" for phase in Phase if phase not in ENDED_PHASES},
}


REQUESTS = [Resources.of({"cpu": cpus}) for cpus in (1, 2, 0.5)]


def make(number, request=0):
    return Trial("train", trial_id=f"t{number}", number=number, resources=REQUESTS[request], stub=True)


def test_each_step_is_allowed_or_refused():
    for phase in Phase:
        for step in Transition:
            trial = make(0)
            trial.phase = phase
            wanted = ALLOWED.get((phase, step))
            if wanted is None:
                with pytest.raises(TuneError, match=f"cannot take transition {step.name} in phase {phase.name}"):
                    trial.move(step, "for a test")
                assert trial.phase is phase
            else:
                trial.move(step, "for a test")
                assert trial.status == wanted


def test_every_phase_has_a_status_and_a_stage():
    assert set(STATUS) == set(TRANSITIONS) == set(Phase)
    assert set(STATUS.values()) == {"PENDING", "RUNNING", "PAUSED", "TERMINATED", "ERROR"}


def test_the_error_of_an_illegal_step_holds_the_story():
    trial = make(0)
    trial.move(Transition.START, "attempt 1")
    trial.move(Transition.TRAIN, "the worker is ready")
    trial.move(Transition.STOP, "enough")
    with pytest.raises(TuneError) as caught:
        trial.move(Transition.TRAIN, "too late")
    lines = str(caught.value).splitlines()
    assert "(too late)" in lines[0]
    assert [line.split(" ", 3)[3] for line in lines[1:]] == [
        "STARTING: attempt 1",
        "TRAINING: the worker is ready",
        "TERMINATED: enough",
    ]


def test_the_first_of_each_request_come_in_order_of_arrival():
    one, other, third = make(0, 0), make(1, 1), make(2, 0)
    queue = TrialQueue()
    for trial in (one, other, third):
        queue.push(trial)
    queue.remove(one)
    assert queue.heads() == [other, third]
