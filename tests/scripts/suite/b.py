"""Tests that warn, are skipped, or fail at their end, and that wait for the other file."""

import os
import pathlib
import time
import warnings

import pytest


def test_the_other_file_runs_at_the_same_time():
    pathlib.Path("b").touch()
    while not os.path.exists("a"):
        time.sleep(0.01)


def test_that_warns():
    warnings.warn("take care", stacklevel=1)


@pytest.mark.skip(reason="no wish to")
def test_that_is_skipped():
    pass


@pytest.fixture(scope="session")
def torn():
    yield
    raise ValueError("at the end of the session")


def test_with_a_failing_fixture(torn):
    pass
