"""Tests that fail and print, and that wait for the other file."""

import os
import pathlib
import time


def test_the_other_file_runs_at_the_same_time():
    pathlib.Path("a").touch()
    while not os.path.exists("b"):
        time.sleep(0.01)


def test_that_fails():
    print("printed by", "Python")
    os.system("echo printed by a child")
    assert 1 == 2, "these differ"
