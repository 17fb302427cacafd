"""Makes figures from runs, and Markdown from figures."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from harness.engines import ENGINES, OURS
from harness.workloads import WORKLOADS, Figure, Workload

Run = Mapping[str, Any]


def summarise(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """The median and spread of each figure by engine, and the ratios between ours and the peers'.

    Args:
        runs: The return value of `measure.run_all`.

    Returns:
        One object per figure. A peer's figure has `void`, the reason, if all its runs are void; ours has it if one run
        is. Otherwise `void_runs` counts the runs that were left out.
    """
    rows = []
    for workload in _in_order(runs):
        for index, figure in enumerate(workload.figures):
            engines = {
                name: _spread(
                    [run for run in runs if (run["workload"], run["engine"]) == (workload.name, name)],
                    index,
                    needs_all=name == OURS,
                )
                for name in _engines(runs, workload)
            }
            rows.append(
                {
                    "workload": workload.name,
                    "title": figure.title,
                    "unit": figure.unit,
                    "is_rate": figure.is_rate,
                    "goal": figure.goal,
                    "engines": engines,
                    "ratios": _ratios(figure, engines),
                }
            )
    return rows


def _spread(runs: Sequence[Run], index: int, needs_all: bool) -> dict[str, Any]:
    voids = [run["void"] for run in runs if "void" in run]
    if len(voids) == len(runs) or (voids and needs_all):
        return {"void": voids[0]}
    values = [run["figures"][index] for run in runs if "void" not in run]
    return {
        "values": values,
        "void_runs": len(voids),
        "median": statistics.median(values),
        "min": min(values),
        "max": max(values),
    }


def _ratios(figure: Figure, engines: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """How many times better our median is than each peer's, and the goal for that."""
    ours = engines.get(OURS, {}).get("median")
    return {
        name: {"times": figure.advantage(ours, spread["median"]), "goal": figure.ratios.get(name)}
        for name, spread in engines.items()
        if name != OURS and ours and spread.get("median")
    }


def markdown(document: Mapping[str, Any]) -> str:
    """The tables: our figures and their goals, a comparison with each peer, and the wall and CPU times.

    Args:
        document: The object that `compare.py --json` writes.
    """
    machine, rounds = document["machine"], document["rounds"]
    parts = [
        f"{machine['cpus']} CPUs ({machine['processor']}), {machine['system']}; medians (and ranges) of {rounds} "
        f"{'round' if rounds == 1 else 'rounds'} in which the engines take turns."
    ]
    if document["quick"]:
        parts.append(
            "Small sizes: the figures show that everything runs, and nothing else; goals are for the full ones."
        )
    rows, engines = document["figures"], document["engines"]
    if OURS in engines:
        parts.append(_table(("", "minitune", "goal"), map(_own_cells, rows)))
    for name in engines:
        theirs = [row for row in rows if name in row["engines"]]
        if name != OURS and theirs:
            title = f"{engines[name]['title']} {engines[name]['version']}"
            parts.append(_table(("", "minitune", title, "ratio", "goal"), map(_cells_against(name), theirs)))
            parts.append(_smaller_sizes(name, document))
    parts.append(_table(("seconds", "", "wall", "driver CPU", "helpers CPU", "workers CPU"), _cpu_cells(document)))
    if document["not_measured"]:
        parts.append(f"Not measured: {'; '.join(document['not_measured'])}.")
    return "\n\n".join(filter(None, parts)) + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _own_cells(row: Mapping[str, Any]) -> Sequence[str]:
    goal = ""
    ours = row["engines"].get(OURS, {})
    if row["goal"] is not None:
        sign = "≥" if row["is_rate"] else "≤"
        goal = f"{sign} {_number(row['goal'])}{_verdict(ours.get('median'), row['goal'], row['is_rate'])}"
    return row["title"], _value(row, OURS), goal


def _cells_against(name: str) -> Callable[[Mapping[str, Any]], Sequence[str]]:
    def cells(row: Mapping[str, Any]) -> Sequence[str]:
        ratio = row["ratios"].get(name, {})
        times, goal = ratio.get("times"), ratio.get("goal")
        wanted = "" if goal is None else f"≥ {_number(goal)} x{_verdict(times, goal, True)}"
        shown = "" if times is None else f"{_number(times)} x"
        return row["title"], _value(row, OURS), _value(row, name), shown, wanted

    return cells


def _verdict(value: float | None, goal: float, is_rate: bool) -> str:
    if value is None:
        return ""
    return " (met)" if (value >= goal if is_rate else value <= goal) else " (missed)"


def _value(row: Mapping[str, Any], name: str) -> str:
    spread = row["engines"].get(name)
    if spread is None:
        return ""
    if "void" in spread:
        return f"VOID: {spread['void'].splitlines()[-1]}"
    text = f"{_number(spread['median'])} {row['unit']}"
    if spread["min"] != spread["max"]:
        text += f" ({_number(spread['min'])} - {_number(spread['max'])})"
    if spread["void_runs"]:
        text += f", without {spread['void_runs']} VOID"
    return text


def _number(value: float) -> str:
    """Three digits, and no exponent."""
    digits = f"{value:.3g}"
    return f"{float(digits):,.0f}" if "e" in digits or abs(value) >= 1000 else digits


def _smaller_sizes(name: str, document: Mapping[str, Any]) -> str:
    """A sentence that lists the peer's smaller sizes."""
    if document["quick"]:
        return ""
    notes = []
    for workload in _in_order(document["runs"]):
        if OURS in workload.sizes and name in workload.sizes:
            ours, theirs = workload.sizes[OURS], workload.sizes[name]
            notes += [
                f"{workload.name} {theirs[key]} {key} instead of {ours[key]}"
                for key in ours
                if theirs[key] != ours[key]
            ]
    return f"Smaller runs for {ENGINES[name].title}: {', '.join(notes)}." if notes else ""


def _cpu_cells(document: Mapping[str, Any]) -> Iterable[Sequence[str]]:
    for workload in _in_order(document["runs"]):
        for name in _engines(document["runs"], workload):
            seen = [
                run["seen"]
                for run in document["runs"]
                if (run["workload"], run["engine"]) == (workload.name, name) and "void" not in run
            ]
            if seen:
                kinds = [statistics.median(run["cpu_s"][kind] for run in seen) for kind in seen[0]["cpu_s"]]
                times_s = [statistics.median(run["wall_s"] for run in seen), *kinds]
                yield workload.name, name, *(f"{time_s:.2f}" for time_s in times_s)


def _in_order(runs: Sequence[Run]) -> list[Workload]:
    """The workloads of some runs, in the order of the table."""
    return [workload for name, workload in WORKLOADS.items() if any(run["workload"] == name for run in runs)]


def _engines(runs: Sequence[Run], workload: Workload) -> list[str]:
    return list(dict.fromkeys(run["engine"] for run in runs if run["workload"] == workload.name))
