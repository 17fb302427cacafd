"""What the system shows of processes."""

import os
import subprocess
import sys

import pytest

from minitune.base import processes
from minitune.base.processes import children

MISSING = 2**22 + 1

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="on other systems psutil shows it")


@pytest.fixture
def sleeper(tmp_path):
    """A process whose program has a name with spaces and brackets."""
    program = tmp_path / ") Z 1 (sleep"
    program.symlink_to("/bin/sleep")
    process = subprocess.Popen([program, "1000"], env={"MINE": "yes"}, start_new_session=True)
    while not processes.environment(process.pid):  # until it shows that of its own program
        pass
    yield process
    process.kill()
    process.wait()


def test_a_process_that_has_ended_has_no_children():
    assert children(MISSING) == []


def test_a_process_shows_what_it_is(sleeper):
    pid = sleeper.pid
    assert processes.life(pid) == processes.life(pid) != ""
    assert processes.environment(pid) == b"MINE=yes\0"
    assert processes.session(pid) == pid
    assert processes.threads(pid) == [str(pid)]
    assert not processes.is_ending(pid)
    assert pid in children(os.getpid())
    assert pid in processes.all_pids()
    assert processes.has_living_child()


def test_a_dead_process_that_nobody_has_reaped_is_dead(sleeper):
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert processes.life(sleeper.pid) == ""
    assert processes.stat(sleeper.pid) is None
    assert processes.is_ending(sleeper.pid)
    assert processes.environment(sleeper.pid) == b""
    assert sleeper.pid in children(os.getpid())


def test_of_a_process_that_does_not_exist_nothing_is_known():
    assert (processes.life(MISSING), processes.environment(MISSING), processes.threads(MISSING)) == ("", b"", [])
    assert (processes.session(MISSING), processes.stat(MISSING)) == (0, None)
    assert processes.is_ending(MISSING)
