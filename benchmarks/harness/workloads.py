"""The table of all workloads: their sizes, the figures that are taken from each, and the goals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Parameters = Mapping[str, Any]
Seen = Mapping[str, Any]
"""The object that a run has printed, with its `parameters`, and with `started_s`, when its process was started."""


@dataclass(frozen=True)
class Figure:
    """One number taken from a run.

    Attributes:
        title: The name in tables.
        unit: The unit.
        value: Computes the number from the object that the run has printed.
        goal: The minimum if more is better, else the maximum; None if only the ratios count.
        ratios: How many times better than each peer it should be, by the peer's name.
        is_rate: Whether more is better.
    """

    title: str
    unit: str
    value: Callable[[Seen], float]
    goal: float | None = None
    ratios: Mapping[str, float] = field(default_factory=dict)
    is_rate: bool = True

    def advantage(self, ours: float, theirs: float) -> float:
        """How many times better `ours` is."""
        return ours / theirs if self.is_rate else theirs / ours


@dataclass(frozen=True)
class Workload:
    """One kind of run. In `runs/tune_run.py`, a function of the same name makes it.

    Attributes:
        name: The name on the command line.
        figures: The figures that are taken from each run.
        sizes: The parameters of the run, for each engine that can do it. A slow engine has fewer trials if its rate
            does not depend on their number.
        quick: The parameters that differ with `--quick`.
        needs: A package that the run imports; empty if there is none.
    """

    name: str
    figures: tuple[Figure, ...]
    sizes: Mapping[str, Parameters]
    quick: Parameters
    needs: str = ""

    def parameters(self, engine: str, quick: bool) -> dict[str, Any]:
        """The size for an engine."""
        return {**self.sizes[engine], **(self.quick if quick else {})}


def _trials_per_s(seen: Seen) -> float:
    return float(len(seen["reports"]) / seen["wall_s"])


def _reports_per_s(seen: Seen) -> float:
    return float(sum(seen["reports"].values()) / seen["wall_s"])


def _between_reports_per_s(seen: Seen) -> float:
    return float((sum(seen["reports"].values()) - 1) / (seen["last_s"] - seen["first_s"]))


def _growth(name: str) -> Callable[[Seen], float]:
    """What a trial of the last run takes, divided by what a trial of the second run takes. The first run warms up."""

    def ratio(seen: Seen) -> float:
        first, last = seen["samples"][1], seen["samples"][-1]
        return float((last[name] / last["trials"]) / (first[name] / first["trials"]))

    return ratio


def _memory_per_trial_kb(seen: Seen) -> float:
    last = seen["samples"][-1]
    return float(last["memory_bytes"] / last["trials"] / 1024)


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload(
            "cold",
            (
                Figure(
                    "cold start of a script to the first report",
                    "s",
                    lambda seen: seen["first_s"] - seen["started_s"],
                    0.25,
                    {"ray": 60},
                    is_rate=False,
                ),
            ),
            {"minitune": {"trials": 1, "reports": 1}, "ray": {"trials": 1, "reports": 1}},
            {},
        ),
        Workload(
            "fresh",
            (
                Figure(
                    "short trials, a fresh process each",
                    "trials/s",
                    _trials_per_s,
                    300,
                    {"ray": 300, "forkserver": 1.7, "fork": 0.5},
                ),
            ),
            {
                "minitune": {"trials": 300, "reports": 1},
                "ray": {"trials": 20, "reports": 1},
                "forkserver": {"trials": 300, "reports": 1},
                "fork": {"trials": 300, "reports": 1},
            },
            {"trials": 10},
        ),
        Workload(
            "reused",
            (
                Figure(
                    "short trials, workers reused",
                    "trials/s",
                    _trials_per_s,
                    2000,
                    {"ray": 80, "pool": 1 / 8},
                ),
            ),
            {
                "minitune": {"trials": 2000, "reports": 1},
                "ray": {"trials": 500, "reports": 1},
                "joblib": {"trials": 2000, "reports": 1},
                "pool": {"trials": 2000, "reports": 1},
            },
            {"trials": 20},
        ),
        Workload(
            "reports",
            (
                Figure("2 trials x 5000 reports, the whole run", "reports/s", _reports_per_s, 8000, {"ray": 40}),
                Figure(
                    "the same, from the first report to the last",
                    "reports/s",
                    _between_reports_per_s,
                    8000,
                    {"ray": 20},
                ),
            ),
            {"minitune": {"trials": 2, "reports": 5000}, "ray": {"trials": 2, "reports": 1000}},
            {"reports": 20},
        ),
        Workload(
            "asha",
            (
                Figure(
                    "ASHA, at most 27 reports per trial, workers reused", "trials/s", _trials_per_s, 600, {"ray": 100}
                ),
            ),
            {"minitune": {"trials": 1000, "most_reports": 27}, "ray": {"trials": 200, "most_reports": 27}},
            {"trials": 12},
        ),
        Workload(
            "checkpoints",
            (
                Figure(
                    "reports with a checkpoint of 1 MB", "reports/s", _reports_per_s, 400, {"ray": 50, "copytree": 0.5}
                ),
            ),
            {
                "minitune": {"trials": 2, "reports": 100, "checkpoint_bytes": 1_000_000},
                "ray": {"trials": 2, "reports": 100, "checkpoint_bytes": 1_000_000},
                "copytree": {"trials": 2, "reports": 100, "checkpoint_bytes": 1_000_000},
            },
            {"reports": 3},
        ),
        Workload(
            "pauses",
            (
                Figure(
                    "8 members share 2 CPUs, each paused and resumed every 2 steps",
                    "steps/s",
                    _reports_per_s,
                    400,
                    {"ray": 25},
                ),
            ),
            {"minitune": {"trials": 8, "reports": 40}, "ray": {"trials": 8, "reports": 40}},
            {"reports": 4},
        ),
        Workload(
            "population",
            (
                Figure(
                    "population based training of 8 members that share 2 CPUs, a turn every 2 steps",
                    "steps/s",
                    _reports_per_s,
                    400,
                    {"ray": 40},
                ),
            ),
            {"minitune": {"trials": 8, "steps": 40}, "ray": {"trials": 8, "steps": 40}},
            {"steps": 4},
        ),
        Workload(
            "array",
            (
                Figure("6 trials with an array of 400 MB", "trials/s", _trials_per_s, None, {"ray": 12}),
                Figure(
                    "the driver's peak memory with it",
                    "x the array",
                    lambda seen: seen["peak_bytes"] / seen["parameters"]["array_bytes"],
                    1.1,
                    is_rate=False,
                ),
            ),
            {
                "minitune": {"trials": 6, "reports": 1, "array_bytes": 400_000_000},
                "ray": {"trials": 6, "reports": 1, "array_bytes": 400_000_000},
            },
            {"array_bytes": 8_000_000},
            needs="numpy",
        ),
        Workload(
            "objective",
            (Figure("an objective of 5 ms of CPU", "trials/s", _trials_per_s, None, {"optuna": 1}),),
            {
                "minitune": {"trials": 400, "reports": 1, "busy_s": 0.005},
                "optuna": {"trials": 400, "reports": 1, "busy_s": 0.005},
                "joblib": {"trials": 400, "reports": 1, "busy_s": 0.005},
            },
            {"trials": 20},
        ),
        Workload(
            "growth",
            (
                Figure(
                    "driver memory per finished trial, 20,000 trials", "KiB", _memory_per_trial_kb, 4, is_rate=False
                ),
                Figure("driver CPU per trial, 20,000 trials : 1,000", "x", _growth("cpu_s"), 1.15, is_rate=False),
                Figure(
                    "bytes written per trial, 20,000 trials : 1,000", "x", _growth("written_bytes"), 1.15, is_rate=False
                ),
            ),
            {"minitune": {"sizes": [100, 1000, 20_000], "reports": 1}},
            {"sizes": [5, 20, 60]},
        ),
        Workload(
            "idle",
            (
                Figure(
                    "CPU of the driver while all trials sleep",
                    "% of a core",
                    lambda seen: 100 * seen["idle_cpu_s"] / seen["idle_s"],
                    1,
                    is_rate=False,
                ),
            ),
            {
                "minitune": {"trials": 2, "reports": 2, "sleep_s": 5},
                "ray": {"trials": 2, "reports": 2, "sleep_s": 5},
            },
            {"sleep_s": 0.3},
        ),
    )
}
"""All workloads, by name, in the order in which they are run and shown."""
