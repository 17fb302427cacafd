"""What a worker saves of its process before user code runs, and restores for the next actor."""

import fcntl
import functools
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from minitune.actor import surroundings
from minitune.actor.messages import HIGH_DESCRIPTOR, Workplace
from minitune.actor.surroundings import Surroundings, move_high, stop_timers

Test = Callable[[Path], None]


def in_a_child(test):
    """A test in a child, whose state ends with it. Its standard streams are the files `first` and `errors`."""

    @functools.wraps(test)
    def run(tmp_path):
        pid = os.fork()
        if not pid:
            try:
                os.chdir(tmp_path)
                for descriptor, name in ((1, "first"), (2, "errors")):
                    file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_APPEND)
                    os.dup2(file, descriptor)
                    os.close(file)
                sys.__stdout__ = sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - of the whole process
                sys.__stderr__ = sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                stop_timers()
                test(tmp_path)
            except BaseException:
                Path(tmp_path, "failure").write_text(traceback.format_exc())
            finally:
                os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        failure = tmp_path / "failure"
        assert not failure.exists(), failure.read_text()

    return run


@in_a_child
def test_without_files_the_next_actor_prints_where_the_worker_did(tmp_path):
    before = Surroundings()
    before.apply(Workplace(stdout=str(tmp_path / "out"), stderr=str(tmp_path / "err")))
    print("to the file")
    os.write(2, b"to the file, too\n")
    print("not flushed", end="")
    before.restore(Workplace())
    print("back")
    sys.stdout.flush()
    os.write(2, b"back, too\n")
    assert (tmp_path / "out").read_text() == "to the file\nnot flushed"
    assert (tmp_path / "first").read_text() == "back\n"
    assert (tmp_path / "err").read_text() == "to the file, too\n"
    assert (tmp_path / "errors").read_text() == "back, too\n"
    before.apply(Workplace(stdout=str(tmp_path / "again")))
    print("of the next one")
    assert (tmp_path / "again").read_text() == "of the next one\n"
    os.write(2, b"still\n")
    assert (tmp_path / "errors").read_text() == "back, too\nstill\n"


@in_a_child
def test_output_goes_to_the_files_although_the_streams_were_closed(tmp_path):
    sys.__stdout__.close()
    os.close(1)
    sys.__stderr__ = sys.stderr = None
    before = Surroundings()
    before.apply(Workplace(stdout=str(tmp_path / "out"), stderr=str(tmp_path / "err")))
    print("é \ud800")
    print("error", file=sys.stderr)
    assert (tmp_path / "out").read_bytes() == b"\xc3\xa9 \\ud800\n"
    assert (tmp_path / "err").read_text() == "error\n"
    before.restore(Workplace())
    print("goes nowhere")
    assert (tmp_path / "out").read_bytes() == b"\xc3\xa9 \\ud800\n"


@in_a_child
def test_both_streams_may_go_to_one_file_that_exists(tmp_path):
    (tmp_path / "log").write_text("before\n")
    surroundings.take_workplace(Workplace(stdout=str(tmp_path / "log"), stderr=str(tmp_path / "log")))
    print("out")
    print("err", file=sys.stderr)
    assert (tmp_path / "log").read_text() == "before\nout\nerr\n"


@in_a_child
def test_descriptors_of_ours_are_high_and_not_inherited(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for limit in (soft, 200):
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        moved = move_high(1)
        assert moved >= min(HIGH_DESCRIPTOR, limit - 64)
        assert fcntl.fcntl(moved, fcntl.F_GETFD) & fcntl.FD_CLOEXEC


@pytest.mark.skipif(sys.platform != "linux", reason="the stacks are asked for in the same way on all systems")
@in_a_child
def test_stacks_are_written_on_the_signal_until_they_were_asked_for(tmp_path):
    surroundings.arm_stack_dump()
    os.kill(os.getpid(), signal.SIGUSR2)
    until_s = time.monotonic() + 10
    while "most recent call first" not in (tmp_path / "errors").read_text():
        assert time.monotonic() < until_s
    surroundings.dump_stacks()
    size = (tmp_path / "errors").stat().st_size
    os.kill(os.getpid(), signal.SIGUSR2)
    assert (tmp_path / "errors").read_text().count("most recent call first") >= 2
    assert (tmp_path / "errors").stat().st_size == size
