"""Colours: when there are some, and those of states."""

from __future__ import annotations

import io

import pytest

from minitune.experiment import states
from minitune.view.colors import color_of, has_color

RED = "31"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("variables", "on_terminal", "in_pipe"),
    [
        ({"TERM": "xterm"}, True, False),
        ({"TERM": "dumb"}, False, False),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True, False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, True, True),
        ({"TERM": "xterm", "FORCE_COLOR": "1", "NO_COLOR": "1"}, False, False),
    ],
)
def test_variables_turn_colours_on_and_off(monkeypatch, variables, on_terminal, in_pipe):
    for name in ("TERM", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert (has_color(Terminal()), has_color(io.StringIO())) == (on_terminal, in_pipe)


def test_red_is_trouble_only_and_a_stopped_trial_looks_as_one_that_waits():
    assert [state for state in (*states.STATES, "killed", "damaged") if color_of(state) == RED] == [
        "failed",
        "killed",
        "damaged",
    ]
    assert color_of("stopped") == color_of("pending") != color_of("finished")
    assert all(color_of(state) for state in states.STATES)
    assert color_of("loss") == color_of(None) == ""
