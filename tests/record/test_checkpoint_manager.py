import math
import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from minitune.checkpoint import CheckpointRecord
from minitune.config import CheckpointConfig
from minitune.experiment.lifecycle import Transition
from minitune.experiment.trial import Trial
from minitune.record.checkpoint_manager import CheckpointManager
from minitune.record.housekeeper import Housekeeper


class Removes(Housekeeper):
    """Syncs no checkpoints: which one is synced at a moment depends on the disk."""

    def sync_checkpoint(self, directory):
        """Do nothing."""


class AtOnce(Removes):
    """Deletes in the thread of the caller."""

    def delete(self, path):
        shutil.rmtree(path)


class Run:
    """Trials that commit checkpoints to a real directory. It removes the ones that the manager names."""

    def __init__(self, path, manager):
        self.path = path
        self.manager = manager
        self.dropped = []

    def trial(self, name="a"):
        trial = Trial("train", trial_id=name, experiment_path=str(self.path))
        trial.set_directory(str(self.path), name)
        os.makedirs(trial.local_path)
        return trial

    def commit(self, trial, size=10, **metrics):
        record = CheckpointRecord(trial.next_checkpoint, 1, size, 0)
        os.mkdir(os.path.join(trial.local_path, record.directory))
        Path(trial.local_path, record.directory, "model").touch()
        trial.record_result(metrics)
        kept = trial.record_checkpoint(record)
        self.carry_out(self.manager.add(trial, kept))
        return kept

    def carry_out(self, surplus):
        for one in surplus:
            self.dropped.append((one.trial.trial_id, one.record.number))
            self.manager.remove(one)

    def numbers(self, trial):
        """Numbers of the trial's checkpoints, which are just those on disk."""
        known = [kept.record.number for kept in trial.checkpoints]
        names = set(os.listdir(trial.local_path))
        on_disk = sorted(int(name.partition("_")[2]) for name in names)
        assert on_disk == known
        return known


def make(tmp_path, **config):
    manager = CheckpointManager(CheckpointConfig(**config), housekeeper=AtOnce())
    return Run(tmp_path, manager)


def by(score, count, order="max"):
    return {"num_to_keep": count, "checkpoint_score_attribute": score, "checkpoint_score_order": order}


NONE_AT_ALL = [{}, {"acc": math.nan}, {"acc": "high"}, {"acc": None}]


@pytest.mark.parametrize(
    ("config", "reported", "kept"),
    [
        ({}, [{}] * 9, range(9)),
        ({"num_to_keep": 1}, [{}] * 9, [8]),
        ({"num_to_keep": 3}, [{"loss": loss} for loss in (1, 5, 2, 4, 3)], [2, 3, 4]),
        (by("eval/acc", 2), [{"eval": {"acc": acc}} for acc in (0.1, 0.9, 0.5, 0.8, 0.2, 0.3)], [1, 3, 5]),
        (by("eval/loss", 1, "min"), [{"eval/loss": loss} for loss in (3.0, 1.0, 2.0)], [1, 2]),
        (by("acc", 2), [{"acc": 5}, *NONE_AT_ALL, {"acc": -7}, {}], [0, 5, 6]),
        (by("acc", 2, "min"), [{"acc": 5}, *NONE_AT_ALL, {"acc": 7}, {"acc": -math.inf}], [0, 6]),
        (by("acc", 1), [{"acc": 1.0}] * 3 + [{"acc": 0.0}], [2, 3]),
    ],
    ids=["all", "the newest", "the newest three", "nested", "flat", "max", "min", "of equals"],
)
def test_the_best_and_the_newest_are_kept(config, reported, kept, tmp_path):
    run = make(tmp_path, **config)
    trial = run.trial()
    for metrics in reported:
        run.commit(trial, **metrics)

    assert run.numbers(trial) == list(kept)


def test_a_score_that_is_never_reported_is_told_once(tmp_path, caplog):
    run = make(tmp_path, num_to_keep=1, checkpoint_score_attribute="misspelt_loss")
    trial = run.trial()
    for _ in range(3):
        run.commit(trial, loss=1.0)

    assert run.numbers(trial) == [2]
    (said,) = [record.getMessage() for record in caplog.records if "misspelt_loss" in record.getMessage()]
    assert said.endswith("its metrics: loss")


def test_a_pinned_checkpoint_stays_until_it_is_free(tmp_path):
    run = make(tmp_path, num_to_keep=1)
    trial = run.trial()
    donor = run.commit(trial).record
    run.manager.pin(trial, donor)
    run.manager.pin(trial, donor)
    for _ in range(3):
        run.commit(trial)

    assert run.numbers(trial) == [0, 3]
    run.carry_out(run.manager.unpin(trial, donor))
    assert run.numbers(trial) == [0, 3]
    run.carry_out(run.manager.unpin(trial, donor))
    assert run.numbers(trial) == [3]
    assert run.manager.unpin(trial, donor) == []


def test_a_resumed_run_counts_existing_checkpoints(tmp_path):
    run = make(tmp_path)
    finished, trial = run.trial("a"), run.trial("b")
    for number in range(4):
        run.commit(finished, acc=number)
        run.commit(trial, acc=-number)
    finished.move(Transition.STOP)

    config = CheckpointConfig(num_to_keep=1, checkpoint_score_attribute="acc")
    resumed = Run(tmp_path, CheckpointManager(config, housekeeper=AtOnce()))
    for one in (finished, trial):
        resumed.carry_out(resumed.manager.load(one))

    assert resumed.numbers(finished) == [3]
    assert resumed.numbers(trial) == [0, 3]
    resumed.commit(trial, acc=5)
    assert resumed.numbers(trial) == [4]


def test_the_housekeeper_removes_checkpoints_as_a_whole(tmp_path):
    with closing(Removes()) as housekeeper:
        manager = CheckpointManager(CheckpointConfig(num_to_keep=1), housekeeper=housekeeper)
        run = Run(tmp_path, manager)
        trial = run.trial()
        for _ in range(5):
            run.commit(trial)
        visible = [name for name in os.listdir(trial.local_path) if name.startswith("checkpoint_")]
        assert visible == ["checkpoint_000004"]

    assert os.listdir(trial.local_path) == ["checkpoint_000004"]


def test_a_missing_directory_is_no_failure(tmp_path):
    run = make(tmp_path, num_to_keep=1)
    trial = run.trial()
    kept = run.commit(trial)
    directory = os.path.join(trial.local_path, kept.record.directory)
    os.unlink(os.path.join(directory, "model"))
    os.rmdir(directory)
    run.commit(trial)

    assert run.numbers(trial) == [1]


def test_the_newest_synced_checkpoint_stays_until_a_newer_one_is_synced(tmp_path, bound_s):
    with closing(Housekeeper()) as housekeeper:
        manager = CheckpointManager(CheckpointConfig(num_to_keep=1), housekeeper=housekeeper)
        run = Run(tmp_path, manager)
        trial = run.trial()
        run.commit(trial)
        assert housekeeper.wait_idle(bound_s(10))
        for _ in range(3):
            run.commit(trial)  # within a second of the first, so not synced yet

        assert [kept.record.number for kept in trial.checkpoints] == [0, 3]
        housekeeper.close()  # syncs what is left
        run.carry_out(manager.collect())
    assert run.numbers(trial) == [3]


def test_at_the_end_of_the_driver_the_rest_is_synced_so_that_older_ones_can_go(tmp_path, bound_s):
    with closing(Housekeeper()) as housekeeper:
        manager = CheckpointManager(CheckpointConfig(num_to_keep=1), housekeeper=housekeeper)
        run = Run(tmp_path, manager)
        trial = run.trial()
        run.commit(trial)
        assert housekeeper.wait_idle(bound_s(10))
        run.commit(trial)
        assert [kept.record.number for kept in trial.checkpoints] == [0, 1]
        run.carry_out(manager.finish())
        assert [kept.record.number for kept in trial.checkpoints] == [1]
