"""When workers are lost, or trials fail again and again: pauses that grow, one warning for each cause, and an end."""

from __future__ import annotations

import pytest

from minitune.driver.failure import CrashLoop, Setbacks
from minitune.error import CrashLoopError


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
    setbacks.left("a")
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


def test_what_was_begun_before_a_loss_and_is_lost_later_is_no_loss_more_in_a_row():
    setbacks = Setbacks()
    for begun_s in (0.0, 10.0, 20.0):
        assert not setbacks.why_hopeless()
        for later_s in (1.0, 5.0, 9.0):
            setbacks.lost("the zygote has died", begun_s + later_s, begun_s)
    assert "3 times" in setbacks.why_hopeless()


def test_the_third_loss_in_a_row_is_held_against_a_trial():
    setbacks = Setbacks()
    for attempts in (2, 2, 3):
        for number in range(attempts):
            setbacks.lost("the zygote has died", 0.0)
            assert setbacks.carrier_died("a") is (number == 2)
            assert not setbacks.carrier_died(f"other {attempts} {number}")
            setbacks.lives()
        setbacks.left("a")


def test_losses_of_several_trials_in_vain_are_held_against_the_system_for_a_while():
    setbacks, now_s = Setbacks(), 0.0
    blamed = []
    for _ in range(6):
        now_s += 64.0
        for trial in "ab":
            setbacks.lost("the zygote has died", now_s)
            blamed.append(setbacks.carrier_died(trial))
            assert bool(setbacks.why_hopeless()) is (len(blamed) > 4 and not any(blamed))
    assert blamed == [False] * 10 + [True, True]


def test_losses_of_one_trial_alone_are_held_against_it_and_the_others_have_hope():
    setbacks = Setbacks()
    for i in range(3):
        setbacks.lost("the zygote has died", 64.0 * i)
        assert setbacks.carrier_died("a") is (i == 2)
    assert not setbacks.why_hopeless()


def test_a_trial_that_fails_without_a_result_rests_longer_and_longer():
    loop = CrashLoop()
    assert [loop.rest_s("a", "why", 64.0 * i) for i in range(8)] == [0, 1, 2, 4, 8, 16, 30, 30]
    assert loop.rest_s("b", "why", 0.0) == 0
    loop.reported("a")
    assert loop.rest_s("a", "why", 600.0) == 0


def test_a_hundred_restarts_within_ten_seconds_end_the_run_unless_there_is_a_result():
    loop = CrashLoop()
    for i in range(100):
        loop.rest_s(f"{i}", "ImportError: no", i / 20)
    loop.reported("0")
    for i in range(100):
        loop.rest_s(f"{i}", "ImportError: no" if i else "other", 5 + i / 20)
    with pytest.raises(CrashLoopError, match=r"restarted 101 times .* ImportError: no \(100 times\)"):
        loop.rest_s("100", "ImportError: no", 10.0)
    slow = CrashLoop()
    for i in range(300):
        slow.rest_s(f"{i}", "now and then", float(i))


def test_a_machine_too_slow_for_a_hundred_restarts_within_ten_seconds_does_not_try_for_ever_either():
    loop = CrashLoop()
    for i in range(100):
        loop.rest_s(f"{i % 25}", "exit code 7", 1.0 * i, lived_s=2.0)
    with pytest.raises(CrashLoopError, match=r"restarted 101 times within 100 s.*exit code 7 \(101 times\)"):
        loop.rest_s("0", "exit code 7", 100.0, lived_s=2.0)


def test_failures_after_long_work_or_long_rests_are_no_crash_loop():
    loop, now_s = CrashLoop(), 0.0
    for _ in range(10):
        for trial in range(20):  # five of its failures are quick, the others come after rests
            loop.rest_s(f"{trial}", "the network is down", now_s, lived_s=0.1)
            now_s += 1.0
    loop = CrashLoop()
    for i in range(300):
        loop.rest_s(f"{i % 100}", "the network is down", 1.0 * i, lived_s=11.0)
    for i in range(300):
        loop.rest_s(f"{i % 100}", "quick", 300.0 + i, lived_s=0.1)
        loop.reported("0")


def test_three_trials_that_cannot_start_end_the_run_if_nothing_ever_has():
    for first_comes_up in (False, True):
        loop = CrashLoop()
        if first_comes_up:
            loop.has_come_up = True
        for _ in range(5):
            for trial in "ab":
                loop.rest_s(trial, "ImportError: no", 0.0, starting=True)
        if first_comes_up:
            loop.rest_s("c", "ImportError: no", 0.0, starting=True)
        else:
            with pytest.raises(CrashLoopError, match=r"3 trials .*ImportError: no"):
                loop.rest_s("c", "ImportError: no", 0.0, starting=True)
