import errno
import os
import subprocess
import sys
import threading
from contextlib import closing

import pytest
from kit import BOUND_S, raiser

from minitune.base import files
from minitune.record import housekeeper
from minitune.record.housekeeper import Housekeeper


class FakeJournal:
    """Tells when it was synced."""

    def __init__(self):
        self.count = 0
        self.synced = threading.Event()

    def sync(self):
        self.count += 1
        self.synced.set()


class VirtualTime:
    """Time that passes only while the housekeeper's thread waits; `at` of a chore says when it was done.

    The thread reads the clock a few times for each chore. One that reads it so often waits busily.
    """

    def __init__(self, monkeypatch):
        self.now_s = 1000.0
        self.reads = 0
        self.at = []
        time_of = self

        class Condition(threading.Condition):
            def wait(self, timeout=None):
                if timeout is None or threading.current_thread() is threading.main_thread():
                    return super().wait(timeout)
                time_of.now_s += timeout
                return False

        monkeypatch.setattr(housekeeper.threading, "Condition", Condition)
        monkeypatch.setattr(housekeeper.time, "monotonic", self.read)

    def read(self):
        self.reads += 1
        assert self.reads < 1000, "the thread waits busily"
        return self.now_s

    def chore(self, name, takes_s=0.0):
        """A sync that takes some time."""

        def sync():
            self.at.append((name, round(self.now_s - 1000.0, 6)))
            self.now_s += takes_s

        return sync

    def trees(self, path):
        """In place of `files.sync_tree_steps`."""
        self.chore(os.path.basename(path))()
        yield


def tree(path):
    (path / "sub").mkdir(parents=True)
    for number in range(3):
        (path / f"file_{number}").write_text("x")
        (path / "sub" / f"file_{number}").write_text("x")
    return path


def thread_names():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("minitune")]


def test_no_thread_until_there_is_something_to_do_and_none_afterwards(tmp_path):
    housekeeper = Housekeeper()
    assert thread_names() == []

    for name in ("old", "another one, after it was closed"):
        housekeeper.delete(str(tree(tmp_path / name)))
        assert thread_names() == ["minitune-housekeeper"]

        housekeeper.close()
        assert thread_names() == []
        assert list(tmp_path.iterdir()) == []
    housekeeper.close()


def test_a_deletion_that_fails_is_logged_and_ends_nothing(tmp_path, monkeypatch, caplog):
    real = files.remove_tree_steps

    def fail(path):
        if path.endswith("bad"):
            raise PermissionError(13, "no")
        yield from real(path)

    monkeypatch.setattr(files, "remove_tree_steps", fail)
    with closing(Housekeeper()) as housekeeper:
        for name in ("bad", "never there"):
            housekeeper.delete(str(tmp_path / name))
        housekeeper.delete(str(tree(tmp_path / "good")))

    assert not (tmp_path / "good").exists()
    (message,) = caplog.messages
    assert "bad could not be removed" in message


def test_a_forgotten_journal_is_not_synced():
    journal = FakeJournal()
    housekeeper = Housekeeper()
    housekeeper.sync_soon(journal.sync)
    housekeeper.forget_sync()
    housekeeper.close()

    assert journal.count == 0


@pytest.mark.parametrize("chore", ["sync_tree_steps", "remove_tree_steps"])
def test_a_record_is_synced_while_a_large_checkpoint_is_synced_or_removed(monkeypatch, bound_s, chore):
    journal, has_begun = FakeJournal(), threading.Event()
    was_synced = []

    def slow(path):
        has_begun.set()
        was_synced.append(journal.synced.wait(bound_s(10)))
        yield

    monkeypatch.setattr(files, chore, slow)
    with closing(Housekeeper()) as housekeeper:
        (housekeeper.sync_checkpoint if chore == "sync_tree_steps" else housekeeper.delete)("a/huge")
        assert has_begun.wait(bound_s(10))
        housekeeper.sync_soon(journal.sync)
        assert housekeeper.wait_idle(bound_s(10))
    assert was_synced == [True]


def test_a_checkpoint_counts_as_synced_when_its_record_is_synced_after_its_files(tmp_path):
    directory = str(tree(tmp_path / "checkpoint_000000"))
    seen = []

    def steps(path):
        yield seen.append("files")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "sync_tree_steps", steps)
        housekeeper = Housekeeper()
        housekeeper.sync_records = lambda: seen.append("record")
        housekeeper.sync_checkpoint(directory)
        housekeeper.close()
    assert seen == ["files", "record"]
    assert housekeeper.needs(directory)


def test_close_gives_up_on_deletions_after_its_limit(tmp_path, monkeypatch):
    def endless(path):
        while True:
            yield

    monkeypatch.setattr(files, "remove_tree_steps", endless)
    housekeeper = Housekeeper()
    housekeeper.delete(str(tmp_path / "huge"))
    housekeeper.delete(str(tmp_path / "huge too"))
    housekeeper.close(limit_s=0.05)

    assert thread_names() == []


def test_only_the_newest_checkpoint_of_a_trial_waits_to_be_synced(tmp_path, bound_s):
    directories = [tree(tmp_path / f"checkpoint_{n:06d}") for n in range(5)]
    housekeeper = Housekeeper()
    for directory in directories:
        housekeeper.sync_checkpoint(str(directory))
    housekeeper.close()

    assert [housekeeper.needs(str(directory)) for directory in directories] == [False] * 4 + [True]


def test_a_checkpoint_that_is_just_being_synced_has_to_stay(tmp_path, monkeypatch):
    directory, has_begun, goes_on = tree(tmp_path / "checkpoint_000000"), threading.Event(), threading.Event()

    def sync(descriptor):
        has_begun.set()
        goes_on.wait(BOUND_S)

    monkeypatch.setattr(files, "sync_descriptor", sync)
    with closing(Housekeeper()) as housekeeper:
        housekeeper.sync_checkpoint(str(directory))
        assert has_begun.wait(BOUND_S)
        must_stay = housekeeper.needs(str(directory))
        goes_on.set()
    assert must_stay


@pytest.mark.parametrize("is_of_disk", [False, True])
def test_only_an_error_of_the_disk_is_told_as_such(tmp_path, monkeypatch, caplog, is_of_disk):
    error = OSError(errno.EIO if is_of_disk else errno.EACCES, "on purpose")
    monkeypatch.setattr(files, "sync_tree_steps", raiser(error))
    told = []
    housekeeper = Housekeeper()
    housekeeper.disk_failed = lambda path, error: told.append(error)
    housekeeper.sync_checkpoint(str(tmp_path))
    housekeeper.close()
    assert told == [error] * is_of_disk
    assert ("could not be synced to the disk" in caplog.text) is not is_of_disk


def test_a_checkpoint_that_is_gone_is_not_synced(tmp_path, caplog):
    housekeeper = Housekeeper()
    housekeeper.sync_checkpoint(str(tmp_path / "gone"))
    housekeeper.close()

    assert not housekeeper.needs(str(tmp_path / "gone"))
    assert caplog.text == ""


def test_an_interpreter_that_ends_without_close_does_not_hang(tmp_path):
    script = (
        "import sys; from minitune.record.housekeeper import Housekeeper; "
        "from minitune.record.journal import Journal; from minitune.record import records;"
        "log = Journal(sys.argv[1], Housekeeper(), is_new=True);"
        "log.append(records.run('n', metric=None, mode=None, seed=0, space_keys=[], trainable='t', versions={}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "journal")], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_record_is_synced_within_100_ms_and_the_thread_sleeps_until_then(monkeypatch):
    time = VirtualTime(monkeypatch)
    with closing(Housekeeper()) as keeper:
        for name in ("first", "second"):
            begin_s = time.now_s
            keeper.sync_soon(time.chore(name))
            assert keeper.wait_idle(BOUND_S)
            assert 0 < time.now_s - begin_s <= 0.1
    assert [name for name, _ in time.at] == ["first", "second"]


def test_syncs_of_a_slow_disk_take_a_twentieth_of_the_time(monkeypatch):
    time = VirtualTime(monkeypatch)
    with closing(Housekeeper()) as keeper:
        for _ in range(3):
            keeper.sync_soon(time.chore("sync", takes_s=0.1))
            assert keeper.wait_idle(BOUND_S)
    (_, first_s), (_, second_s), (_, third_s) = time.at
    assert first_s <= 0.1
    assert (second_s - first_s, third_s - second_s) == (pytest.approx(2.0), pytest.approx(2.0))


def test_the_newest_checkpoint_of_a_trial_is_synced_one_second_after_the_one_before(monkeypatch):
    time = VirtualTime(monkeypatch)
    monkeypatch.setattr(files, "sync_tree_steps", time.trees)
    with closing(Housekeeper()) as keeper:
        for name in ("a/0", "b/1", "a/2"):
            keeper.sync_checkpoint(name)
            assert keeper.wait_idle(BOUND_S)
    assert time.at == [("0", 0.0), ("1", 0.0), ("2", 1.0)]


def test_records_are_synced_at_the_end_also_if_there_is_no_time_for_the_rest(monkeypatch):
    time = VirtualTime(monkeypatch)
    monkeypatch.setattr(files, "sync_tree_steps", time.trees)
    for limit_s, done in ((10.0, ["0", "1", "record"]), (-1.0, ["0", "record"])):
        time.at.clear()
        keeper = Housekeeper()
        keeper.sync_checkpoint("a/0")
        assert keeper.wait_idle(BOUND_S)
        with keeper._files.changed, keeper._records.changed:  # so that the threads find it at the end
            keeper.sync_checkpoint("a/1")
            keeper.sync_soon(time.chore("record"))
            keeper._files._close_by = time.now_s + limit_s
        keeper.close(limit_s)
        assert sorted(name for name, _ in time.at) == done
