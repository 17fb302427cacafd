"""Ledger: which trials hold which CPUs, memory and GPU fractions, and which trials wait for them.

Amounts are integers in units of 1/`UNIT`, so that sums are exact. A bundle *wants* GPUs: 0, less than `UNIT` for a
share of one device, or a multiple for whole devices.

A large request that waits does not block smaller ones, but must not starve. The first waiter is *overtaken* when
another one is admitted while it does not fit. After `PATIENCE` times it is *owed*: the ledger reserves resources for it
as they become free.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from minitune.error import TuneError
from minitune.resources import CPU, GPU, Allocation, BundleAllocation, GpuShare, Resources, amount_text

UNIT = 10_000
"""The ledger's resolution: one unit is 1/10,000 of a CPU, a GPU or a byte."""
Placement = tuple[tuple[str, ...], ...]
"""The ids of each bundle's devices."""
PATIENCE = 16
"""How many times a waiter is overtaken before it is owed: `benchmarks/FINDINGS.md`, *overtaken*."""
_MAX_DEMANDS = 4_096
"""How many requests are kept in units: only computed ones are many."""


# -- which GPUs serve which bundle -------------------------------------------------------------------------------------
def place(wants: Sequence[int], free: Mapping[str, int]) -> Placement | None:
    """Find devices for all bundles together.

    Whole devices are taken in the order of `free`. Then shares go to the most used device with enough room (best fit,
    the largest first), so that whole devices stay free: for several, an approximation. None if there is no room.
    """
    empty = iter([device for device, units in free.items() if units == UNIT])
    room = dict(free)
    chosen: list[tuple[str, ...]] = [()] * len(wants)
    # Whole devices come first: a share may lie on a device that is used, a whole one may not.
    for bundle, want in enumerate(wants):
        if want >= UNIT:
            devices = tuple(itertools.islice(empty, want // UNIT))
            if len(devices) < want // UNIT:
                return None
            chosen[bundle] = devices
            for device in devices:
                del room[device]
    shares = [bundle for bundle, want in enumerate(wants) if 0 < want < UNIT]
    for bundle in sorted(shares, key=lambda bundle: -wants[bundle]):
        fitting = [device for device, units in room.items() if units >= wants[bundle]]
        if not fitting:
            return None
        device = min(fitting, key=room.__getitem__)
        room[device] -= wants[bundle]
        chosen[bundle] = (device,)
    return tuple(chosen)


# -- waiting -----------------------------------------------------------------------------------------------------------
class WaitingLine:
    """The waiters in order of their first refusal. Only the first one is watched, so an admission costs O(1).

    One that has room but does not start, because the scheduler has chosen another trial, goes to the end of the line.

    Attributes:
        requests: The request of each waiter.
    """

    def __init__(self) -> None:
        self.requests: dict[str, Resources] = {}
        self._overtaken = 0  # how many times the first one was

    def join(self, waiter: str, request: Resources) -> None:
        """Add `waiter` at the end. One with the same request keeps its position."""
        known = self.requests.get(waiter)
        # The identity first: trials share their requests, and the driver asks for each waiter in each turn.
        if known is not None and (known is request or known == request):
            return
        self.leave(waiter)
        self.requests[waiter] = request

    def leave(self, waiter: str) -> None:
        """Remove `waiter`, if it is in the line."""
        if waiter in self.requests:
            if waiter == self._first():
                self._overtaken = 0
            del self.requests[waiter]

    def note_admission(self, admitted: str, has_room: Callable[[Resources], bool]) -> None:
        """Count whether `admitted` overtakes the first waiter, before it takes its resources."""
        first = self._first()
        if first == admitted or self._overtaken >= PATIENCE:
            return
        if has_room(self.requests[first]):
            self._overtaken = 0
            self.requests[first] = self.requests.pop(first)
        else:
            self._overtaken += 1

    def owed(self) -> tuple[str, Resources] | None:
        """The first waiter and its request, if it was overtaken `PATIENCE` times."""
        if not self.requests or self._overtaken < PATIENCE:
            return None
        first = self._first()
        return first, self.requests[first]

    def _first(self) -> str:
        return next(iter(self.requests))


def already_holds(holder: str) -> RuntimeError:
    """The error of a second request under the name of a present holder."""
    return RuntimeError(f"{holder!r} holds resources already; each holder needs a name of its own")


# -- the ledger --------------------------------------------------------------------------------------------------------
@dataclass(eq=False)
class _Demand:
    """A request in units."""

    units: Mapping[str, int]
    gpus: tuple[int, ...]
    allocation: Allocation | None = None
    threads: str | None = None


class _Holding(NamedTuple):
    demand: _Demand
    placement: Placement


class Ledger:
    """Counts the held resources in units of 1/10,000: three thirds fit on one CPU.

    Not thread-safe.

    The driver calls `can_acquire(request, waiter)` for each trial that could start, and then `acquire` for one that got
    True. If the first waiter was overtaken 16 times, it is *owed*: until it starts, no other one that needs the same is
    admitted, so it must continue to ask, or be removed by `forget`.

    Args:
        totals: By name: `CPU`, `GPU`, `memory` (bytes) and custom ones.
        gpu_ids: The ids of the devices in `totals["GPU"]`.
        environ: What workers inherit; by default that of this process, read at each `acquire`.

    Raises:
        ValueError: If an amount is invalid, or the ids do not fit `totals["GPU"]`.
    """

    def __init__(
        self,
        totals: Mapping[str, float],
        gpu_ids: Sequence[str] = (),
        *,
        environ: Mapping[str, str] | None = None,
    ):
        for name, amount in totals.items():
            if not 0 <= amount < math.inf:
                raise ValueError(f"expected 0 <= total < infinity for resource {name!r}, but got {amount!r}")
        if len(set(gpu_ids)) != len(gpu_ids):
            raise ValueError(f"each GPU id must be given once, but got {list(gpu_ids)}")
        if totals.get(GPU, len(gpu_ids)) != len(gpu_ids):
            raise ValueError(
                f"expected one id for each GPU, but got a total of {totals[GPU]:g} and ids {list(gpu_ids)}"
            )
        self._total = {name: _total_units(amount) for name, amount in totals.items() if name != GPU}
        self._free = dict(self._total)
        self._gpu_total = dict.fromkeys(gpu_ids, UNIT)
        self._gpu_free = dict(self._gpu_total)
        self._environ: Mapping[str, str] = environ if environ is not None else os.environ
        self._holdings: dict[str, _Holding] = {}
        self._demand = functools.lru_cache(_MAX_DEMANDS)(self._demand_of)  # the driver asks for each trial in each turn
        self._line = WaitingLine()

    # -- amounts -------------------------------------------------------------------------------------------------

    def totals(self) -> dict[str, float]:
        """The total amounts by name, including held ones."""
        return _amounts(self._total, self._gpu_total)

    def free(self) -> dict[str, float]:
        """The free amounts by name."""
        return _amounts(self._free, self._gpu_free)

    # -- asking ----------------------------------------------------------------------------------------------------

    def can_acquire(self, request: Resources, waiter: str | None = None) -> bool:
        """Whether `acquire` may be called now: there is room that is not reserved for an owed waiter.

        Args:
            request: The resources.
            waiter: The caller's id. If the request is refused, the caller is a waiter until `acquire` or `forget`.

        Raises:
            TuneError: If the request can never fit.
        """
        demand = self._demand(request)
        placement = self._place(demand)
        if placement is not None and self._line.requests:
            # There is room, but perhaps it is kept for another one. What both do not need is given away nevertheless.
            owed = self._owed()
            if owed is not None and owed[0] != waiter and not self._leaves_room(demand, placement, owed[1]):
                placement = None
        if placement is None and waiter is not None:
            self._line.join(waiter, request)
        return placement is not None

    def owed(self) -> str | None:
        """The waiter for which resources are reserved, or None."""
        owed = self._owed()
        return None if owed is None else owed[0]

    def forget(self, waiter: str) -> None:
        """Remove a waiter, if it is one."""
        self._line.leave(waiter)

    # -- holding -----------------------------------------------------------------------------------------------------

    def acquire(self, holder: str, request: Resources) -> Allocation:
        """Take all resources of `request` or none.

        Fractions of GPUs go to the most used device with enough room, never to two. `can_acquire` says whose turn it
        is.

        Args:
            holder: A name that holds nothing at present. The waiter with this name (or with its part before the last
                `#`) stops waiting.
            request: The resources.

        Returns:
            The resources. The `env` of each bundle is for its child processes.

        Raises:
            RuntimeError: If there is no room, or `holder` already holds resources.
            TuneError: If the request can never fit.
        """
        if holder in self._holdings:
            raise already_holds(holder)
        demand = self._demand(request)
        placement = self._place(demand)
        if placement is None:
            raise RuntimeError(
                f"there are not enough free resources for {request!r}, free: {self.free()}; ask can_acquire first"
            )
        if self._line.requests:
            waiter = holder
            if waiter not in self._line.requests:
                waiter = holder.rpartition("#")[0]
            # Before the resources are taken: a waiter that has no room now is not overtaken by this one.
            self._line.note_admission(waiter, self._has_room)
            self._line.leave(waiter)
        self._move(self._free, self._gpu_free, demand, placement, -1)
        self._holdings[holder] = _Holding(demand, placement)
        if placement:
            return allocation_of(request, placement, self._environ)
        # Without devices, all allocations of a request are equal. One object for all of them costs no memory for each
        # trial, and a worker that is used again sees at once that it keeps what it has.
        threads = self._environ.get("OMP_NUM_THREADS")
        if demand.allocation is None or demand.threads != threads:
            demand.allocation = allocation_of(request, placement, self._environ)
            demand.threads = threads
        return demand.allocation

    def release(self, holder: str) -> None:
        """Release all resources of `holder`, after its last process has ended."""
        holding = self._holdings.pop(holder, None)
        if holding is None:
            raise RuntimeError(f"{holder!r} holds no resources; each acquire is released once")
        self._move(self._free, self._gpu_free, holding.demand, holding.placement, +1)

    def write_off(self, holder: str) -> None:
        """Subtract the resources of `holder` from the totals permanently, because its process cannot be killed.

        Raises:
            RuntimeError: If `holder` holds nothing.
        """
        holding = self._holdings.get(holder)
        self.release(holder)
        if holding is not None:
            self._move(self._total, self._gpu_total, holding.demand, holding.placement, -1)
            self._move(self._free, self._gpu_free, holding.demand, holding.placement, -1)
        self._demand.cache_clear()  # a request that was feasible may not be so any more

    # -- inside --------------------------------------------------------------------------------------------------------

    def _demand_of(self, request: Resources) -> _Demand:
        """The request in units. TuneError: it can never be met."""
        demand = self._count(request)
        fits = all(count <= self._total.get(name, 0) for name, count in demand.units.items())
        if not fits or place(demand.gpus, self._gpu_total) is None:
            raise TuneError(self._why_never(request))
        return demand

    def _count(self, request: Resources) -> _Demand:
        required = request.required_resources
        gpus: tuple[int, ...] = ()
        if required.pop(GPU, 0) > 0:
            gpus = tuple(to_units(bundle.get(GPU, 0), UNIT) for bundle in request.bundles)
        units = {name: to_units(amount, self._total.get(name, 0)) for name, amount in required.items()}
        return _Demand(units, gpus)

    def _why_never(self, request: Resources) -> str:
        totals = self.totals()
        required = request.required_resources
        lacks = [
            f"{name}: {amount_text(name, amount)} requested, {amount_text(name, totals.get(name, 0))} in total"
            for name, amount in required.items()
            if amount > totals.get(name, 0)
        ]
        shown = ", ".join(f"{name}: {amount_text(name, amount)}" for name, amount in totals.items())
        bundles = ", ".join(map(str, request.bundles))
        return (
            f"the request {bundles} can never be met ({'; '.join(lacks) or 'its bundles do not fit on the GPUs'}); the "
            f"totals are {{{shown}}}. Ask for less, or set the totals with init(num_cpus=..., num_gpus=..., "
            "resources={...}) or MINITUNE_NUM_CPUS, MINITUNE_NUM_GPUS"
        )

    def _place(self, demand: _Demand) -> Placement | None:
        """The placement of a demand now (empty without GPUs); None if there is no room."""
        for name, count in demand.units.items():
            if count > self._free[name]:
                return None
        if not demand.gpus:
            return ()
        return place(demand.gpus, self._gpu_free)

    def _has_room(self, request: Resources) -> bool:
        """Whether a request has no reason to wait: there is room for it now, or will never be."""
        try:
            return self._place(self._demand(request)) is not None
        except TuneError:  # never: it gets this error at its next question
            return True

    def _leaves_room(self, demand: _Demand, placement: Placement, owed: Resources) -> bool:
        """Whether the demand leaves room for the owed request.

        Only resources that both need count. Of one that the owed request still lacks, nothing is given away.
        """
        needed = self._demand(owed)
        for name, count in demand.units.items():
            if name in needed.units and self._free[name] - count < needed.units[name]:
                return False
        if not (demand.gpus and needed.gpus):
            return True
        left = dict(self._gpu_free)
        self._move({}, left, _Demand({}, demand.gpus), placement, -1)
        return place(needed.gpus, left) is not None

    def _owed(self) -> tuple[str, Resources] | None:
        """The owed waiter and its request; infeasible ones are removed."""
        while (owed := self._line.owed()) is not None:
            try:
                self._demand(owed[1])
            except TuneError:
                self._line.leave(owed[0])
            else:
                break
        return owed

    @staticmethod
    def _move(units: dict[str, int], gpus: dict[str, int], demand: _Demand, placement: Placement, sign: int) -> None:
        for name, count in demand.units.items():
            units[name] += sign * count
        for want, devices in zip(demand.gpus, placement, strict=True):
            for device in devices:
                gpus[device] += sign * min(want, UNIT)


def to_units(amount: float, total_units: int) -> int:
    """Convert an amount to units, rounded up. But if the amount fits k times into the total, so do the units.

    So a third of a GPU is 3,333 units: with 3,334, only two would fit.
    """
    if amount == int(amount):
        return int(amount) * UNIT
    exact = amount * UNIT
    count = math.ceil(exact - 1e-6)  # 0.1 * 3 is a little more than 0.3
    times = int(total_units / exact + 1e-9)
    if count * times > total_units:
        count = total_units // times
    return max(count, 1)


def _total_units(amount: float) -> int:
    if amount == int(amount):
        return int(amount) * UNIT  # exact, also for bytes of memory beyond the precision of a float
    return math.floor(amount * UNIT + 1e-6)


def allocation_of(request: Resources, placement: Placement, environ: Mapping[str, str]) -> Allocation:
    """The allocation that an actor gets: amounts and devices."""
    bundles = []
    for bundle, devices in zip(request.bundles, placement or ((),) * len(request.bundles), strict=True):
        gpus = tuple(GpuShare(device, min(bundle[GPU], 1.0)) for device in devices)
        env = _env(bundle.get(CPU, 0), devices if placement else None, environ)
        bundles.append(BundleAllocation(dict(bundle), gpus, env))
    gpu_ids = tuple(dict.fromkeys(itertools.chain.from_iterable(placement)))
    if len(bundles) == 1:
        return Allocation((bundles[0],), bundles[0].env, gpu_ids)
    return Allocation(tuple(bundles), _env(bundles[0].cpus, gpu_ids or None, environ), gpu_ids)


def _env(cpus: float, gpu_ids: Sequence[str] | None, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment variables for devices and for the number of threads. `gpu_ids` None (a trial without GPUs) hides
    no device; empty (a bundle without, in a trial that has some) hides all. `OMP_NUM_THREADS` is enough for all
    libraries.
    """
    env = {}
    # Without this, each of N workers starts as many threads as the machine has CPUs, and all become slower.
    if not environ.get("OMP_NUM_THREADS"):
        env["OMP_NUM_THREADS"] = str(max(1, math.floor(cpus)))
    if gpu_ids is not None:
        env["CUDA_VISIBLE_DEVICES"] = ",".join(gpu_ids)
        if not environ.get("CUDA_DEVICE_ORDER"):
            # CUDA orders devices by speed, nvidia-smi by bus. Without this, an index would name another device.
            env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    return env


def _amounts(units: Mapping[str, int], gpus: Mapping[str, int]) -> dict[str, float]:
    amounts = {name: count / UNIT for name, count in units.items()}
    if gpus:
        amounts[GPU] = sum(gpus.values()) / UNIT
    return amounts
