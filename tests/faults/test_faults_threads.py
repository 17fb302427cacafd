"""A thread that the system does not start, because there are too many processes and threads, or no memory for it."""

import os
import re
import resource
import sys
import threading
from pathlib import Path

import pytest
from kit import control_group, counting, fit, journal_of, resume, run_path

from minitune import TuneError, grid_search
from minitune.base.process_limits import with_limits

SCRIPTS = Path(__file__).with_name("scripts")


@pytest.fixture(autouse=True)
def limited(monkeypatch, tmp_path):
    """A control group with a limit."""
    (tmp_path / "pids.max").write_text("7\n")
    monkeypatch.setattr("minitune.base.process_limits.own_groups", lambda controller: [str(tmp_path), "/nowhere"])


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
        with pytest.raises(TuneError, match=r"housekeeper cannot be started: can't start new thread; limits: .*max 7"):
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
        with pytest.raises(TuneError, match=r"can't start new thread; limits: .*max 7"):
            fit(counting(2), {"x": grid_search([1, 2])}, max_concurrent_trials=1)
    assert journal_of()[-1]["type"] == "close"
    grid = resume(counting(2))
    assert (len(grid), grid.num_terminated) == (2, 2)


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_the_limit_of_the_system_is_met_and_named(script):
    group = control_group({"/sys/fs/cgroup/pids": "pids.max", "/sys/fs/cgroup": "pids.max"}, 2)
    if not group:
        pytest.skip("no control group with a limit of processes can be made here")
    path = script.write(SCRIPTS / "says_what_is_missing.py")
    command = ["sh", "-c", 'echo $$ > "$0/cgroup.procs"; exec "$1" "$2"', group, sys.executable, str(path)]
    try:
        stdout, stderr = script.finish(script.start_command(command))
    finally:
        os.rmdir(group)
    assert f"{group}/pids.max 2" in stdout, stderr


def test_the_limit_of_a_user_is_named_unless_it_does_not_hold(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (40, 50))
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    assert "RLIMIT_NPROC (ulimit -u) 40" in with_limits("no thread")
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert "RLIMIT_NPROC" not in with_limits("no thread")


def test_a_reason_stays_as_it_is_where_no_limit_is_known(monkeypatch):
    monkeypatch.setattr("minitune.base.process_limits.own_groups", lambda controller: [])
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert with_limits("no thread") == "no thread"
