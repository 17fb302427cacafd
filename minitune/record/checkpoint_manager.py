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

import heapq
import logging
import os
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable
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

# Trial id and number of a checkpoint.
_Key = tuple[str, int]


class Surplus(NamedTuple):
    """A checkpoint to remove, which is no longer in `Trial.checkpoints`."""

    trial: Trial
    record: CheckpointRecord


class _TrackedCheckpoint(NamedTuple):
    """A checkpoint that exists, ordered by `age`."""

    age: int
    trial: Trial
    kept: KeptCheckpoint

    @property
    def key(self) -> _Key:
        return self.trial.trial_id, self.kept.record.number


class _BestCheckpoints:
    """The best checkpoints of each trial, if only so many are kept."""

    def __init__(self, config: CheckpointConfig):
        self.num_to_keep = config.num_to_keep
        self._attribute = config.checkpoint_score_attribute
        self._order = config.checkpoint_score_order
        # By trial id: its best k, the worst first, with their scores.
        self._best: dict[str, list[tuple[tuple[float, int], _TrackedCheckpoint]]] = {}

    def __contains__(self, entry: _TrackedCheckpoint) -> bool:
        return any(entry is one for _, one in self._best.get(entry.trial.trial_id, ()))

    def add(self, entry: _TrackedCheckpoint) -> _TrackedCheckpoint | None:
        """Add a checkpoint to its trial's best k, and return the one that drops out, if any."""
        metrics = entry.kept.progress.metrics
        num_to_keep = self.num_to_keep
        attribute = self._attribute
        if num_to_keep is None:
            return None  # all checkpoints stay
        if attribute and lookup(metrics, attribute) is MISSING:
            names = ", ".join(own_metrics(metrics)) or "none"
            warn_once(
                f"checkpoint_score_attribute is {attribute!r}, but a checkpoint was reported without it and counts as "
                f"the worst; its metrics: {names}",
                about=f"checkpoint_score_attribute={attribute}",
            )
        best = self._best.setdefault(entry.trial.trial_id, [])
        # of equal scores the newer checkpoint is better
        value = 0.0 if attribute is None else score(lookup(metrics, attribute), self._order)
        insort(best, ((value, entry.age), entry))
        return best.pop(0)[1] if len(best) > num_to_keep else None

    def replace(self, trial: Trial, entries: Iterable[_TrackedCheckpoint]) -> None:
        """Rank a trial anew, after one of its checkpoints was discarded."""
        self._best.pop(trial.trial_id, None)
        for entry in entries:
            self.add(entry)


class CheckpointManager:
    """Owns the lifetime of a run's checkpoints. A call costs O(k).

    Args:
        housekeeper: Removes and syncs checkpoints in the background.
    """

    def __init__(
        self,
        config: CheckpointConfig,
        *,
        housekeeper: Housekeeper,
    ):
        self._best = _BestCheckpoints(config)
        self._housekeeper = housekeeper
        self._entries: dict[_Key, _TrackedCheckpoint] = {}  # all checkpoints that were not dropped
        self._next_age = 0
        self._pins: Counter[_Key] = Counter()  # how many trials load a checkpoint at present
        # A heap of those beyond the number to keep, the oldest first. A pinned one waits there, and the newest synced
        # one of a trial.
        self._doomed: list[_TrackedCheckpoint] = []

    # -- events -----------------------------------------------------------------------------------------------------

    def add(self, trial: Trial, kept: KeptCheckpoint) -> list[Surplus]:
        """Take in the last of `trial.checkpoints`. Return those to remove."""
        previous = None
        if len(trial.checkpoints) > 1:
            previous = trial.checkpoints[-2]
        self._register(trial, kept)
        # It was needed as the newest one, and perhaps only so.
        if previous is not None:
            self._reconsider((trial.trial_id, previous.record.number))
        self._housekeeper.sync_checkpoint(os.path.join(trial.local_path, kept.record.directory))
        return self.collect()

    def load(self, trial: Trial) -> list[Surplus]:
        """Take in a trial of a resumed run with all its checkpoints. Return those to remove."""
        for kept in trial.checkpoints:
            self._register(trial, kept)
        for kept in trial.checkpoints[:-1]:
            self._reconsider((trial.trial_id, kept.record.number))
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

    def discard(self, trial: Trial, record: CheckpointRecord) -> list[Surplus]:
        """Drop a checkpoint that is damaged or refused, and return those to remove, this one first; none if it is
        pinned or unknown.
        """
        entry = self._entries.get((trial.trial_id, record.number))
        if entry is None or entry.key in self._pins:
            return []
        first = self._drop(entry)
        # One that had dropped out of the best k may belong to them again.
        self._best.replace(trial, [self._entries[trial.trial_id, kept.record.number] for kept in trial.checkpoints])
        return [first, *self.collect()]

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
        """The checkpoints to remove, in order of age; also after checkpoints were synced."""
        surplus = []
        in_use = []
        while self._doomed:
            entry = heapq.heappop(self._doomed)
            if self._entries.get(entry.key) is not entry:
                continue  # it was in the heap twice, and has been dropped already
            if self._is_needed(entry):
                continue  # a better or newer one was discarded, so this one is needed again; later it is reconsidered
            directory = os.path.join(entry.trial.local_path, entry.kept.record.directory)
            # It may be the newest synced one, or is being synced now.
            if entry.key in self._pins or self._housekeeper.needs(directory):
                in_use.append(entry)
            else:
                surplus.append(self._drop(entry))
        for entry in in_use:
            heapq.heappush(self._doomed, entry)
        return surplus

    def finish(self) -> list[Surplus]:
        """Sync the remaining checkpoints, and return the older ones, which can be removed.

        Blocks if a checkpoint waits for this, as long as `Housekeeper.close` may block.
        """
        # Only then does a sync decide about anything.
        if self._doomed:
            self._housekeeper.close()
        return self.collect()

    # -- decisions -------------------------------------------------------------------------------------------------

    def _register(self, trial: Trial, kept: KeptCheckpoint) -> None:
        entry = _TrackedCheckpoint(self._next_age, trial, kept)
        self._next_age += 1
        self._entries[entry.key] = entry
        evicted = self._best.add(entry)
        if evicted is not None and evicted is not entry:
            self._reconsider(evicted.key)

    def _reconsider(self, key: _Key) -> None:
        entry = self._entries.get(key)
        if entry is None or self._is_needed(entry):
            return
        if self._best.num_to_keep is not None:
            heapq.heappush(self._doomed, entry)

    def _is_needed(self, entry: _TrackedCheckpoint) -> bool:
        """Whether a checkpoint is its trial's newest or one of the best k."""
        return entry.trial.checkpoints[-1] is entry.kept or entry in self._best

    def _drop(self, entry: _TrackedCheckpoint) -> Surplus:
        del self._entries[entry.key]
        checkpoints = entry.trial.checkpoints
        index = bisect_left(checkpoints, entry.kept.record.number, key=lambda kept: kept.record.number)
        del checkpoints[index]
        return Surplus(entry.trial, entry.kept.record)
