"""What a driver runs, as far as a resume needs it: the objective, the numbers of samples, the source of the trainables.

Each driver records its description. A resume refuses another objective, warns of another source, and adds samples if
there are more than before. It compares nothing else: what the script says now holds.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any
from zlib import crc32

from minitune.base.preload import unwrapped
from minitune.experiment.goal import Goal, Metric


@dataclass(frozen=True)
class RunDescription:
    """What a driver runs. A field that is None is unknown.

    Attributes:
        num_samples: By experiment.
        sources: By experiment, the `source_hash` of its trainable.
    """

    metric: Metric = None
    mode: Metric = None
    num_samples: Sequence[int] | None = None
    sources: Sequence[int | None] | None = None

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

    def has_other_objective(self, before: RunDescription) -> bool:
        """Whether both have an objective, and not the same one. A metric without a mode fits each mode."""
        if not self.goal.metrics or not before.goal.metrics:
            return False
        return self.metric != before.metric or (None not in (self.mode, before.mode) and self.mode != before.mode)

    def has_other_source(self, before: RunDescription) -> bool:
        """Whether the source of a trainable is known and was another one."""
        pairs = zip(before.sources or (), self.sources or (), strict=False)
        return any(None not in (then, now) and then != now for then, now in pairs)


def source_hash(trainable: Any) -> int | None:
    """The CRC-32 of a trainable's own source; None if there is none, as at a Python prompt. Blocks for the file."""
    try:
        return crc32(inspect.getsource(unwrapped(trainable)).encode("utf-8", "surrogatepass"))
    except Exception:  # the source may be gone or damaged, and an attribute of a user's object may raise anything
        return None
