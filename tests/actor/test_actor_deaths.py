"""How actors end, and that nothing is left of them."""

import fcntl
import os
import select
import signal
import subprocess
import sys
import termios
import threading
from functools import partial
from pathlib import Path
from selectors import DefaultSelector

import psutil
import pytest
from actor_driver import PYTHONPATH, Driver, Group, however_it_started
from actor_samples import FOREVER_S, Counter, Family, Hosted, Sleeper
from kit import BOUND_S, is_gone, marked_processes, raiser, read_pids, wait_until

from minitune.actor import interpreter_launcher
from minitune.actor.messages import CallRaised, CallReturned, Exited, Returned, Workplace, encode

SCRIPTS = Path(__file__).with_name("scripts")


def test_reply_in_the_pipe_survives_the_kill_of_its_worker(driver, tmp_path, monkeypatch):
    """The reply comes first, then one end; end-of-file would never come, since the forked child has the channel too.

    The loop hears of the death before it finds the reply, as on a busy machine.
    """
    size_bytes = 100_000
    pid = driver.start("a")
    pipe, really_select = driver.group._actors["a"].remote.process.work._socket.fileno(), DefaultSelector.select
    monkeypatch.setattr(
        DefaultSelector, "select", lambda *args: [found for found in really_select(*args) if found[0].fd != pipe]
    )
    driver.group.call("a", "call", partial(_fork_reply_and_die, str(tmp_path / "pids"), size_bytes))
    [child] = read_pids(tmp_path / "pids", 1)
    wait_until(lambda: is_gone(pid), "the worker is dead")
    reply = driver.next("a")
    assert isinstance(reply, CallReturned)
    assert reply.value == "w" * size_bytes
    assert driver.ended("a").cause == "SIGKILL (9)"
    assert is_gone(child)


def _fork_reply_and_die(pid_file, size_bytes):
    """Fork a child that lives on and kills its parent as soon as the value of this call is in the pipe."""
    parent = os.getpid()
    if os.fork() == 0:
        try:
            with open(pid_file, "w") as file:
                file.write(f"{os.getpid()}\n")
            wait_until(lambda: max(map(_unread_bytes, _channels())) >= size_bytes, "the answer is in the pipe")
            os.kill(parent, signal.SIGKILL)
            signal.pause()
        finally:
            os._exit(0)
    return "w" * size_bytes


def _channels():
    """The control channel of this process: the one socket at a high number."""
    return [int(name) for name in os.listdir("/proc/self/fd") if int(name) >= 1000]


def _unread_bytes(descriptor):
    try:
        return int.from_bytes(fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(4)), sys.byteorder)
    except OSError:  # a kept standard stream
        return 0


@however_it_started
def test_half_a_message_is_dropped(driver):
    pid = driver.start("a")
    pipe = driver.group._actors["a"].remote.process.work._socket
    driver.group.call("a", "call", bytes, 30_000_000)
    # It has begun to send, and cannot end: the driver does not read, and no pipe holds so much.
    assert select.select([pipe], [], [], BOUND_S)[0]
    os.kill(pid, signal.SIGKILL)
    event = driver.next("a")
    assert isinstance(event, Exited)
    assert event.cause == "SIGKILL (9)"


def test_a_death_that_takes_long_is_not_taken_for_a_closed_channel(driver, monkeypatch):
    """A dying process closes its files first: on a busy machine the end of the channel comes long before the death."""
    monkeypatch.setattr("minitune.actor.process.EOF_S", 0.0)
    for number in range(2):
        driver.start(f"exits {number}")
        driver.group.call(f"exits {number}", "exit_process", 7)
        assert driver.ended(f"exits {number}").cause == "exit code 7"
        driver.start(f"is killed {number}")
        driver.group.call(f"is killed {number}", "raise_signal", signal.SIGKILL)
        assert driver.ended(f"is killed {number}").cause == "SIGKILL (9)"


def test_ctrl_c_before_there_is_any_user_code_ends_a_worker_by_that_signal():
    command = [sys.executable, SCRIPTS / "waits_for_a_task.py"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        wait_until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_SLEEPING, "it waits for its task")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=BOUND_S)
    assert process.returncode == -signal.SIGINT


@however_it_started
@pytest.mark.parametrize(
    ("written", "answers", "cause"),
    [
        (b"garbage, and enough of it to fill the header of a frame", 0, "protocol: a frame begins with"),
        (b"".join(encode(Returned(1000))), 0, "protocol: call 1000 was answered, but the last one was 1"),
        (b"".join(encode(Returned(1))), 1, "protocol: a driver does not expect "),
    ],
    ids=["garbage", "another answer", "two answers"],
)
def test_a_worker_that_writes_to_the_channel_is_killed(driver, written, answers, cause):
    """Which answer is wrong is unknown, and one ahead would be waited for."""
    driver.start("a")
    driver.group.call("a", "call", _write_to_channels, written)
    for _ in range(answers):
        assert isinstance(driver.next("a"), CallReturned)
    event = driver.ended("a")
    assert event.cause.startswith((cause, "control channel closed"))


def _write_to_channels(data):
    for descriptor in _channels():
        os.write(descriptor, data)


@pytest.mark.usefixtures("time_to_clean_up")
def test_after_the_grace_period_user_code_is_unwound_and_its_stack_shown_once(driver, tmp_path):
    for name, dump in (("a", True), ("b", False)):
        pids, err = tmp_path / name, tmp_path / f"{name}.err"
        driver.start(name, partial(Sleeper, str(pids)), workplace=Workplace(stderr=str(err)))
        driver.group.call(name, "sleep_and_clean_up")
        read_pids(pids, 1)
        driver.group.stop(name, 0.1, dump=dump)
        event = driver.ended(name)
        assert (event.cause, event.exit_code) == ("stopped", 0)
        assert (tmp_path / f"{name}.cleaned").read_text() == "yes"
        assert err.read_text().count("in sleep_and_clean_up") == 1
        assert event.last_lines.count("in sleep_and_clean_up") == 1


@however_it_started
@pytest.mark.parametrize("method", ["ignore_everything", "hold_the_gil"])
def test_a_worker_that_ignores_the_stop_is_killed(driver, tmp_path, method):
    driver.start("a", partial(Sleeper, str(tmp_path / "pids")), workplace=Workplace(stderr=str(tmp_path / "err")))
    driver.group.call("a", method)
    read_pids(tmp_path / "pids", 1)
    event = driver.stop("a", grace_s=0.1)
    assert event.kind == "stopped"
    assert f"in {method}" in event.last_lines
    if method == "ignore_everything":
        assert event.exit_code == -9
        assert "grace period of 0.1 s" in event.cause


@however_it_started
def test_a_second_stop_shortens_the_grace_period(driver, tmp_path):
    driver.start("a", partial(Sleeper, str(tmp_path / "pids")))
    driver.group.call("a", "sleep")
    read_pids(tmp_path / "pids", 1)
    driver.group.stop("a", 1000.0)
    assert driver.stop("a", grace_s=0.0).kind == "stopped"


def test_descendants_of_every_kind_are_gone_with_the_end(driver, tmp_path):
    pids, families = {}, {}
    for end in ("stop", "kill", "killed", "exit", "term"):
        pids[end] = driver.start(end, partial(Family, str(tmp_path / end)))
        families[end] = read_pids(tmp_path / end, driver.call(end, "start_all"))
        assert len(set(families[end])) == len(Family.KINDS)
    driver.group.stop("stop", BOUND_S)
    driver.group.kill("kill")
    os.kill(pids["killed"], signal.SIGKILL)
    driver.group.call("exit", "leave")
    driver.group.call("term", "sleep")
    driver.group.stop("term", 0.05)
    for end, family in families.items():
        event = driver.ended(end)
        assert [member for member in family if not is_gone(member)] == [], end
        assert not event.survivors
        assert event.kind == ("stopped" if end in ("stop", "term") else "died")


@pytest.mark.skipif(sys.platform != "linux", reason="the zygote needs Linux")
def test_a_process_with_an_environment_of_its_own_is_gone_with_the_end(monkeypatch):
    monkeypatch.setenv("MINITUNE_START_METHOD", "zygote")
    with Group() as group:
        driver = Driver(group)
        pid = driver.start("a")
        child = driver.call("a", "call", _start_with_an_environment)
        os.kill(pid, signal.SIGKILL)
        assert not driver.ended("a").survivors
        assert is_gone(child)


def _start_with_an_environment():
    return subprocess.Popen(["sleep", str(FOREVER_S)], env={"LANG": "C"}).pid


@however_it_started
@pytest.mark.usefixtures("time_to_clean_up")
def test_processes_of_a_trial_that_does_not_stop_may_clean_up(driver, tmp_path):
    driver.start("a")
    driver.group.call("a", "call", _outlive_a_child, str(tmp_path))
    wait_until(lambda: (tmp_path / "ready").exists(), "the child waits")
    driver.group.stop("a", 0.05)
    driver.ended("a")
    assert (tmp_path / "cleaned up").exists()


def _outlive_a_child(directory):
    """Ignores the stop, and ends when its child has cleaned up."""
    script = 'trap \'touch "$0/cleaned up"; exit\' TERM; touch "$0/ready"; while :; do sleep 0.01; done'
    child = subprocess.Popen(["sh", "-c", script, directory])
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child.wait()
    os._exit(0)


@however_it_started
def test_a_process_forked_by_the_trial_gets_the_default_for_sigterm(driver, tmp_path):
    driver.start("a")
    assert driver.call("a", "call", _terminate_a_child) == -signal.SIGTERM


def _terminate_a_child():
    child = os.fork()
    if child == 0:
        try:
            signal.pause()
        finally:
            os._exit(0)
    os.kill(child, signal.SIGTERM)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@however_it_started
def test_a_forked_child_that_comes_back_from_user_code_does_not_answer(driver):
    driver.start("a")
    pid = driver.call("a", "call", _fork_and_return)
    assert pid == driver.group.pids()["a"]
    assert driver.call("a", "add", 1) == 1


def _fork_and_return():
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    return os.getpid()


@pytest.mark.parametrize(
    ("start_method", "owner", "name", "value", "cause"),
    [
        *(
            (method, sys, "executable", "/no/such/interpreter", "no/such/interpreter")
            for method in ("zygote", "interpreter")
        ),
        # a thread waits for each new interpreter
        ("interpreter", threading.Thread, "start", raiser(RuntimeError("can't start new thread")), "can't start new"),
    ],
    indirect=["start_method"],
)
def test_a_process_that_cannot_be_started_or_watched_is_not_the_trials_fault(
    start_method, owner, name, value, cause, monkeypatch
):
    with Group() as group:
        driver = Driver(group)
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, value)
            group.start_in("a", partial(Hosted, factory=Counter))
            event = driver.ended("a")
        assert (event.kind, event.counts) == ("refused", False)
        assert cause in event.cause
        driver.start("b")


def test_a_closed_group_leaves_nothing(start_method, tmp_path):
    group = Group()
    driver = Driver(group)
    driver.start("idle")
    driver.start("busy", partial(Sleeper, str(tmp_path / "pids")))
    group.call("busy", "ignore_everything")
    read_pids(tmp_path / "pids", 1)
    group.start_in("starting", partial(Hosted, factory=Counter))
    group.shutdown()
    assert marked_processes(group.run_id) == []
    group.shutdown()
    with pytest.raises(RuntimeError, match="shut down"):
        group.wait(0)


def test_a_group_that_is_dropped_leaves_nothing(start_method):
    group = Group()
    driver = Driver(group)
    pid = driver.start("a")
    del driver, group
    wait_until(lambda: is_gone(pid), "the worker of a dropped group is gone")


_DRIVER = SCRIPTS / "driver_that_dies.py"


@pytest.mark.parametrize(
    ("how", "start_method"),
    [
        ("kill", "zygote"),
        ("kill", "interpreter"),
        ("exit", "zygote"),
        ("kill after its children are stopped", "zygote"),
    ],
    indirect=["start_method"],
)
def test_when_the_driver_dies_all_die(start_method, tmp_path, script, how):
    """Even a daemon. Of a zygote, also a worker that holds the GIL, although a process forked from the driver lives."""
    command = [sys.executable, str(script.write(_DRIVER)), how, str(tmp_path)]
    driver = script.start_command(command, PYTHONPATH=PYTHONPATH)
    run_id = driver.stdout.readline().strip()
    assert run_id
    forked = read_pids(tmp_path / "fork", 1) if start_method == "zygote" else []
    try:
        if "stopped" in how:
            if sys.platform != "linux":
                pytest.skip("only Linux continues a stopped process when its parent ends")
            for child in psutil.Process(driver.pid).children():
                if child.pid not in forked:
                    child.suspend()
        if how != "exit":
            driver.kill()
        assert driver.wait(BOUND_S) == (3 if how == "exit" else -9)
        wait_until(lambda: marked_processes(run_id) == [], "all of the run is gone")
    finally:
        for pid in forked:
            os.kill(pid, signal.SIGKILL)
        for process in marked_processes(run_id):
            process.kill()


@however_it_started
def test_an_interrupt_in_user_code_is_a_failed_call(driver, tmp_path):
    pid = driver.start("a", partial(Sleeper, str(tmp_path / "pids")))
    driver.group.call("a", "sleep")
    read_pids(tmp_path / "pids", 1)
    os.kill(pid, signal.SIGINT)
    event = driver.next("a")
    assert isinstance(event, CallRaised)
    assert event.error.type_name == "KeyboardInterrupt"


@pytest.mark.parametrize("start_method", ["interpreter"], indirect=True)
def test_a_process_that_outlived_its_worker_is_killed_at_the_end(driver, tmp_path, monkeypatch):
    """One that cannot be killed now, because it hangs in the kernel, may be killed later."""

    def in_vain(loop, markers, on_done, *args):
        loop.call_later(0.0, partial(on_done, True))

    pid = driver.start("a", partial(Family, str(tmp_path / "pids")))
    pids = read_pids(tmp_path / "pids", driver.call("a", "start_all"))
    with monkeypatch.context() as patch:
        patch.setattr(interpreter_launcher, "Sweep", in_vain)
        os.kill(pid, signal.SIGKILL)
        assert driver.ended("a").survivors
    assert not all(map(is_gone, pids))
    driver.group.shutdown()
    assert all(map(is_gone, pids))
