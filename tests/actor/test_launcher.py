"""How the processes of workers are started: their environment, their directory, and how deep they are nested."""

import os

import pytest

from minitune.actor import launcher
from minitune.actor.process_tree import RUN_VARIABLE, TRIAL_VARIABLE, WITHIN_VARIABLE, marker_of


def test_the_markers_of_all_workers_have_one_length():
    markers = [marker_of("0123456789abcdef", token) for token in (0, 7, 10**9)]
    assert len({len(marker) for marker in markers}) == 1
    assert len(set(markers)) == 3


@pytest.mark.parametrize(
    ("outer", "within", "depth"),
    [
        ({}, None, 0),
        ({TRIAL_VARIABLE: "run.1"}, "run.1", 1),
        ({TRIAL_VARIABLE: "run.2", WITHIN_VARIABLE: "run.1"}, "run.1 run.2", 2),
        ({TRIAL_VARIABLE: "run.3", WITHIN_VARIABLE: "run.1 run.2"}, "run.1 run.2 run.3", 3),
    ],
)
def test_a_worker_carries_the_markers_of_those_around_it(monkeypatch, outer, within, depth):
    for name in (TRIAL_VARIABLE, WITHIN_VARIABLE, RUN_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    for name, value in outer.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MINE", "stays")
    before = dict(os.environ)
    env = launcher.worker_environment("inner", 5)
    assert (env[RUN_VARIABLE], env[TRIAL_VARIABLE]) == ("inner", marker_of("inner", 5))
    assert env.get(WITHIN_VARIABLE) == within
    assert env["MINE"] == "stays"
    assert launcher.nesting_depth() == depth
    assert dict(os.environ) == before
