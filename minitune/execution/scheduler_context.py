"""DriverContext: what a scheduler sees of the run, and how it asks for something about another trial."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from minitune.execution.run_state import RunState
from minitune.experiment.trial import Trial
from minitune.resources import CPU, GPU, Resources
from minitune.search.search_generator import SearchAlgorithm


class Request(NamedTuple):
    """What a scheduler has asked for about a trial; carried out when its hook has returned.

    Attributes:
        verb: `"stop"`, `"pause"`, `"exploit"` or `"resources"`.
        trial: The trial concerned.
        argument: For `stop` the reason, for `pause` whether to save, for `exploit` (donor, config, reason), for
            `resources` the new request.
    """

    verb: str
    trial: Trial
    argument: Any = None


class HasSupply(Protocol):
    """What knows whether more trials will come."""

    supply: str


@dataclass
class SupplyView:
    """Where the supply is read from; the launcher comes into being after those who ask."""

    launcher: HasSupply | None = None


class DriverContext:
    """The first argument of every scheduler hook.

    The verbs enqueue and return at once: nothing happens to a trial while a hook runs.

    Args:
        state: The trials of the run.
        search_alg: The run's search algorithm.
        totals: What the executor has, by resource name.
        supply: Tells whether more trials will come: OPEN, WAITING or ENDED.
        reuse_actors: Whether workers are handed on from trial to trial.
    """

    def __init__(
        self,
        state: RunState,
        search_alg: SearchAlgorithm,
        totals: Mapping[str, float],
        supply: SupplyView,
        reuse_actors: bool = False,
    ):
        self.search_alg = search_alg
        self.is_replaying = False
        self.reuse_actors = reuse_actors
        self.requests: deque[Request] = deque()
        self._state = state
        self._supply = supply
        self._resource_updater = _ResourceCounts(totals)

    @property
    def supply(self) -> str:
        """OPEN while the searcher may give more trials, WAITING if it has none now, ENDED when it is finished."""
        return self._supply.launcher.supply if self._supply.launcher is not None else "OPEN"

    def get_trials(self) -> list[Trial]:
        """Every trial of the run, in order of submission; not to be changed."""
        return self._state.trials

    def get_trial(self, tid: str) -> Trial | None:
        """The trial with this id, or None. O(n)."""
        return next((trial for trial in self._state.trials if trial.trial_id == tid), None)

    def get_live_trials(self) -> list[Trial]:
        """The trials that have not ended, in order of submission."""
        return list(self._state.unfinished.values())

    def first_pending(self) -> Trial | None:
        """The PENDING trial that has waited longest and could be started, or None. O(1)."""
        return self._state.first_pending()

    def first_paused(self) -> Trial | None:
        """The PAUSED trial that has waited longest and could be resumed, or None. O(1)."""
        return self._state.first_paused()

    def stop_trial(self, trial: Trial, reason: str = "") -> None:
        """Ask for the end of `trial`, for a reason that a user can read."""
        self.requests.append(Request("stop", trial, reason or "stopped by the scheduler"))

    def pause_trial(self, trial: Trial, should_checkpoint: bool = True) -> None:
        """Ask to put `trial` aside; with `should_checkpoint` it is saved first."""
        self.requests.append(Request("pause", trial, should_checkpoint))

    def exploit_trial(self, trial: Trial, donor: Trial, config: dict[str, Any], reason: str = "") -> None:
        """Ask that `trial` goes on from the latest checkpoint of `donor` under `config`, for a reason for people."""
        self.requests.append(Request("exploit", trial, (donor, config, reason)))

    def set_resources(self, trial: Trial, request: Resources | Mapping[str, Any]) -> None:
        """Ask that `trial` has other resources from its next start on; a running trial is paused for it."""
        self.requests.append(Request("resources", trial, Resources.of(request)))


class _ResourceCounts:
    """Totals under the names that Ray Tune's schedulers ask for."""

    def __init__(self, totals: Mapping[str, float]):
        self._totals = totals

    def get_num_cpus(self) -> float:
        """CPUs that trials may hold in all."""
        return self._totals.get(CPU, 0)

    def get_num_gpus(self) -> float:
        """GPUs that trials may hold in all."""
        return self._totals.get(GPU, 0)
