"""What a driver runs, as far as a resume compares it: the objective, the plug-ins, the samples, the trainables.

Each driver records its description, and one that continues the run compares its own: `compare_descriptions` says for
each difference whether the run can go on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

from minitune.experiment.goal import Goal, Metric


@dataclass(frozen=True)
class RunDescription:
    """What a driver runs. A field that is None is not compared."""

    metric: Metric = None
    mode: Metric = None
    searcher: str | None = None
    scheduler: str | None = None
    num_samples: Sequence[int] | None = None
    trainables: Sequence[str] | None = None
    code: Sequence[str] | None = None

    @classmethod
    def of_fields(cls, recorded: Mapping[str, Any]) -> RunDescription:
        """The description in a record; unknown fields are ignored."""
        return cls(**{field.name: recorded.get(field.name) for field in fields(cls)})

    def as_fields(self) -> dict[str, Any]:
        """The fields for a record."""
        return dict(vars(self))

    @property
    def goal(self) -> Goal:
        """The objective."""
        return Goal.of(self.metric, self.mode)

    def after(self, before: RunDescription) -> RunDescription:
        """This description; with the objective of the driver before, if it has none itself."""
        if self.metric is not None or before.metric is None:
            return self
        return replace(self, metric=before.metric, mode=before.mode)

    def wants_more_than(self, before: RunDescription) -> bool:
        """Whether an experiment has more samples than before."""
        pairs = zip(before.num_samples or (), self.num_samples or (), strict=False)
        return any(then != -1 and (now == -1 or now > then) for then, now in pairs)


class Difference(NamedTuple):
    """A difference between two descriptions; `refusal` says why the run cannot go on, or is empty."""

    text: str
    refusal: str = ""


def compare_descriptions(
    before: RunDescription, now: RunDescription, has_only_others: Callable[[Sequence[str]], bool]
) -> list[Difference]:
    """Compare the description of a run with that of the next driver. `has_only_others` says whether the run has
    results, but none with these metrics.
    """
    found = list(_of_goals(before.goal, now.goal, has_only_others))
    for what, then, present in (
        ("the searcher", before.searcher, now.searcher),
        ("the scheduler", before.scheduler, now.scheduler),
        ("num_samples", _listed(before.num_samples), _listed(now.num_samples)),
        ("the trainable", _listed(before.trainables), _listed(now.trainables)),
    ):
        if None not in (then, present) and then != present:
            found.append(Difference(f"{what} is {present} and was {then}"))
    changed = [
        name
        for name, then, present in zip(now.trainables or (), before.code or (), now.code or (), strict=False)
        if then != present and _is_comparable(then, present)
    ]
    if changed:
        found.append(Difference(f"the code of {', '.join(changed)} has changed"))
    return found


def _of_goals(before: Goal, now: Goal, has_only_others: Callable[[Sequence[str]], bool]) -> list[Difference]:
    if before == now or not before.metrics:
        return []
    text = f"the objective is {now if now.metrics else 'not set'} and was {before}"
    if not now.metrics:
        return [Difference(text)]
    refusal = ""
    if before.metrics == now.metrics:
        if None not in (before.mode, now.mode) or before.objectives:
            refusal = "its earlier trials were chosen by the other mode"
    elif has_only_others(now.metrics):
        refusal = f"none of its results has {' and '.join(now.metrics)}"
    return [Difference(text, refusal)]


def _listed(values: Sequence[Any] | None) -> str | None:
    return None if values is None else ", ".join(map(str, values))


def _is_comparable(code: str, other: str) -> bool:
    """Whether two hashes of code are known, and of one version of Python: each has other bytecode."""
    return bool(code and other) and code.partition(":")[0] == other.partition(":")[0]
