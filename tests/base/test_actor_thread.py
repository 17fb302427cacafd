"""The thread of an actor: calls, reports, and its end."""

import threading

import pytest
from kit import BOUND_S

from minitune.base.actor_thread import ActorThread


@pytest.fixture
def thread():
    thread = ActorThread("mine")
    yield thread
    thread.stop()
    assert thread.end(BOUND_S)


def reporting(thread, heard, *values):
    """A call that reports these values; it notes what counts, and whether it may go on."""

    def run():
        for value in values:
            goes_on = thread.exchange(lambda value=value: (value, lambda: heard.append(f"counts {value}")))
            heard.append(goes_on)
        return "returned"

    return run


def test_calls_are_answered_in_their_order_on_one_thread(thread):
    answers = [thread.ask(str(number), lambda number=number: (number, threading.current_thread())) for number in (1, 2)]
    found = [answer.result(BOUND_S) for answer in answers]
    assert [number for number, _ in found] == [1, 2]
    assert found[0][1] is found[1][1] is not threading.current_thread()
    assert (found[0][1].name, found[0][1].daemon) == ("mine", True)


def test_an_exception_is_an_answer_and_the_thread_goes_on(thread):
    error = SystemExit(3)

    def fail():
        raise error

    assert thread.ask("fail", fail).exception(BOUND_S) is error
    assert thread.ask("go on", lambda: 1).result(BOUND_S) == 1


def test_a_report_answers_the_call_and_the_same_call_goes_on(thread):
    heard = []
    run = reporting(thread, heard, "a", "b")
    assert thread.ask("train", run).result(BOUND_S) == "a"
    assert heard == ["counts a"]
    assert thread.ask("save", lambda: "saved").result(BOUND_S) == "saved"
    assert heard == ["counts a"], "another call does not let it go on"
    assert thread.ask("train", run).result(BOUND_S) == "b"
    assert thread.ask("train", run).result(BOUND_S) == "returned"
    assert heard == ["counts a", True, "counts b", True]


def test_after_a_stop_no_report_counts(thread):
    heard = []
    told = threading.Event()
    thread.at_stop = told.set
    assert thread.ask("train", reporting(thread, heard, "a", "b")).result(BOUND_S) == "a"
    assert not thread.is_stopped
    thread.stop()
    assert told.is_set()
    assert thread.ask("stop", lambda: list(heard)).result(BOUND_S) == ["counts a", False, False]


def test_outside_of_a_call_no_report_counts(thread):
    assert thread.exchange(lambda: ("a", lambda: None)) is False
    assert thread.ask("nothing", lambda: None).result(BOUND_S) is None
    assert thread.exchange(lambda: ("a", lambda: None)) is False


def test_the_thread_ends_after_the_calls_that_wait():
    assert ActorThread("never started").end(0.0)
    thread = ActorThread("mine")
    go = threading.Event()
    first = thread.ask("first", lambda: go.wait(BOUND_S))
    second = thread.ask("second", lambda: 2)
    assert not thread.end(0.0)
    go.set()
    assert thread.end(BOUND_S)
    assert (first.result(0), second.result(0)) == (True, 2)
