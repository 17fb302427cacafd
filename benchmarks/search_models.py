"""Compares searchers on real models: pipelines of scikit-learn on its own small data sets.

    python benchmarks/search_models.py                             # all large tasks, 8 seeds, 80 trials
    python benchmarks/search_models.py --part choose               # the tasks that decisions were made by
    python benchmarks/search_models.py --part confirm              # the other large ones
    python benchmarks/search_models.py --part small --seeds 24     # many small ones
    python benchmarks/search_models.py --at-a-time 8 --trials 40   # eight trials at a time
    python benchmarks/search_models.py --cache DIR                 # keep all evaluations and runs; none is repeated
    python benchmarks/search_models.py --quick                     # does everything run?

    python benchmarks/search_models.py --splits 0                  # only the values seen, no truth
    python benchmarks/search_models.py --confirm                   # is a confirmed trial truer, at the same budget?

The tasks are in `tasks/models.py`.

*P(beat)* is the share of pairs of runs in which the left searcher's best value is smaller; a tie counts half. It is the
mean over the tasks. Intervals are those of 95 % from a bootstrap over tasks, and within a task over seeds.

The best value *seen* is partly luck. The *truth* is the mean loss, on other splits of the data with other random
numbers, of the trial that a run reports: that with the best value, or with `auto`, which repeats its best trial on the
same split, that of `minitune best`. What counts for a user is the truth.

With `--confirm`, one more table has three ways to choose a trial from the same run: by its value, by its estimate, and
as `TuneConfig(confirm=3)` does. There, the last nine trials are repeats of the three most promising ones, on other
splits. The share is that of the runs in which the truth is smaller than that of the best value seen.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import random
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the data is so small that threads cost more than they save
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from searchers import AUTO, OURS, SEARCHERS, Asker, Ours, lacks
from tasks.functions import Config
from tasks.models import CHOOSE, CONFIRM, SMALL, ModelTask, evaluate, is_noisy

from minitune.experiment.endings import Ending, EndKind
from minitune.experiment.lifecycle import Phase
from minitune.experiment.trial import Repeat, Trial
from minitune.result import TRAINING_ITERATION, flatten
from minitune.search.confirm import CONFIRMED, promising
from minitune.search.estimate import estimates
from minitune.search.searcher import Repeated
from minitune.view.best import best_of

SEEN_AT = (20, 40, 80)
"""After so many trials, the best values are compared."""
PARTS = {"choose": CHOOSE, "confirm": CONFIRM, "large": {**CHOOSE, **CONFIRM}, "small": SMALL}
_ALL = {**CHOOSE, **CONFIRM, **SMALL}
REPEATS = 3
"""How often each promising trial is repeated."""
_FIRST_REPEAT = 101
"""The number of the split of the first repeat; the truth has those from 1 on."""


# -- runs --------------------------------------------------------------------------------------------------------------


class Cache:
    """What was computed before, in a file of JSON lines. Without a folder it is kept in memory.

    Args:
        folder: The folder; None for none.
        name: The file's name.
    """

    def __init__(self, folder: Path | None, name: str):
        self._path = None if folder is None else folder / f"{name}.jsonl"
        self._known: dict[str, Any] = {}
        if self._path is not None and self._path.exists():
            for line in self._path.read_text(encoding="utf-8").splitlines():
                key, value = json.loads(line)
                self._known[key] = value

    def get(self, key: str, compute: Callable[[], Any]) -> Any:
        """The value of a key, which is computed if it is not known."""
        return self._known[key] if key in self._known else self.put(key, compute())

    def put(self, key: str, value: Any) -> Any:
        """Store a value, and return it."""
        self._known[key] = value
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps([key, value])}\n")
        return value


class Tried(NamedTuple):
    """A trial of a run. The value NaN is a failure; `repeats` is the number of the trial that it repeats."""

    value: float
    config: Config
    repeats: int | None


def trials_of_run(
    value_of: Callable[[Config, bool], float], searcher: Asker, trials: int, at_a_time: int
) -> Iterator[Tried]:
    """The trials of a run, which end in the order of their suggestions.

    `value_of` gets a configuration, and whether it is a repeat.
    """
    if isinstance(searcher, Ours):
        searcher.expect(trials)
    waiting: list[tuple[Any, Config]] = []
    asked = 0
    while asked < trials or waiting:
        while asked < trials and len(waiting) < at_a_time:
            waiting.append(searcher.ask())
            asked += 1
        token, config = waiting.pop(0)
        repeats = int(config.trial_id) - 1 if isinstance(config, Repeated) else None
        value = value_of(config, repeats is not None)
        if math.isnan(value):
            searcher.fail(token)
        else:
            searcher.tell(token, value)
        yield Tried(value, config, repeats)


def marks(trials: int) -> list[int]:
    """After how many of a run's trials the best ones are compared."""
    return [count for count in SEEN_AT if count < trials] + [trials]


def truth_of(task: ModelTask, config: Config, splits: int, known: Cache) -> float:
    """The mean loss of a configuration on other splits than that of the search. NaN if one of them fails."""
    key = json.dumps([config, splits], sort_keys=True, default=str)
    return float(known.get(key, lambda: statistics.fmean(evaluate(task, config, 1 + each) for each in range(splits))))


class Run(NamedTuple):
    """A run of a searcher on a task.

    Attributes:
        values: The values of its trials.
        truths: The truth of the best trial after each of the `marks`; empty if it is not measured.
        chosen: After each of the `marks`, the truths of the trials that each way has chosen; empty without `--confirm`.
    """

    values: list[float]
    truths: list[float]
    chosen: list[dict[str, float]]


def measure(options: argparse.Namespace) -> dict[str, dict[str, list[Run]]]:
    """All runs by task and searcher, one for each seed."""
    found: dict[str, dict[str, list[Run]]] = {}
    for title in options.tasks or PARTS[options.part]:
        task = _ALL[title]
        values = Cache(options.cache, f"values {title}")
        truths = Cache(options.cache, f"truths {title}")
        repeats = Cache(options.cache, f"repeats {title}")
        found[title] = {}
        for name in options.searchers:
            tag = f" {options.tag}" if name in (AUTO, OURS) else ""
            runs = Cache(options.cache, f"trials {title} {name} {options.at_a_time}{tag}")
            found[title][name] = []
            for seed in range(options.seeds):

                def value_of(config: Config, again: bool, task: ModelTask = task, values: Cache = values) -> float:
                    key = json.dumps([config, "again"] if again else config, sort_keys=True, default=str)
                    return float(values.get(key, lambda: evaluate(task, config, again=again)))

                def play(value_of: Any = value_of, space: Any = task.space, name: str = name, seed: int = seed) -> Any:
                    searcher = SEARCHERS[name][1](space, seed)
                    return [*trials_of_run(value_of, searcher, options.trials, options.at_a_time)]

                known = runs.get(str(seed), play)
                if len(known) < options.trials:
                    known = runs.put(str(seed), play())
                known = [Tried(*each) for each in known[: options.trials]]
                run = _run_of(known, task, options.splits, truths)
                if options.confirm:
                    for count in marks(options.trials):
                        run.chosen.append(_choices(known[:count], task, options.splits, truths, repeats))
                found[title][name].append(run)
    return found


def _run_of(trials: Sequence[Tried], task: ModelTask, splits: int, truths: Cache) -> Run:
    """The values of a run's trials, and the truths of its best ones. A run in which all have failed has no good one."""
    values = [each.value for each in trials]
    found = []
    for count in marks(len(trials)) if splits else ():
        best = best_of(_records(trials[:count]), "loss", "min")
        truth = math.nan
        if best is not None:
            truth = truth_of(task, best.trial.current_config, splits, truths)
        found.append(math.inf if math.isnan(truth) else truth)
    return Run(values, found, [])


def _choices(trials: Sequence[Tried], task: ModelTask, splits: int, truths: Cache, repeats: Cache) -> dict[str, float]:
    """The truths of the trials that three ways choose; infinite for one that fails on other splits."""
    tried = _records(trials)

    def value_of(trial: Trial) -> float:
        return float(trial.progress.metrics["loss"])

    def repeated(trial: Trial) -> float:
        config = trial.current_config
        values = []
        for split in range(_FIRST_REPEAT, _FIRST_REPEAT + REPEATS):
            key = json.dumps([config, split], sort_keys=True, default=str)
            values.append(float(repeats.get(key, lambda split=split: evaluate(task, config, split))))
        mean = statistics.fmean(values)
        return math.inf if math.isnan(mean) else mean

    best = min((trial for trial in tried if trial.repeats is None), key=value_of)
    by_id = {trial.trial_id: trial for trial in tried}
    expected = estimates(tried, "loss", "min")
    searched = [trial for trial in tried if trial.number < len(trials) - CONFIRMED * REPEATS]
    chosen = {
        "value": best,
        "estimate": by_id[expected[0].trial_id] if expected else best,
        "confirm": min(promising(searched, "loss", "min", CONFIRMED), key=repeated),
    }
    found = {}
    for way, trial in chosen.items():
        truth = truth_of(task, trial.current_config, splits, truths)
        found[way] = math.inf if math.isnan(truth) else truth
    return found


def _records(trials: Sequence[Tried]) -> list[Trial]:
    """The trials of a run that have not failed, as a run knows them."""
    found = []
    for number, (value, config, repeats) in enumerate(trials):
        if math.isnan(value):
            continue
        trial = Trial("model", config=config, trial_id=_id(number), number=number, evaluated_params=flatten(config))
        trial.phase = Phase.TERMINATED
        trial.ending = Ending.of(EndKind.RETURNED)
        result = {"loss": value, TRAINING_ITERATION: 1}
        trial.record_result(result, result)
        if repeats is not None:
            trial.set_repeats(Repeat(_id(repeats)))
        found.append(trial)
    return found


def _id(number: int) -> str:
    return f"t_{number:05d}"


# -- tables ------------------------------------------------------------------------------------------------------------


def best_at(runs: Sequence[Sequence[float]], count: int) -> list[float]:
    """The best value of each run after so many trials; infinite if all have failed."""
    return [min((value for value in run[:count] if value == value), default=math.inf) for run in runs]


def wins(left: Sequence[float], right: Sequence[float]) -> float:
    """The share of pairs in which the left value is smaller; a tie counts half."""
    return sum((a < b) + 0.5 * (a == b) for a in left for b in right) / (len(left) * len(right))


def beats(pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> str:
    """The mean of P(beat) over tasks, with its interval."""
    rng = random.Random(0)

    def drawn() -> float:
        chosen = rng.choices(pairs, k=len(pairs))
        return statistics.fmean(
            wins(rng.choices(left, k=len(left)), rng.choices(right, k=len(right))) for left, right in chosen
        )

    whole = statistics.fmean(wins(left, right) for left, right in pairs)
    figures = sorted(drawn() for _ in range(400))
    return f"{whole:.2f} [{figures[9]:.2f}, {figures[389]:.2f}]"


def show(found: Mapping[str, Mapping[str, Sequence[Run]]], ours: str, trials: int) -> Iterator[str]:
    """Three tables: how often one searcher beats each other one by the values seen, and by the truth; and the medians.

    The medians are those of the best values by task.
    """
    others = [name for name in next(iter(found.values())) if name != ours]
    counts = marks(trials)
    values = {title: {name: [run.values for run in runs[name]] for name in runs} for title, runs in found.items()}
    yield f"P(beat) of {ours}, by trials"
    yield ""
    yield _row("over", *map(str, counts), *(f"{title}, {counts[-1]}" for title in found))
    yield _row(*["---"] * (1 + len(counts) + len(found)))
    for other in others:
        cells = []
        for count in counts:
            pairs = [(best_at(runs[ours], count), best_at(runs[other], count)) for runs in values.values()]
            cells.append(beats(pairs))
        own = [f"{wins(left, right):.2f}" for left, right in pairs]
        yield _row(other, *cells, *own)
    yield ""
    yield from _show_truth(found, ours, others, counts)
    yield from _show_choices(found, counts)
    yield f"Median of the best values after {' / '.join(map(str, counts))} trials, and the share of failures"
    yield ""
    yield _row("", *found)
    yield _row(*["---"] * (1 + len(found)))
    for name in [ours, *others]:
        cells = []
        for runs in values.values():
            medians = " / ".join(f"{statistics.median(best_at(runs[name], count)):.4g}" for count in counts)
            all_values = [value for run in runs[name] for value in run]
            cells.append(f"{medians}; {sum(value != value for value in all_values) / len(all_values):.0%}")
        yield _row(name, *cells)
    yield ""


def _show_truth(
    found: Mapping[str, Mapping[str, Sequence[Run]]], ours: str, others: Sequence[str], counts: Sequence[int]
) -> Iterator[str]:
    """The table of the truth; nothing if it was not measured."""
    if not next(iter(found.values()))[ours][0].truths:
        return
    yield f"P(beat) of {ours} by the truth, by trials"
    yield ""
    yield _row("over", "tasks", *map(str, counts))
    yield _row(*["---"] * (2 + len(counts)))
    groups = {
        "all": [*found],
        "deterministic": [title for title in found if not is_noisy(title)],
        "noisy": [title for title in found if is_noisy(title)],
    }
    for other in others:
        for group, titles in groups.items():
            if not titles:
                continue
            cells = []
            for mark in range(len(counts)):
                pairs = []
                for title in titles:
                    left, right = ([run.truths[mark] for run in found[title][name]] for name in (ours, other))
                    pairs.append((left, right))
                cells.append(beats(pairs))
            yield _row(other, f"{group} ({len(titles)})", *cells)
    yield ""


def _show_choices(found: Mapping[str, Mapping[str, Sequence[Run]]], counts: Sequence[int]) -> Iterator[str]:
    """The table of the ways to choose a trial; nothing if they were not compared."""
    names = next(iter(found.values()))
    if not next(iter(names.values()))[0].chosen:
        return
    yield "The share of the runs in which the chosen trial is truer than the best value seen, by trials"
    yield ""
    yield _row("searcher", "chosen by", *map(str, counts))
    yield _row(*["---"] * (2 + len(counts)))
    for name in names:
        for way in ("estimate", "confirm"):
            cells = []
            for mark in range(len(counts)):
                tasks = []
                for runs in found.values():
                    truths = [(run.chosen[mark][way], run.chosen[mark]["value"]) for run in runs[name]]
                    tasks.append([(left < right) + 0.5 * (left == right) for left, right in truths])
                cells.append(_mean_of_tasks(tasks))
            yield _row(name, way, *cells)
    yield ""


def _mean_of_tasks(tasks: Sequence[Sequence[float]]) -> str:
    """The mean over tasks of the means over their runs, with its interval."""
    rng = random.Random(0)
    whole = statistics.fmean(map(statistics.fmean, tasks))
    figures = []
    for _ in range(400):
        drawn = rng.choices(tasks, k=len(tasks))
        figures.append(statistics.fmean(statistics.fmean(rng.choices(each, k=len(each))) for each in drawn))
    figures.sort()
    return f"{whole:.2f} [{figures[9]:.2f}, {figures[389]:.2f}]"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """Run the benchmark. Return the exit status."""
    usual = ["random", OURS, AUTO, "Optuna TPE", "Optuna GP"]
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--part", choices=tuple(PARTS), default="large", help="which tasks")
    parser.add_argument("--tasks", nargs="+", choices=tuple(_ALL), help="these tasks, of any part")
    parser.add_argument("--searchers", nargs="+", choices=tuple(SEARCHERS), default=usual, help="which searchers")
    parser.add_argument("--against", default=AUTO, help="the searcher that is compared to the others")
    parser.add_argument("--seeds", type=int, default=8, help="runs of each searcher on each task")
    parser.add_argument("--trials", type=int, default=80, help="trials of each run")
    parser.add_argument("--at-a-time", type=int, default=1, help="trials at a time")
    parser.add_argument("--splits", type=int, default=12, help="by so many other splits the truth is measured")
    parser.add_argument("--confirm", action="store_true", help="compare ways to choose a trial")
    parser.add_argument("--cache", type=Path, help="a folder that keeps evaluations and runs")
    parser.add_argument("--tag", default="", help="a name for the version of our searchers in the cached runs")
    parser.add_argument("--quick", action="store_true", help="one seed and few trials: only checks that it runs")
    options = parser.parse_args()
    options.searchers = [name for name in options.searchers if not lacks(SEARCHERS[name][0])]
    if options.against not in options.searchers:
        parser.error(f"--against {options.against!r} must be one of the installed --searchers: {options.searchers}")
    least = CONFIRMED * (1 + REPEATS) if options.confirm else 1
    if options.quick:
        options.seeds = 1
        options.trials = max(3, least)
        options.splits = min(2, options.splits)
    if options.trials < least:
        parser.error(f"--confirm needs --trials {least} or more, but got {options.trials}")
    logging.getLogger("minitune").setLevel(logging.ERROR)
    print("\n".join(show(measure(options), options.against, options.trials)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
