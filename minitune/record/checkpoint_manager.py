"""CheckpointManager: which checkpoints of a run are kept.

It keeps these:

* the newest one of each trial;
* the best k of each trial by score; without a score, the newest k;
* *pinned* ones: a worker is loading them, or another trial continues from them;
* the newest one that is synced to the disk: a power cut may destroy the newer ones.

Any other checkpoint is *surplus*, and is removed at once.

The caller first writes a `drop` record for each checkpoint that a method here returns, and then calls `remove`: every
checkpoint that the journal names exists.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from typing import NamedTuple

from minitune.base.text import warn_once
from minitune.checkpoint import CheckpointRecord
from minitune.config import CheckpointConfig
from minitune.experiment.goal import score
from minitune.experiment.trial import KeptCheckpoint, Trial
from minitune.record import layout
from minitune.record.housekeeper import Housekeeper
from minitune.result import MISSING, lookup, own_metrics

logger = logging.getLogger("minitune")


class Surplus(NamedTuple):
    """A checkpoint to remove, which is no longer in `Trial.checkpoints`."""

    trial: Trial
    record: CheckpointRecord


class CheckpointManager:
    """Owns the lifetime of a run's checkpoints.

    A call costs O(k log k) for each trial with a checkpoint that is surplus but for a pin or a sync.

    Args:
        housekeeper: Removes and syncs checkpoints in the background.
    """

    def __init__(self, config: CheckpointConfig, *, housekeeper: Housekeeper):
        self._num_to_keep = config.num_to_keep or 0  # 0: all stay
        self._attribute = config.checkpoint_score_attribute
        self._order = config.checkpoint_score_order
        self._housekeeper = housekeeper
        self._pins: Counter[tuple[str, int]] = Counter()  # how many trials load a checkpoint, by trial id and number
        self._crowded: dict[str, Trial] = {}  # by id, the trials that may have a surplus one

    # -- events -----------------------------------------------------------------------------------------------------

    def add(self, trial: Trial, kept: KeptCheckpoint) -> list[Surplus]:
        """Take in the last of `trial.checkpoints`. Return those to remove."""
        metrics = kept.progress.metrics
        if self._num_to_keep and self._attribute and lookup(metrics, self._attribute) is MISSING:
            names = ", ".join(own_metrics(metrics)) or "none"
            warn_once(
                f"checkpoint_score_attribute is {self._attribute!r}, but a checkpoint was reported without it and "
                f"counts as the worst; its metrics: {names}",
                about=f"checkpoint_score_attribute={self._attribute}",
            )
        self._housekeeper.sync_checkpoint(os.path.join(trial.local_path, kept.record.directory))
        return self.load(trial)

    def load(self, trial: Trial) -> list[Surplus]:
        """Take in a trial of a resumed run with all its checkpoints. Return those to remove."""
        if self._num_to_keep:
            self._crowded[trial.trial_id] = trial
        return self.collect()

    def pin(self, trial: Trial, record: CheckpointRecord) -> None:
        """Keep a checkpoint until it is unpinned as often as it was pinned."""
        self._pins[trial.trial_id, record.number] += 1

    def unpin(self, trial: Trial, record: CheckpointRecord) -> list[Surplus]:
        """Give up one pin. Return the checkpoints to remove."""
        key = (trial.trial_id, record.number)
        self._pins[key] -= 1
        if self._pins[key] <= 0:
            del self._pins[key]
        return self.collect()

    def remove(self, surplus: Surplus) -> None:
        """Remove the directory of a dropped checkpoint, after the journal has the `drop` record. A failure is only
        logged: the next open removes it.
        """
        try:
            path = layout.retire_checkpoint(surplus.trial.local_path, surplus.record.number)
        except OSError as error:
            logger.warning("checkpoint %s of %s could not be removed: %s", surplus.record.number, surplus.trial, error)
            return
        if path is not None:
            self._housekeeper.delete(path)

    def collect(self) -> list[Surplus]:
        """The checkpoints to remove; also after checkpoints were synced."""
        surplus = []
        for trial in list(self._crowded.values()):
            needed = self._needed(trial)
            in_use = {
                kept.record.number
                for kept in trial.checkpoints
                if kept.record.number not in needed and self._is_in_use(trial, kept.record)
            }
            stays = needed | in_use
            surplus += [Surplus(trial, kept.record) for kept in trial.checkpoints if kept.record.number not in stays]
            trial.checkpoints[:] = [kept for kept in trial.checkpoints if kept.record.number in stays]
            if not in_use:
                del self._crowded[trial.trial_id]
        return surplus

    def finish(self) -> list[Surplus]:
        """Sync the remaining checkpoints, and return the older ones, which can be removed.

        Blocks if a checkpoint waits for this, as long as `Housekeeper.close` may block.
        """
        # Only then does a sync decide about anything.
        if self._crowded:
            self._housekeeper.close()
        return self.collect()

    # -- decisions -------------------------------------------------------------------------------------------------

    def _needed(self, trial: Trial) -> set[int]:
        """The numbers of a trial's newest checkpoint and of the best k."""
        best = sorted(trial.checkpoints, key=self._rank)[-self._num_to_keep :]
        return {kept.record.number for kept in (*trial.checkpoints[-1:], *best)}

    def _rank(self, kept: KeptCheckpoint) -> tuple[float, int]:
        value = 0.0
        if self._attribute is not None:
            value = score(lookup(kept.progress.metrics, self._attribute), self._order)
        return value, kept.record.number  # of equal scores the newer checkpoint is better

    def _is_in_use(self, trial: Trial, record: CheckpointRecord) -> bool:
        """Whether a checkpoint is pinned, or the newest synced one, or is being synced now."""
        directory = os.path.join(trial.local_path, record.directory)
        return (trial.trial_id, record.number) in self._pins or self._housekeeper.needs(directory)
