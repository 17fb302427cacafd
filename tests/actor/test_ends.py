"""What is told of the end of an actor: its kind, its cause in words, and the last lines of its output."""

import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from minitune.actor.launcher import End
from minitune.actor.messages import (
    DUMP_LINES,
    INTERRUPTED_EXIT,
    LAST_LINES,
    NO_THREAD_EXIT,
    STOP_SWALLOWED_EXIT,
    Exited,
    NotReset,
    Started,
    Workplace,
)
from minitune.actor.process import CHANNEL_CLOSED, last_lines
from minitune.actor.remote_actor import RAISED_IN_OUR_CODE, ActorPhase, RemoteActor

KILLED = -int(signal.SIGKILL)
LATE = "did not end within the grace period of 10 s and was killed"


def end_of(phase, end, cause="", evidence="", shows=False, **place):
    """What is told when the process of an actor in this phase ends."""
    told = []
    process = SimpleNamespace(
        pid=77, phase=None, cause=cause, memory_kills=SimpleNamespace(claim=lambda: evidence), number=0
    )
    started = Started("a", 0, "", None)
    actor = RemoteActor(process, started, Workplace(**place), told.append)
    actor.phase = phase
    actor._shows_stacks = shows
    actor.on_end(end)
    [event] = told
    return event


@pytest.mark.parametrize(
    ("phase", "end", "cause", "told"),
    [
        ("BUSY", End(exit_code=3), "", ("died", "exit code 3", 0)),
        ("BUSY", End(exit_code=0), "", ("died", "exit code 0", 0)),
        ("BUSY", End(exit_code=-11), "", ("died", "SIGSEGV (11)", 11)),
        ("BUSY", End(exit_code=KILLED), "", ("died", "SIGKILL (9)", 9)),
        ("BUSY", End(exit_code=None), "", ("died", "exit status unknown", 0)),
        ("BUSY", End(exit_code=INTERRUPTED_EXIT), "", ("died", RAISED_IN_OUR_CODE, 0)),
        ("BUSY", End(exit_code=KILLED), CHANNEL_CLOSED, ("died", CHANNEL_CLOSED, 0)),
        ("BUSY", End(exit_code=4), CHANNEL_CLOSED, ("died", "exit code 4", 0)),
        ("BUSY", End(exit_code=0), CHANNEL_CLOSED, ("died", CHANNEL_CLOSED, 0)),
        ("BUSY", End(exit_code=KILLED), "protocol: garbage", ("died", "protocol: garbage", 0)),
        ("MAKING", End("refused", "no process"), "", ("refused", "no process", 0)),
        ("BUSY", End("lost", "the zygote ended", pid=5), "", ("lost", "the zygote ended", 0)),
        ("TAKEN", End(exit_code=3), "", ("lost", "its worker has died before it began", 0)),
        ("STOPPING", End(exit_code=0), "", ("stopped", "stopped", 0)),
        ("QUITTING", End(exit_code=0), "", ("stopped", "stopped", 0)),
        ("PARKED", End(exit_code=0), "", ("stopped", "stopped", 0)),
        ("STOPPING", End(exit_code=KILLED), LATE, ("stopped", LATE, 0)),
        ("STOPPING", End(exit_code=KILLED), "", ("stopped", "SIGKILL (9)", 9)),
        ("STOPPING", End(exit_code=3), "", ("stopped", "exit code 3", 0)),
        ("BUSY", End(exit_code=STOP_SWALLOWED_EXIT), "", ("died", f"exit code {STOP_SWALLOWED_EXIT}", 0)),
        ("BUSY", End(exit_code=KILLED, survivors=True), "", ("died", "could not be killed, pid 77", 9)),
        ("STOPPING", End(pid=5, exit_code=None, survivors=True), LATE, ("stopped", "could not be killed, pid 5", 0)),
    ],
)
def test_each_end_has_its_kind_its_cause_and_its_signal(phase, end, cause, told):
    event = end_of(ActorPhase[phase], end, cause)
    assert isinstance(event, Exited)
    assert (event.kind, event.cause, event.signal) == told
    assert (event.exit_code, event.survivors) == (end.exit_code, end.survivors)


def test_a_stop_that_was_caught_is_the_cause_of_its_end():
    event = end_of(ActorPhase.STOPPING, End(exit_code=STOP_SWALLOWED_EXIT))
    assert event.kind == "stopped"
    assert event.cause.startswith("it was told to stop, but ")


def test_lack_of_memory_is_told_only_with_evidence_and_if_nothing_was_stopped():
    killed = End(exit_code=KILLED)
    event = end_of(ActorPhase.BUSY, killed, evidence="the count rose")
    assert (event.cause, event.signal) == ("SIGKILL (9), out of memory: the count rose", 0)
    assert end_of(ActorPhase.STOPPING, killed, evidence="the count rose").cause == "SIGKILL (9)"
    assert end_of(ActorPhase.BUSY, End(exit_code=-15), evidence="the count rose").cause == "SIGTERM (15)"


def test_what_was_used_until_the_end_is_told():
    end = End("died", "", 5, 0, peak_bytes=1_000, ended_s=7.0)
    event = end_of(ActorPhase.BUSY, end)
    assert (event.pid, event.peak_bytes, event.ended_s, event.counts) == (5, 1_000, 7.0, True)
    assert end_of(ActorPhase.BUSY, end._replace(pid=0)).pid == 77
    assert not end_of(ActorPhase.BUSY, end._replace(kind="lost", reason="the zygote ended")).counts


def test_a_worker_without_a_thread_was_refused_only_while_it_started():
    end = End(exit_code=NO_THREAD_EXIT)
    refused = end_of(ActorPhase.MAKING, end)
    assert refused.kind == "refused"
    assert refused.cause.startswith("its process could not start a thread")
    assert end_of(ActorPhase.BUSY, end).cause == f"exit code {NO_THREAD_EXIT}"


def test_a_process_that_dies_while_it_is_handed_on_is_no_end_of_the_next_actor():
    assert end_of(ActorPhase.MOVING, End(exit_code=3)) == NotReset("a", "it has died")


# -- the last lines ----------------------------------------------------------------------------------------------------


def test_the_last_lines_are_told_of_bad_ends(tmp_path):
    (tmp_path / "out").write_text("".join(f"line {number}\n" for number in range(100)))
    place = {"stdout": str(tmp_path / "out"), "stderr": str(tmp_path / "out")}
    lines = end_of(ActorPhase.BUSY, End(exit_code=0), **place).last_lines.splitlines()
    assert lines == [f"line {number}" for number in range(100 - LAST_LINES, 100)]
    assert end_of(ActorPhase.STOPPING, End(exit_code=3), **place).last_lines.splitlines() == lines
    assert end_of(ActorPhase.STOPPING, End(exit_code=0), **place).last_lines == ""
    dumped = end_of(ActorPhase.STOPPING, End(exit_code=0), shows=True, **place).last_lines.splitlines()
    assert dumped == [f"line {number}" for number in range(max(0, 100 - DUMP_LINES), 100)]


def test_errors_come_last_and_missing_files_have_no_lines(tmp_path):
    out, err = str(tmp_path / "out"), str(tmp_path / "err")
    assert last_lines(Workplace(stdout=out, stderr=err)) == ""
    Path(err).write_text("error 1\nerror 2")
    Path(out).write_text("out 1\nout 2\n")
    assert last_lines(Workplace(stdout=out, stderr=err)) == "out 1\nout 2\nerror 1\nerror 2"
    assert last_lines(Workplace(stdout=out, stderr=err), 3) == "out 2\nerror 1\nerror 2"
    assert last_lines(Workplace(stdout=out)) == "out 1\nout 2"
    assert last_lines(Workplace()) == ""
