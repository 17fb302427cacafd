"""A checkpoint that a node of a cluster has written gets its name from the driver. Without Ray."""

import errno
import os
from pathlib import Path

import pytest

from minitune import Resources
from minitune.actor.messages import Workplace
from minitune.checkpoint import directory_name, temporary_directory
from minitune.error import DiskError
from minitune.executors.trial_executor import ActorSpec
from minitune.ray.cluster import process
from minitune.ray.cluster.process import ActorOnCluster


@pytest.fixture
def actor(tmp_path):
    directory = tmp_path / "run" / "trial"
    directory.mkdir(parents=True)
    return ActorOnCluster(ActorSpec("trial#1", object, Resources([{}]), str(directory)), Workplace())


def test_the_driver_gives_the_name(actor):
    directory = actor.spec.directory
    Path(temporary_directory(directory, 3, 1), "a").touch()
    actor.commit(3)

    assert os.listdir(directory) == [directory_name(3)]


def test_one_that_is_not_there_may_be_in_a_copy_of_the_directory(actor):
    """That of another attempt is not taken."""
    temporary_directory(actor.spec.directory, 3, 2)
    with pytest.raises(FileNotFoundError, match=r"checkpoint 3, but it is not in .*trial: .* has a copy"):
        actor.commit(3)


def test_a_full_disk_of_the_run_ends_the_run(actor, monkeypatch):
    """No look at the disk: it may have room again when a trial beside this one has removed its own half copy."""

    def refuse(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(process, "rename_prepared", refuse)
    with pytest.raises(DiskError, match="No space left") as caught:
        actor.commit(0)

    assert caught.value.run_path == os.path.dirname(actor.spec.directory)
