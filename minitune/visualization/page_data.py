"""The data of the page: all fields that the script of the page reads. `page` fills them.

Facts that `--json` has, too, have the same names there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from typing import Any

from minitune.base import json_text


@dataclass
class PageImportances:
    """How much each parameter matters, or a `note` that says why that is unknown."""

    note: str
    shares: Mapping[str, float] = field(default_factory=dict)


@dataclass
class PageTrialDetails:
    """What the page shows of one trial alone."""

    config: Any
    seed: int | None
    attempt: int
    cpu_s: float | None
    peak_bytes: str | None
    directory: str | None
    decisions: list[str]
    checkpoints: list[dict[str, Any]]
    error: str
    output: str
    commands: dict[str, str]  # by what they are for


@dataclass
class PageTrial:
    """A trial. Times count from `first_s` of its run."""

    number: int
    name: str
    status: str
    repeats: str | None  # the id of the trial that it repeats
    ended: str
    why: str
    error: str
    value: float | None
    params: dict[str, Any]
    metrics: dict[str, Any]
    curve: list[float | None]
    steps: list[float] | None  # of the curve; None: 1, 2, 3 ...
    others: dict[str, Any] | None  # `values` by metric, `at` these positions of the curve; None: at all
    spans: list[list[float]]  # the begin and end of each time that it had a worker
    working_s: float | None  # since when it has its present worker
    counted_s: float | None  # how long it had worked at `since_s`, from when on its time counts by the clock
    since_s: float | None
    reported_s: float | None  # the time of its last report, while it runs
    copies: list[list[float]]  # the donor of each checkpoint that it took over, and its own last step before
    facts: dict[str, Any]  # of the last decision about it
    details: PageTrialDetails | None = None  # those of a page that is served are asked for


@dataclass
class PageRun:
    """A run. Its trials stand behind it as `trials`."""

    name: str
    path: str
    trainable: str
    state: str
    state_text: str
    is_live: bool
    now_s: float  # the time to which the durations belong
    rest_s: float | None
    worked_s: float
    resume: str | None  # the command that continues it
    metric: str
    mode: str
    objectives: Mapping[str, str]
    metrics: Sequence[str]
    params: Sequence[str]
    scales: Mapping[str, Any]  # by parameter, see `RunSetup.scales`
    seed: int | None
    begun_s: float
    first_s: float  # when a trial first got a worker
    total: int | None
    counts: Mapping[str, int]
    compared: Mapping[str, str]  # the texts of its column beside other runs
    best: int | None  # the number of a trial
    best_config: Any
    errors: list[dict[str, Any]]  # see `facts_of_errors`
    earlier_best: str
    confirmed: float | None  # the mean of the repeats of the best trial
    remark: str
    importances: Mapping[str, Any]  # a `PageImportances` by objective


@dataclass
class ListedRun:
    """A run in the list of runs. A damaged one has a name and a state only."""

    name: str
    state: str
    href: str | None = None
    begun_s: float = 0.0
    opened_s: float = 0.0
    earlier_s: float = 0.0  # how long drivers before the last one worked
    worked_s: float | None = None
    trials: int | None = None
    total: int | None = None
    ended: int = 0
    failed: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    metric: str | None = None
    mode: str | None = None
    best: float | None = None


@dataclass
class Page:
    """What the page shows: `runs` that stand behind it, or a list of runs."""

    only: Mapping[str, Any] | None = None  # the `view` of the one plot to show, and its first settings
    is_served: bool = False
    version: int = 0
    up: str | None = None  # the address of the list of runs
    listed: Sequence[Mapping[str, Any]] | None = None


def as_json(data: Any) -> dict[str, Any]:
    """One of these as an object of JSON."""
    return {name: vars(value) if is_dataclass(value) else value for name, value in vars(data).items()}


def with_parts(data: Any, name: str, parts: Iterable[str]) -> str:
    """One of these as JSON, with a list of parts behind it that are JSON already."""
    return f'{json_text.dumps(as_json(data))[:-1]},"{name}":[{",".join(parts)}]}}'
