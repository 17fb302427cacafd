"""What a driver runs, as far as a resume needs it: the objective, the number of samples, the source of the trainable.

Each driver records its description. A resume refuses another objective, warns of another source, and adds samples if
there are more than before. It compares nothing else: what the script says now holds.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any
from zlib import crc32

from minitune.base.preload import unwrapped
from minitune.experiment.goal import Goal, Metric


@dataclass(frozen=True)
class RunDescription:
    """What a driver runs. A field that is None is unknown.

    Attributes:
        source: The `source_hash` of the trainable.
    """

    metric: Metric = None
    mode: Metric = None
    num_samples: int | None = None
    source: int | None = None

    @classmethod
    def of_fields(cls, recorded: Mapping[str, Any]) -> RunDescription:
        """The description in a record; unknown fields are ignored."""
        return cls(**{field.name: recorded.get(field.name) for field in fields(cls)})

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
        """Whether there are more samples than before."""
        then = before.num_samples
        now = self.num_samples
        return now is not None and then not in (None, -1) and (now == -1 or now > then)

    def has_other_objective(self, before: RunDescription) -> bool:
        """Whether both have an objective, and not the same one. A metric without a mode fits each mode."""
        if not self.goal.metrics or not before.goal.metrics:
            return False
        return self.metric != before.metric or (None not in (self.mode, before.mode) and self.mode != before.mode)


def source_hash(trainable: Any) -> int | None:
    """The CRC-32 of a trainable's own source; None if there is none, as at a Python prompt. Blocks for the file."""
    try:
        return crc32(inspect.getsource(unwrapped(trainable)).encode("utf-8", "surrogatepass"))
    except Exception:  # the source may be gone or damaged, and an attribute of a user's object may raise anything
        return None
