"""The page: runs in one HTML file, as data, which the files of `script` draw.

The same page is a file to mail (`write_report`), a plot in a notebook (`plots`), and what `minitune watch --web` serves
(`server`). It needs no other file and no network.

Three things keep a text from becoming markup or script. The data is JSON without `<`, in an element that no browser
runs. The script sets texts, never markup. And a content security policy allows only the script and the style whose
hashes it names.
"""

from __future__ import annotations

import base64
import hashlib
import html
import math
import os
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from minitune.base import json_text
from minitune.base.collecting import collector_paused
from minitune.base.files import atomic_write, local_path
from minitune.base.numbers import known_number
from minitune.base.table import format_cell
from minitune.base.text import cut, plain_number, plain_or_short
from minitune.experiment.goal import Goal
from minitune.record.standing import RUNNING_RUN
from minitune.result import TIME_TOTAL_S
from minitune.space.tree import value_at_text
from minitune.view.best import ranked
from minitune.view.facts import CONTINUE, run_facts, trial_facts
from minitune.view.history import RunHistory, RunLike, TrialHistory
from minitune.view.importances import importances_of
from minitune.view.rows import ended, infer_metrics, last_line, shown_metric
from minitune.view.runs import run_row, side_fields

_SCRIPTS = ("core", "run", "filter", "chart", "cards", "table", "trial", "view", "list", "live")
_FACTS_OF_RUN = ("name", "trainable", "state", "state_text", "rest_s", "worked_s", "seed")
_FACTS_OF_TRIAL = ("seed", "attempt", "directory", "checkpoints", "error")
"""The facts that the page shows as they are."""
_METRICS_SHOWN = 12
"""The maximum number of metrics besides the objectives that the table has columns for."""
_DECISIONS_SHOWN = 20
_OUTPUT_BYTES = 4000
"""The part of a trial's output that the page shows."""
_FILE_OUTPUT_BYTES = 1_500_000
"""The maximum size of all output in a file, of which each trial has an equal part: a run of 10,000 can be mailed."""
_DIGITS = 7
"""Points of a learning curve have so many digits, which no screen can tell from more."""
_OTHER_DIGITS = 5
_FEWEST_VALUES = 8
_MOST_VALUES = 100
_ALL_VALUES = 300_000
"""The limits of the values of other metrics, of each in a trial and of all in a page."""


def write_report(
    runs: RunLike | Sequence[RunLike],
    path: str | os.PathLike[str],
    *,
    metric: str | None = None,
    mode: str | None = None,
) -> str:
    """Write a report of one run, or of several side by side, into one HTML file that needs no network.

    Args:
        runs: A run's directory, its `ResultGrid` or its `ExperimentAnalysis`, or a list of them. Blocks: seconds for
            10,000 trials.
        path: The file; an older one is replaced at once.
        metric: The objective; by default each run's own.
        mode: `"min"` or `"max"`; by default each run's own.

    Returns:
        The path of the file.

    Raises:
        FileNotFoundError: If there is no such run or directory.
        ValueError: If a run has no metric or mode and none is given.
        TuneError: If a journal cannot be read.
    """
    target = local_path(path)
    with collector_paused():
        page = report_page(read_histories(runs, metric, mode))
    atomic_write(target, page)
    return target


def read_histories(
    runs: RunLike | Sequence[RunLike], metric: str | None = None, mode: str | None = None
) -> list[RunHistory]:
    """The histories of one run or of a list of runs; see `RunHistory` for the errors."""
    if not isinstance(runs, (list, tuple)):
        runs = [runs]
    if not runs:
        raise ValueError("runs: at least one, but got none")
    return [RunHistory(run, metric, mode) for run in runs]


def report_page(histories: Sequence[RunHistory], only: Mapping[str, Any] | None = None) -> bytes:
    """The page of these runs. Blocks. `only` is the one plot to show: its `view`, and its first settings."""
    title = f"minitune: {', '.join(history.name for history in histories)}"
    runs = [run_data(history, has_details=only is None) for history in histories]
    return fill_page(title, page_data(only=only, runs=runs))


def page_data(**given: Any) -> dict[str, Any]:
    """What a page knows: its `runs`; the `view` of the one plot to show, and its first settings; whether it is served;
    the address of the list of runs; or this list itself.
    """
    return {"only": None, "is_served": False, "up": None, "listed": None, "runs": [], **given}


def fill_page(title: str, data: Mapping[str, Any], *, is_live: bool = False) -> bytes:
    """The page with this title and data. A live page may ask its own server for more."""
    script = page_script()
    style = _part("page.css")
    policy = f"default-src 'none'; script-src {_hash_of(script)}; style-src {_hash_of(style)}"
    policy += "; base-uri 'none'; form-action 'none'"
    if is_live:
        policy += "; connect-src 'self'"
    texts = {
        "<!--POLICY-->": policy,
        "<!--TITLE-->": html.escape(title),
        "/*STYLE*/": style,
        "/*DATA*/": json_text.dumps(data).replace("<", "\\u003c"),
        "/*SCRIPT*/": script,
    }
    # split once: a text of the user's may hold a mark, too
    marks = "|".join(map(re.escape, texts))
    page = "".join(texts.get(part, part) for part in re.split(f"({marks})", _part("page.html")))
    return page.encode(errors="replace")  # a text of the user's may hold half a surrogate pair


@cache
def page_script() -> str:
    """The script of the page: its files one after the other, since each uses what those before it define."""
    return "".join(_part(os.path.join("script", f"{name}.js")) for name in _SCRIPTS)


@cache
def _part(name: str) -> str:
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        return file.read()


def _hash_of(text: str) -> str:
    """The name of an inline script or style in a content security policy."""
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def describe_importances(history: RunHistory) -> dict[str, dict[str, Any]]:
    """The importances for each objective, and a `note` on how they were found, or why there are none."""
    found = {}
    for name in dict.fromkeys((history.metric, *history.objectives)):
        try:
            shares = importances_of(history.story.trials, name, history.params)
        except ValueError as error:
            found[name] = {"note": str(error), "shares": {}}
        else:
            found[name] = {"note": "By the ranks of values, each parameter alone.", "shares": shares}
    return found


# -- data --------------------------------------------------------------------------------------------------------------
def run_data(history: RunHistory, *, has_details: bool = False) -> dict[str, Any]:
    """A run as the page shows it. The details are what the page shows of one trial alone. Blocks while outputs are
    read.
    """
    trials = [each.trial for each in history.trials]
    metrics = [*history.objectives, *infer_metrics(trials, {*history.objectives, history.metric}, _METRICS_SHOWN)]
    limit_bytes = min(_OUTPUT_BYTES, _FILE_OUTPUT_BYTES // max(1, len(trials)))
    shown = []
    for each in history.trials:
        data = _of_trial(history, each, metrics)
        if has_details:
            data["details"] = trial_details(history, each, limit_bytes)
        shown.append(data)
    return {**_of_run(history), "metrics": metrics, "trials": shown}


def _of_run(history: RunHistory) -> dict[str, Any]:
    """The facts of the run, see `run_facts`, and what draws them."""
    story = history.story
    goal = Goal(history.metric, history.mode)
    facts = run_facts(story, history.state, goal)
    best = facts["best"]
    expected = best and best["expected"]
    row = run_row(history.name, story, history.state, goal)
    return {
        **{name: facts[name] for name in _FACTS_OF_RUN},
        "path": history.path,
        "is_live": history.state.name == RUNNING_RUN,
        "resume": facts["commands"].get(CONTINUE),
        "metric": history.metric,
        "mode": history.mode,
        "objectives": history.objectives,
        "params": history.params,
        "scales": story.setup.scales,
        "begun_s": story.setup.begun_s,
        "total": story.total_samples,
        "counts": history.state.counts(story),
        "compared": {field.header: format_cell(field.get(row), field.most) for field in side_fields([row])[1:]},
        "best": best and best["trial"],
        "best_config": best and _plain(best["config"]),
        "errors": [{**each, "rerun": f"{each['rerun']} --pdb"} for each in facts["errors"]],
        "order": [trial.number for trial in ranked(story.trials, goal)],
        "confirmed": best and best["mean"],
        "remark": best and (best["confirmed_text"] or (expected and f"Expected: {expected['text']}")),
        "importances": describe_importances(history),
    }


def _of_trial(history: RunHistory, each: TrialHistory, metrics: Sequence[str]) -> dict[str, Any]:
    """A trial and its courses."""
    trial = each.trial
    steps = each.steps.tolist()
    is_counted = steps == list(range(1, len(steps) + 1))
    decisions = history.decisions_on(each)
    facts = decisions[-1].facts if decisions else {}
    values = {name: shown_metric(trial, name) for name in metrics}
    return {
        "number": each.number,
        "name": trial.name,
        "status": trial.state,
        "repeats": trial.repeats and trial.repeats.trial_id,
        "ended": ended(trial),
        "why": "" if trial.ending is None else trial.ending.text,
        "error": last_line(trial),
        "value": _finite(each.value),
        "odd": _odd(each, history.metric),
        "params": each.params,
        "metrics": {name: plain_or_short(value) for name, value in values.items() if value is not None},
        "bests": _bests(history, each),
        "curve": _rounded(each.values),
        "steps": None if is_counted else steps,  # of the curve; None: 1, 2, 3 ...
        "courses": _courses(each, len(history.trials)),
        "total_s": known_number(trial.progress.metrics.get(TIME_TOTAL_S)) or 0.0,
        "reported_s": each.reported_s,
        "copies": each.copies,
        "facts": {name: facts[name] for name in ("rank", "of", "rung", "cutoff") if name in facts},
    }


def _bests(history: RunHistory, each: TrialHistory) -> dict[str, float]:
    """The best values of the objectives that are better than their last ones."""
    found = {}
    analysis = each.trial.progress.analysis
    for name, mode in ({history.metric: history.mode} | history.objectives).items():
        best = analysis.get(name, mode)
        if best is not None and math.isfinite(best) and best != analysis.get(name, "last"):
            found[name] = best
    return found


def _courses(each: TrialHistory, num_trials: int) -> dict[str, Any]:
    """The seconds of training and the other metrics, by name, `at` these positions of the curve, or at all if it is
    None.

    A large run has fewer of each trial.
    """
    count = len(each.steps)
    most = _ALL_VALUES // (num_trials * (1 + len(each.others)))
    most = max(_FEWEST_VALUES, min(_MOST_VALUES, most))
    at = None
    indices: Sequence[int] = range(count)
    if count > most:
        at = sorted({round(i * (count - 1) / (most - 1)) for i in range(most)})
        indices = at
    values = {}
    for name, known in {"": each.seconds, **each.others}.items():
        shown = [known[i] for i in indices if i < len(known)]
        values[name] = _rounded(shown, _OTHER_DIGITS) + [None] * (len(indices) - len(shown))
    return {"at": at, "seconds": values.pop(""), "values": values}


def _odd(each: TrialHistory, metric: str) -> str | None:
    """The last objective of a trial if it is no finite number, such as `nan`; None if it is one, or there is none."""
    last = value_at_text(each.trial.progress.metrics, metric) if metric else None
    return None if last is None or math.isfinite(each.value) else cut(str(last), 20)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _rounded(values: Sequence[float], digits: int = _DIGITS) -> list[float | None]:
    """Numbers with so many digits; None for what is not finite."""
    # one format for all values: a large run has many
    rounded = map(float, (f"%.{digits}g " * len(values) % tuple(values)).split())
    return [value if math.isfinite(value) else None for value in rounded]


def trial_details(history: RunHistory, each: TrialHistory, output_bytes: int = _OUTPUT_BYTES) -> dict[str, Any]:
    """What the page shows of one trial alone. Blocks while files of the trial are read; unpickles nothing."""
    trial = each.trial
    decisions = history.decisions_on(each)[-_DECISIONS_SHOWN:]
    facts = trial_facts(history.story, trial, decisions)
    return {
        **{name: facts[name] for name in _FACTS_OF_TRIAL},
        "config": _plain(facts["config"]),
        "decisions": [one["text"] for one in facts["decisions"]],
        "output": _output_of(trial.local_path, output_bytes) if trial.has_started else "",
    }


def _plain(value: Any) -> Any:
    """A configuration as JSON and Python can write it; other values become short texts."""
    value = plain_number(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(member) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(member) for member in value]
    return value if isinstance(value, str) else plain_or_short(value)


def _output_of(directory: str, limit_bytes: int) -> str:
    """The end of what a trial has printed, whole lines where there are any."""
    parts = []
    for name in ("stdout", "stderr"):
        try:
            with open(os.path.join(directory, name), "rb") as file:
                size_bytes = file.seek(0, os.SEEK_END)
                begin = max(0, size_bytes - limit_bytes // 2)
                file.seek(begin)
                text = file.read(limit_bytes).decode("utf-8", "replace")
        except OSError:  # its output goes elsewhere
            continue
        if begin:
            text = text.partition("\n")[2] or text
        if text.strip():
            parts.append(text.rstrip())
    return "\n".join(parts)
