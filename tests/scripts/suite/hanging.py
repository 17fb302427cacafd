"""Tests that hang in various ways, and tests after them."""

import threading

import pytest

never = threading.Event()


def test_that_waits_for_a_thread_that_waits():
    waiting = threading.Thread(target=never.wait, name="the one that waits", daemon=True)
    waiting.start()
    waiting.join()


def test_that_catches_everything_once():
    try:
        never.wait()
    except BaseException:
        never.wait()


@pytest.fixture
def endless():
    yield
    never.wait()


def test_with_an_endless_fixture(endless):
    pass


def test_after_them():
    pass


@pytest.fixture
def script():
    pass


def test_with_programs(script):
    assert not never.wait(0.6)
