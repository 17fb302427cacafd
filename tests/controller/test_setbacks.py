"""When workers are lost that are not to blame: pauses that grow, one warning for each cause, and an end."""

from __future__ import annotations

import pytest

from minitune.execution.setbacks import Setbacks


def test_pauses_grow_with_losses_in_a_row_and_begin_anew_with_a_start():
    setbacks, now_s = Setbacks(), 0.0
    assert setbacks.pause_s(now_s) == 0
    pauses = []
    for _ in range(7):
        setbacks.lost("no processes", now_s)
        setbacks.lost("no processes", now_s)  # of the same attempt: it changes nothing
        pauses.append(setbacks.pause_s(now_s))
        now_s += 64.0
    assert pauses == sorted(pauses)
    assert 0 < pauses[0] < 1
    assert pauses[-2:] == pytest.approx([30, 30])
    setbacks.started()
    setbacks.lost("no processes", now_s)
    assert setbacks.pause_s(now_s) == pytest.approx(pauses[0])


def test_a_worker_that_leaves_makes_room_at_once():
    setbacks = Setbacks()
    setbacks.lost("no processes", 5.0)
    setbacks.left()
    assert setbacks.pause_s(5.0) == 0


def test_each_cause_is_new_once():
    setbacks = Setbacks()
    assert [setbacks.lost(cause, 1.0) for cause in ("a", "a", "b", "a")] == [True, False, True, False]


def test_three_losses_without_a_sign_of_life_are_enough():
    setbacks, now_s = Setbacks(), 0.0
    for _ in range(2):
        setbacks.lost("no processes", now_s)
        setbacks.started()
        now_s += 64.0
    setbacks.lives()
    for _ in range(3):
        assert not setbacks.why_hopeless()
        setbacks.lost("no processes", now_s)
        now_s += 64.0
    assert "no processes" in setbacks.why_hopeless()
    assert "3 times" in setbacks.why_hopeless()
