"""TrialQueue: the trials that could be started, in order, without scans."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from minitune.experiment.trial import Trial
from minitune.resources import Resources


class TrialQueue:
    """Trials in order of arrival, grouped by what they need.

    Trials with equal requests wait one behind the other, so that a full machine is found out with one question for
    each distinct request, however many trials wait. Every operation is O(1) in the number of trials; `heads` is
    O(k log k) in the number k of distinct requests.
    """

    def __init__(self) -> None:
        self._groups: dict[Resources, dict[str, tuple[int, Trial]]] = {}
        self._places: dict[str, Resources] = {}
        self._arrivals = itertools.count()

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, trial: Trial) -> bool:
        return trial.trial_id in self._places

    def __iter__(self) -> Iterator[Trial]:
        entries = sorted((entry for group in self._groups.values() for entry in group.values()), key=lambda e: e[0])
        return iter([trial for _, trial in entries])

    def push(self, trial: Trial) -> None:
        """Put `trial` at the end."""
        self._places[trial.trial_id] = trial.resources
        self._groups.setdefault(trial.resources, {})[trial.trial_id] = (next(self._arrivals), trial)

    def remove(self, trial: Trial) -> None:
        """Take `trial` out; nothing happens if it is not there."""
        request = self._places.pop(trial.trial_id, None)
        if request is None:
            return
        group = self._groups[request]
        del group[trial.trial_id]
        if not group:
            del self._groups[request]

    def heads(self) -> list[Trial]:
        """The first trial of each distinct request, in order of arrival."""
        firsts = [next(iter(group.values())) for group in self._groups.values()]
        if len(firsts) > 1:
            firsts.sort(key=lambda entry: entry[0])
        return [trial for _, trial in firsts]

    def first(self) -> Trial | None:
        """The trial that has waited longest, or None."""
        heads = self.heads()
        return heads[0] if heads else None
