"""Which GPUs serve which bundle: pure functions over what is free on each device.

Amounts are integers, `UNIT` of them a whole device. A *want* is what one bundle asks for: 0, less than `UNIT` for a
share of one device, or a multiple of `UNIT` for whole devices. A share never spreads over two devices.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

UNIT = 10_000
"""The ledger's resolution: a count of 1 is 1/10,000 of a CPU, a GPU, a byte."""

Placement = tuple[tuple[str, ...], ...]
"""Ids of the devices of each bundle."""

_SEARCH_STEPS = 2_000


def place(wants: Sequence[int], free: Mapping[str, int]) -> Placement | None:
    """Find devices for all bundles together.

    Shares go to the most used device that still has room (best fit, the largest share first), so that whole devices
    stay free; whole devices are taken in the order of `free`. A single share, and any number of whole devices, are
    placed whenever that is possible. Several different shares at once are bin packing: where best fit fails, an
    exact search of at most 2,000 steps follows.

    Args:
        wants: One per bundle.
        free: What is free on each device, by id.

    Returns:
        The devices of each bundle, or None if there is no room.
    """
    empty = iter([device for device, units in free.items() if units == UNIT])
    room = dict(free)
    chosen: list[tuple[str, ...]] = [()] * len(wants)
    for bundle, want in enumerate(wants):
        if want >= UNIT:
            devices = tuple(itertools.islice(empty, want // UNIT))
            if len(devices) < want // UNIT:
                return None
            chosen[bundle] = devices
            for device in devices:
                del room[device]
    shares = [(want, bundle) for bundle, want in enumerate(wants) if 0 < want < UNIT]
    shares.sort(key=lambda share: -share[0])
    hosts = _best_fit(shares, room)
    if hosts is None and len(shares) > 1:
        hosts = _Search(shares, room).run()
    if hosts is None:
        return None
    for (_, bundle), device in zip(shares, hosts, strict=True):
        chosen[bundle] = (device,)
    return tuple(chosen)


def place_on(wants: Sequence[int], free: Mapping[str, int], devices: Sequence[str]) -> Placement | None:
    """Find a placement on exactly these devices, each first used in the order given.

    A process that already runs knows its devices by their places in `CUDA_VISIBLE_DEVICES`, so the order counts.

    Args:
        wants: One per bundle.
        free: What is free on each device, by id.
        devices: Ids; all are to be used.

    Returns:
        The devices of each bundle, or None if that is not possible.
    """
    room = {device: free.get(device, 0) for device in devices}
    chosen: list[tuple[str, ...]] = []

    def extend(used: int) -> bool:
        """Place the bundles that are left, with the first `used` devices in use already."""
        if len(chosen) == len(wants):
            return used == len(devices)
        want = wants[len(chosen)]
        if not 0 < want < UNIT:
            options = [tuple(devices[used : used + want // UNIT])]
        else:
            known = sorted(devices[:used], key=room.__getitem__)
            options = [(device,) for device in (*known, *devices[used : used + 1])]
        for option in options:
            each = min(want, UNIT)
            if len(option) != max(want // UNIT, want > 0) or any(room[device] < each for device in option):
                continue
            new = sum(device not in devices[:used] for device in option)
            _take(room, option, each)
            chosen.append(option)
            if extend(used + new):
                return True
            chosen.pop()
            _take(room, option, -each)
        return False

    return tuple(chosen) if extend(0) else None


def _take(room: dict[str, int], devices: Sequence[str], units: int) -> None:
    for device in devices:
        room[device] -= units


def _best_fit(shares: Sequence[tuple[int, int]], room: Mapping[str, int]) -> list[str] | None:
    """A device for each share, in order; None where best fit finds none."""
    left = dict(room)
    hosts = []
    for want, _ in shares:
        fitting = [device for device, units in left.items() if units >= want]
        if not fitting:
            return None
        host = min(fitting, key=left.__getitem__)
        left[host] -= want
        hosts.append(host)
    return hosts


class _Search:
    """Bin packing by depth-first search: the largest share first, devices with equal room tried once."""

    def __init__(self, shares: Sequence[tuple[int, int]], room: Mapping[str, int]):
        self._wants = [want for want, _ in shares]
        self._room = dict(room)
        self._hosts: list[str] = []
        self._steps_left = _SEARCH_STEPS

    def run(self) -> list[str] | None:
        """A device for each share, or None if there is no way or none was found in time."""
        if sum(self._wants) > sum(self._room.values()):
            return None
        return self._hosts if self._extend() else None

    def _extend(self) -> bool:
        if len(self._hosts) == len(self._wants):
            return True
        want = self._wants[len(self._hosts)]
        tried: set[int] = set()
        for device, units in sorted(self._room.items(), key=lambda item: item[1]):
            if units < want or units in tried:
                continue
            tried.add(units)
            self._steps_left -= 1
            if self._steps_left < 0:
                return False
            self._room[device] -= want
            self._hosts.append(device)
            if self._extend():
                return True
            self._hosts.pop()
            self._room[device] += want
        return False
