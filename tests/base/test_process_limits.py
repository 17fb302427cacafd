"""The error of a process or thread that cannot be started names the limits of the system."""

import os
import resource
import threading

import pytest

from minitune.base import process_limits
from minitune.base.process_limits import start_thread, with_limits
from minitune.error import TuneError


@pytest.mark.parametrize(
    ("soft", "user", "groups", "limits"),
    [
        (resource.RLIM_INFINITY, 1000, {}, ""),
        (resource.RLIM_INFINITY, 1000, {"pids.max": "max"}, ""),
        (50, 1000, {}, "; limits: RLIMIT_NPROC (ulimit -u) 50"),
        (50, 0, {}, ""),
        (50, 0, {"pids.max": "70\n"}, "; limits: TOP/pids.max 70"),
        (50, 1000, {"pids.max": "70\n"}, "; limits: RLIMIT_NPROC (ulimit -u) 50, TOP/pids.max 70"),
    ],
)
def test_a_reason_names_the_limits_that_may_be_behind_it(tmp_path, monkeypatch, soft, user, groups, limits):
    for name, content in groups.items():
        (tmp_path / name).write_text(content)
    monkeypatch.setattr(resource, "getrlimit", lambda number: (soft, soft))
    monkeypatch.setattr(os, "getuid", lambda: user)
    monkeypatch.setattr(process_limits, "own_groups", lambda controller: [str(tmp_path), str(tmp_path / "inner")])
    assert with_limits("no process") == f"no process{limits.replace('TOP', str(tmp_path))}"


def test_a_thread_that_the_system_refuses_is_named(monkeypatch):
    started = threading.Thread(target=lambda: None)
    start_thread(started)
    started.join()

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(
        TuneError, match=r"the thread mine cannot be started: can't start new thread.*End other processes"
    ):
        start_thread(threading.Thread(name="mine"))
