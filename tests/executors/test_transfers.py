"""Files between a node of a cluster and the driver's machine. Both sides are in this process, without Ray."""

import errno
import os
import tempfile
from pathlib import Path

import pytest

from minitune.checkpoint import directory_name, temporary_directory
from minitune.error import DiskError, RemoteError
from minitune.ray.cluster import files as ray_files
from minitune.ray.cluster.files import (
    Delivery,
    FileTransfer,
    Home,
    Scratch,
    new_landmark,
    remove_leftovers,
    write_piece,
)


class Node:
    """A trial on a node that does not see the run's directory, and the way of requests to it."""

    def __init__(self, scratch, home):
        self.scratch = scratch
        scratch.settle(home)
        self.transfer = FileTransfer(home, False, "trial#1")
        self.restored = []
        self.requests = []

    def save(self, number, **contents):
        saved = Path(self.scratch.trial, directory_name(number))
        saved.mkdir()
        for name, content in contents.items():
            (saved / name).write_bytes(content)

    def answer(self, verb, *args):
        import pickle

        self.requests.append(verb)
        if verb == "report":
            return Delivery(checkpoints=args, output=self.scratch.new_output())
        try:
            if verb == "restore":
                self.restored.append(self.scratch.received)
                value = "restored"
            else:
                value = None if verb == "output" else getattr(self.scratch, verb)(*args)
        except Exception as error:
            return Delivery(error=RemoteError.of(error))
        return Delivery(pickle.dumps(value), output=self.scratch.new_output())

    def follow(self, steps, most=1000):
        """Carry out so many steps, and return their outcome."""
        answer = None
        try:
            for _ in range(most):
                answer = self.answer(*steps.send(answer))
        except StopIteration as end:
            return end.value
        return None


@pytest.fixture
def home(tmp_path):
    directory = tmp_path / "run" / "trial"
    directory.mkdir(parents=True)
    return Home(str(directory), (str(directory / "stdout"), str(directory / "stderr")), True)


@pytest.fixture
def node(tmp_path, home, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(ray_files, "PIECE_BYTES", 1000)
    scratch = Scratch("run-1")
    yield Node(scratch, home)
    scratch.settle(home)  # for the next trial
    scratch.remove()


def saved(home, number, name="a"):
    return Path(home.directory, directory_name(number), name).read_bytes()


def left(home):
    return sorted(path.name for path in Path(home.directory).iterdir())


def test_checkpoints_of_one_answer_come_in_their_order(node, home):
    """The trial keeps the latest one on its node, in case it asks for it."""
    node.save(0, a=b"0" * 3500, b=b"")
    node.save(1, a=b"1")

    assert node.follow(node.transfer.ask("report", 0, 1)) == (None, None)
    assert (saved(home, 0), saved(home, 0, "b"), saved(home, 1)) == (b"0" * 3500, b"", b"1")
    assert os.listdir(node.scratch.trial) == [directory_name(1)]


def test_a_stop_in_the_middle_leaves_nothing(node, home):
    node.save(0, a=b"0" * 3500)
    steps = node.transfer.ask("report", 0)
    node.follow(steps, most=3)
    assert left(home)
    steps.close()

    assert not left(home)


def test_on_a_shared_disk_only_the_name_is_given(node, home):
    Path(temporary_directory(home.directory, 3, 1), "a").write_bytes(b"3")
    transfer = FileTransfer(home, True, "trial#1")

    assert node.follow(transfer.ask("report", 3)) == (None, None)
    assert saved(home, 3) == b"3"
    assert node.requests == ["report"]


def test_a_checkpoint_that_the_node_cannot_read_is_named(node, home):
    with pytest.raises(OSError, match="checkpoint 7 could not be read on its node: FileNotFoundError"):
        node.follow(node.transfer.ask("report", 7))
    assert not left(home)


@pytest.mark.parametrize("is_seen", [False, True])
def test_a_full_disk_of_the_run_ends_the_run(node, home, monkeypatch, is_seen):
    """No look at the disk: it may have room again when a trial beside this one has removed its own half copy."""

    def refuse(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    node.save(0, a=b"0")
    monkeypatch.setattr(ray_files, "rename_prepared" if is_seen else "write_piece", refuse)
    with pytest.raises(DiskError, match="No space left") as caught:
        node.follow(FileTransfer(home, is_seen, "trial#1").ask("report", 0))

    assert caught.value.run_path == os.path.dirname(home.directory)
    assert not left(home)


def test_output_that_cannot_be_written_ends_the_run(node, home):
    full = home._replace(outputs=("/dev/full", "/dev/full"))

    with pytest.raises(DiskError, match="No space left"):
        FileTransfer(full, False, "trial#1").write_output((b"x", b""))


def test_long_output_comes_whole(node, home):
    Path(node.scratch.settle(home).stdout).write_bytes(b"o" * 2500)
    node.follow(node.transfer.drain())

    assert Path(home.outputs[0]).read_bytes() == b"o" * 2500


def test_one_file_for_both_streams_stays_one(node, home):
    place = node.scratch.settle(home._replace(outputs=(home.outputs[0], home.outputs[0])))

    assert place.stdout == place.stderr


def test_a_restore_sends_the_directory_first(node, tmp_path):
    donor = tmp_path / "donor"
    donor.mkdir()
    (donor / "a").write_bytes(b"d" * 2500)

    assert node.follow(node.transfer.restore(str(donor), b"")) == ("restored", None)
    (received,) = map(Path, node.restored)
    assert received.name == "donor"
    assert (received / "a").read_bytes() == b"d" * 2500
    with pytest.raises(FileNotFoundError, match="does not exist any more"):
        node.follow(node.transfer.restore(str(tmp_path / "gone"), b""))


def test_a_received_checkpoint_is_apart_from_the_trials_own_ones(node, home, tmp_path):
    """A member of a population gets the checkpoint of another one, under a number that it will reach itself."""
    for name in ("before", "donor"):
        (tmp_path / name / directory_name(1)).mkdir(parents=True)
        (tmp_path / name / directory_name(1) / name).write_bytes(b"d")
        node.follow(node.transfer.restore(str(tmp_path / name / directory_name(1)), b""))
    received = Path(node.restored[-1])
    assert os.listdir(received) == ["donor"]
    node.save(0, a=b"0")
    node.save(1, a=b"1")
    assert received.exists()
    node.follow(node.transfer.ask("report", 0, 1))

    assert (saved(home, 0), saved(home, 1)) == (b"0", b"1")
    assert not received.exists()  # from now on, the trial asks for its own


def test_the_next_trial_of_a_process_finds_no_received_checkpoint(node, home, tmp_path):
    donor = tmp_path / directory_name(0)
    donor.mkdir()
    node.follow(node.transfer.restore(str(donor), b""))
    node.scratch.settle(home)

    assert not Path(node.restored[0]).exists()


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x", "link/x", "link/b/"])
def test_a_node_cannot_write_elsewhere(tmp_path, name):
    with pytest.raises(ValueError, match="not the name of an entry"):
        write_piece([ray_files.FilePart("link", link=".."), ray_files.FilePart(name)], str(tmp_path))


def test_a_checkpoint_that_is_not_there_may_be_in_a_copy_of_the_directory(node, home):
    with pytest.raises(FileNotFoundError, match=r"checkpoint 3, but it is not in .*trial: .* has a copy"):
        node.follow(FileTransfer(home, True, "trial#1").ask("report", 3))


def test_the_landmark_of_a_killed_driver_goes_with_the_next_one(tmp_path):
    new_landmark(str(tmp_path))

    landmark = new_landmark(str(tmp_path))

    assert list(tmp_path.iterdir()) == [Path(landmark)]


def test_what_killed_processes_have_left_goes_after_a_while(tmp_path, monkeypatch):
    """But nothing of a process that lives, and nothing that has just been made."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    scratches = [Scratch(name) for name in ("alive-1", "dead-1", "fresh-1")]
    for scratch in scratches[1:]:
        scratch._lock.close()  # as the system does when a process ends
    for path in tmp_path.iterdir():
        if "fresh" not in str(path):
            os.utime(path, (0, 0))
    remove_leftovers()

    assert sorted(path.name for path in tmp_path.iterdir()) == ["minitune-ray-alive-1", "minitune-ray-fresh-1"]
    scratches[0].remove()
