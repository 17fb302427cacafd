"""WaitingLine: who was refused resources, in order, and who has been overtaken too often.

A big request that waits does not hold up smaller ones, but it must not starve either. Each time somebody who came
later is admitted while a waiter's request finds no room, that waiter is *overtaken*; after `PATIENCE` times it is
*owed*, and the ledger keeps what becomes free for it. (Schedulers of batch systems know this as backfilling with a
reservation for the first job in line.)
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from minitune.resources import Resources

PATIENCE = 16
"""A waiter may be overtaken so often before it is owed."""

_WATCHED = 32


@dataclass
class _Group:
    """The waiters with one and the same request: they fit, or do not fit, together.

    Attributes:
        request: What each of them waits for.
        overtaken: How often the group's oldest member of the time has been overtaken.
        members: By waiter, its place in the line and the value of `overtaken` when it came; the oldest first.
    """

    request: Resources
    overtaken: int = 0
    members: OrderedDict[str, tuple[int, int]] = field(default_factory=OrderedDict)

    def oldest(self) -> tuple[str, int, int]:
        """Who has waited longest, its place in the line, and how often it was overtaken."""
        waiter, (place, before) = next(iter(self.members.items()))
        return waiter, place, self.overtaken - before


class WaitingLine:
    """The waiters in order of their first refusal.

    Costs do not grow with the number of waiters but with the number of distinct requests among them, of which the
    32 oldest are watched. A waiter behind the oldest of its group may be counted as overtaken by one that came
    before it: it is then owed somewhat early, never late.
    """

    def __init__(self) -> None:
        self._groups: dict[Resources, _Group] = {}
        self._requests: dict[str, Resources] = {}
        self._places = itertools.count()

    def __contains__(self, waiter: str) -> bool:
        return waiter in self._requests

    def join(self, waiter: str, request: Resources) -> None:
        """Put `waiter` at the end; one that stands in the line already keeps its place, unless its request changed."""
        known = self._requests.get(waiter)
        if known is not None and (known is request or known == request):
            return
        self.leave(waiter)
        group = self._groups.setdefault(request, _Group(request))
        group.members[waiter] = (next(self._places), group.overtaken)
        self._requests[waiter] = request

    def leave(self, waiter: str) -> None:
        """Take `waiter` out; nothing happens if it does not wait."""
        request = self._requests.pop(waiter, None)
        if request is None:
            return
        group = self._groups[request]
        del group.members[waiter]
        if not group.members:
            del self._groups[request]

    def note_admission(self, admitted: str, has_room: Callable[[Resources], bool]) -> None:
        """Count those whom `admitted` overtakes. To be called before it takes its resources and leaves the line.

        Args:
            admitted: Who is admitted; a waiter, or somebody who never waited.
            has_room: Whether a request would find room. Who had room and was not chosen is not overtaken: that order
                is the scheduler's wish.
        """
        request = self._requests.get(admitted)
        place = self._groups[request].members[admitted][0] if request is not None else None
        for group in self._watched():
            is_earlier = place is None or group.oldest()[1] < place
            if is_earlier and not has_room(group.request):
                group.overtaken += 1

    def owed(self) -> tuple[str, Resources] | None:
        """Who has waited longest of those that were overtaken `PATIENCE` times, and for what."""
        first: tuple[int, str, Resources] | None = None
        for group in self._watched():
            waiter, place, overtaken = group.oldest()
            if overtaken >= PATIENCE and (first is None or place < first[0]):
                first = (place, waiter, group.request)
        return None if first is None else first[1:]

    def _watched(self) -> Iterator[_Group]:
        return itertools.islice(self._groups.values(), _WATCHED)
