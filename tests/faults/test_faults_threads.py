"""A thread that the system does not start, because there are too many processes and threads, or no memory for it."""

import re
import threading

import pytest
from kit import counting, fit, journal_of, resume, run_path

from minitune import TuneError, grid_search


def let_fail(monkeypatch, fails):
    """Let threads fail to start, by their names."""
    really_start = threading.Thread.start

    def start(self):
        if fails(self.name):
            raise RuntimeError("can't start new thread")
        really_start(self)

    monkeypatch.setattr(threading.Thread, "start", start)


def test_a_driver_that_cannot_start_its_own_thread_has_begun_nothing(monkeypatch):
    with monkeypatch.context() as patch:
        let_fail(patch, lambda name: name == "minitune-housekeeper")
        with pytest.raises(TuneError, match="housekeeper cannot be started: can't start new thread; limits are"):
            fit(counting(2))
    assert not (run_path() / "journal").exists()
    assert len(fit(counting(2))) == 1


def test_a_run_that_lacks_a_thread_ends_and_can_be_resumed(monkeypatch):
    of_trials = []

    def is_second(name):
        if re.match(r"minitune-\w+_\d+", name):
            of_trials.append(name)
        return len(of_trials) == 2

    with monkeypatch.context() as patch:
        let_fail(patch, is_second)
        with pytest.raises(TuneError, match=r"can't start new thread; limits are ulimit -u"):
            fit(counting(2), {"x": grid_search([1, 2])}, max_concurrent_trials=1)
    assert journal_of()[-1]["type"] == "close"
    grid = resume(counting(2))
    assert (len(grid), grid.num_terminated) == (2, 2)
