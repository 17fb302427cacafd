import errno
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
from kit import raiser

from minitune.error import RunLockedError, TuneError
from minitune.record.lock import RunLock, driver_pid


def command_that_takes(path, then):
    """A command that takes the lock, and then does what a function of the script says."""
    return [sys.executable, str(Path(__file__).with_name("scripts") / "takes_a_lock.py"), str(path), then]


@contextmanager
def other_process(path, then="hold"):
    """A process that holds the lock."""
    command = command_that_takes(path, then)
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with process:
        try:
            assert process.stdout.readline() == b"held\n"
            yield process
        finally:
            process.kill()


def test_a_second_process_is_refused_and_told_who_holds_it(tmp_path):
    (tmp_path / "lock").write_text(str(os.getpid()))
    assert driver_pid(tmp_path / "lock") is None, "the kernel says it, and not the file"
    with other_process(tmp_path / "lock") as process:
        with pytest.raises(RunLockedError, match=rf"in use by process {process.pid};"):
            RunLock(tmp_path / "lock").acquire()
        assert driver_pid(tmp_path / "lock") == process.pid


@pytest.mark.parametrize("leaves_a_zombie", [0, os.WNOWAIT])
def test_lock_is_free_when_its_holder_is_killed(tmp_path, leaves_a_zombie):
    with other_process(tmp_path / "lock") as process:
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | leaves_a_zombie)
        assert driver_pid(tmp_path / "lock") is None

        with RunLock(tmp_path / "lock") as lock:
            assert lock.is_held


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the end of the main thread does not show")
def test_a_holder_lives_on_without_its_main_thread(tmp_path):
    with other_process(tmp_path / "lock", "hold_without_main_thread") as process:
        assert driver_pid(tmp_path / "lock") is not None
        with pytest.raises(RunLockedError, match=f"process {process.pid};"):
            RunLock(tmp_path / "lock").acquire()


def test_the_same_process_is_refused_too(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    with RunLock(tmp_path / "lock"):
        for path in (tmp_path / "lock", tmp_path / "link" / "lock"):
            with pytest.raises(RunLockedError, match=f"process {os.getpid()};"):
                RunLock(path).acquire()
        with pytest.raises(RunLockedError):  # the attempts above have not released it
            RunLock(tmp_path / "lock").acquire()


def test_lock_is_taken_once_in_a_thread_pool(tmp_path):
    start, got, refused = threading.Barrier(8), [], []

    def compete():
        lock = RunLock(tmp_path / "lock")
        start.wait()
        try:
            lock.acquire()
            got.append(lock)
        except RunLockedError:
            refused.append(lock)

    threads = [threading.Thread(target=compete) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(got) == 1
    assert len(refused) == 7
    got[0].release()


def test_a_released_lock_can_be_taken_again(tmp_path):
    lock = RunLock(tmp_path / "lock")
    for _ in range(3):
        lock.acquire()
        assert driver_pid(tmp_path / "lock") == os.getpid()
        lock.release()
        assert driver_pid(tmp_path / "lock") is None
    lock.release()  # harmless
    with other_process(tmp_path / "lock"), pytest.raises(RunLockedError):
        lock.acquire()


def test_looking_at_the_holder_does_not_release_the_lock(tmp_path):
    with RunLock(tmp_path / "lock"):
        assert driver_pid(tmp_path / "lock") is not None
        command = command_that_takes(tmp_path / "lock", "hold")
        process = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert "RunLockedError" in process.stderr


def test_a_forked_child_does_not_keep_the_lock(tmp_path):
    path = tmp_path / "lock"
    with subprocess.Popen(command_that_takes(path, "fork"), stdin=subprocess.PIPE) as process:
        process.wait()  # the child lives on until its input ends
        with RunLock(path):
            pass


def test_a_missing_directory_is_named(tmp_path):
    with pytest.raises(TuneError, match=r"gone.lock cannot be taken \(No such file"):
        RunLock(tmp_path / "gone" / "lock").acquire()


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOLCK])
def test_without_locks_there_is_no_run(tmp_path, monkeypatch, number):
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr(fcntl, "lockf", raiser(OSError(number, os.strerror(number))))
    lock = RunLock(tmp_path / "lock")
    with pytest.raises(TuneError, match=rf"lock cannot be taken \({os.strerror(number)}\).*another storage_path"):
        lock.acquire()
    assert not lock.is_held


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="descriptors are only shown on Linux")
def test_no_program_inherits_the_file(tmp_path):
    script = "import os; print([os.path.realpath(f'/proc/self/fd/{number}') for number in range(100)])"
    with RunLock(tmp_path / "lock"):
        shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, close_fds=False)

    assert shown.returncode == 0
    assert str(tmp_path) not in shown.stdout


def test_a_lock_whose_file_was_removed_is_missed(tmp_path):
    with RunLock(tmp_path / "lock") as lock:
        assert lock.is_in_place()
        lock_file = Path(lock.path)
        lock_file.unlink()
        assert not lock.is_in_place()
        lock_file.write_text("another file")
        assert not lock.is_in_place()


def test_a_forked_child_that_releases_its_copy_leaves_the_lock(tmp_path):
    with RunLock(tmp_path / "lock") as lock:
        child = os.fork()
        if child == 0:
            is_held = lock.is_held
            lock.release()
            os._exit(is_held)
        assert os.waitpid(child, 0)[1] == 0
        with pytest.raises(RunLockedError):
            RunLock(tmp_path / "lock").acquire()
        refused = subprocess.run(command_that_takes(tmp_path / "lock", "hold"), capture_output=True, text=True)
        assert "RunLockedError" in refused.stderr
