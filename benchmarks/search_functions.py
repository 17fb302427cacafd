"""Compares searchers by the values that they find and the time of a suggestion.

    python benchmarks/search_functions.py                          # everything, 10 seeds
    python benchmarks/search_functions.py --seeds 30               # as many seeds as the goals ask for
    python benchmarks/search_functions.py --only functions cost    # some parts
    python benchmarks/search_functions.py --quick                  # does everything run?
    python benchmarks/search_functions.py --only bbob --other DIR  # also compare with the TPE of another checkout

The parts:

- `functions`: 100 trials, one at a time, on the six functions of `tasks/functions.py`.
- `parallel`: the same, sixteen trials at a time.
- `large`: 200 trials on three functions, each with 20 and with 50 parameters.
- `many`: 100 and 150 trials on three functions that no decision was made by, each with 16, 24 and 40 parameters.
- `bbob`, `mixint`: 100 trials on the 24 functions of two suites of COCO, if `coco-experiment` is installed.
- `digits`: 600 epochs on four workers, with early stopping. Learning curves are interpolated between the five nearest
  ones of `digits_curves.json.gz`. (With the nearest one alone, the objective would be constant in places.)
- `cost`: the CPU time of a suggestion and its result, with ten numbers, and with 30 numbers and 15 choices.
- `import`: the time and memory of importing a searcher.
- `objectives`: the hypervolume of 100 trials with two objectives.
- `crashes`: a fifth of the trials crash at random, or half of the space does, or nine tenths of it, on five functions
  of five parameters; compared with runs without crashes at the same number of successes.
- `transfer`: a run that learns from an earlier one of 60 trials, on a similar function and on a different one.

*Regret* is the distance of a run's best value from the optimum, divided by that of the median of 5,000 random values.
A function's score is log10 of the median over the seeds, and a searcher's score is the mean over the functions.
*P(beat)* is the share of pairs of runs that the first of two searchers wins; a tie counts half. Intervals are those of
95 % from a bootstrap over seeds. A searcher is worse than another one on a function if a Mann-Whitney test says so at
5 %, with Holm's correction over the functions. Optuna and HyperOpt take part if they are installed. SMAC takes part
only if it is named, because a suggestion takes it about a second.
"""

from __future__ import annotations

import argparse
import gzip
import heapq
import json
import logging
import math
import os
import random
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from operator import mul
from pathlib import Path
from typing import Any

from schedulers import EPOCHS, Spent, read_curves
from searchers import (
    AUTO,
    IMPORTS,
    LEARNERS,
    OF_TWO,
    OTHER,
    OURS,
    SEARCHERS,
    SMAC,
    TURBO,
    Asker,
    Other,
    Ours,
    lacks,
)
from tasks.functions import (
    FAILING_TASKS,
    LARGE_TASKS,
    MANY_TASKS,
    TASKS,
    Config,
    Task,
    coco_tasks,
    failure,
    hypervolume,
    relative,
    zdt,
)

from minitune import ASHAScheduler, RunConfig, TuneConfig, choice, lograndint, loguniform, uniform
from minitune.search import TPESearch
from minitune.simulation import simulate
from minitune.space.domains import Categorical, LogUniform
from minitune.space.parameters import Axis

BUDGET, WORKERS = 600, 4
"""The numbers of epochs and workers of the part `digits`."""
NEIGHBOURS = 5
"""The number of curves between which a new one is interpolated."""


# -- functions ---------------------------------------------------------------------------------------------------------


def best_values(
    task: Task, make: Callable[..., Asker], seed: int, counts: Sequence[int], at_a_time: int
) -> list[float]:
    """The best value of a run after each of so many trials. They end in the order of their suggestions."""
    searcher = make(task.space, seed)
    trials = max(counts)
    values: list[float] = []
    waiting: list[tuple[Any, Config]] = []
    asked = 0
    while asked < trials or waiting:
        while asked < trials and len(waiting) < at_a_time:
            waiting.append(searcher.ask())
            asked += 1
        token, config = waiting.pop(0)
        values.append(task.function(config))
        searcher.tell(token, values[-1])
    return [min(values[:count]) for count in counts]


class Runs:
    """The best values of runs. With a file, a benchmark that was interrupted does not repeat its runs.

    Args:
        path: A file of JSON lines; None keeps the values in memory only.
    """

    def __init__(self, path: Path | None):
        self._path = path
        self._known: dict[str, list[float]] = {}
        if path is not None and path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                key, value = json.loads(line)
                self._known[json.dumps(key)] = value

    def best(self, task: Task, name: str, seed: int, counts: Sequence[int], at_a_time: int) -> list[float]:
        """See `best_values`."""
        key = [task.name, name, seed, [*counts], at_a_time]
        known = self._known.get(json.dumps(key))
        if known is None:
            known = best_values(task, SEARCHERS[name][1], seed, counts, at_a_time)
            self._known[json.dumps(key)] = known
            if self._path is not None:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(f"{json.dumps([key, known])}\n")
        return known


def on_functions(
    tasks: Iterable[Task],
    names: Sequence[str],
    seeds: int,
    counts: Sequence[int],
    at_a_time: int,
    typical_of: int,
    runs: Runs,
) -> list[dict[str, Any]]:
    """The regrets by function and searcher, one for each seed. If the optimum is unknown, they are the best values.

    Returns:
        Them after each of so many trials.
    """
    found: list[dict[str, Any]] = [{} for _ in counts]
    for task in tasks:
        best = {name: [runs.best(task, name, seed, counts, at_a_time) for seed in range(seeds)] for name in names}
        optimum = 0.0
        scale = 1.0
        least = -math.inf
        if not math.isnan(task.optimum):
            optimum = task.optimum
            scale = task.typical(typical_of) - optimum
            least = 1e-12
        for number, after in enumerate(found):
            after[task.name] = {
                name: [max((row[number] - optimum) / scale, least) for row in rows] for name, rows in best.items()
            }
    return found


def show_functions(found: Mapping[str, Mapping[str, Sequence[float]]], title: str) -> Iterator[str]:
    """A table: for each searcher log10 of the median regret on each function, the mean, and how often ours beat it."""
    names = list(next(iter(found.values())))
    yield f"{title}: log10 of the median regret (less is better), and P(beat) of ours over the row's searcher"
    yield ""
    yield _row("", *found, "mean", *_ours_titles(names))
    yield _row(*["---"] * (len(found) + 2 + len(_ours_titles(names))))
    for name in names:
        samples = [runs[name] for runs in found.values()]
        scores = [math.log10(statistics.median(sample)) for sample in samples]
        low, high = interval(samples, lambda drawn: statistics.mean(math.log10(statistics.median(x)) for x in drawn))
        mean = f"{statistics.mean(scores):.3f} [{low:.2f}, {high:.2f}]"
        yield _row(name, *(f"{score:.2f}" for score in scores), mean, *_ours_cells(found, name))
    yield ""


def show_wins(found: Mapping[str, Mapping[str, Sequence[float]]], title: str) -> Iterator[str]:
    """A table: on how many functions ours beat each searcher in more than half of the pairs, and the share of pairs."""
    names = list(next(iter(found.values())))
    yield f"{title}: P(beat) of ours over the row's searcher"
    yield ""
    yield _row("", *(f"{column}, functions | share" for column in _ours_titles(names)))
    yield _row(*["---"] * (1 + 2 * len(_ours_titles(names))))
    for name in names:
        cells = []
        for ours, beaten in zip(
            [each for each in (AUTO, OURS) if each in names], _ours_cells(found, name), strict=True
        ):
            won = [share_won(runs[ours], runs[name]) for runs in found.values()]
            count = sum((share > 0.5) + 0.5 * (share == 0.5) for share in won)
            cells += [f"{count:g} of {len(won)}" if ours != name else "", beaten]
        yield _row(name, *cells)
    yield ""


def _ours_titles(names: Sequence[str]) -> list[str]:
    return [f"{ours} beats it" for ours in (AUTO, OURS) if ours in names]


def _ours_cells(found: Mapping[str, Mapping[str, Sequence[float]]], name: str) -> list[str]:
    """For each searcher of ours, how often it beats the one of this name, and on which functions it is worse."""
    cells = []
    for ours in (AUTO, OURS):
        if ours in next(iter(found.values())):
            pairs = {task: (runs[ours], runs[name]) for task, runs in found.items()}
            worse = ", ".join(worse_on(pairs))
            cells.append("" if ours == name else beats([*pairs.values()]) + (f", worse on {worse}" if worse else ""))
    return cells


def worse_on(pairs: Mapping[str, tuple[Sequence[float], Sequence[float]]], level: float = 0.05) -> list[str]:
    """The functions on which the left sample of a pair is significantly larger, by the test of the docstring above."""
    chances = sorted((_chance_of_more(left, right), name) for name, (left, right) in pairs.items())
    found = []
    for number, (chance, name) in enumerate(chances):
        if chance > level / (len(chances) - number):
            break
        found.append(name)
    return found


def _chance_of_more(left: Sequence[float], right: Sequence[float]) -> float:
    """The p-value of a one-sided Mann-Whitney test that the left sample is larger, by the normal approximation."""
    ties = Counter([*left, *right]).values()
    count = len(left) + len(right)
    spread = len(left) * len(right) / 12 * (count + 1 - sum(t**3 - t for t in ties) / (count * (count - 1)))
    excess = len(left) * len(right) * (0.5 - share_won(left, right)) - 0.5  # with the correction for continuity
    return 0.5 * math.erfc(excess / math.sqrt(2 * spread)) if spread > 0 else 1.0


def beats(pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> str:
    """The mean of P(beat) over pairs of samples, with its interval."""
    whole = statistics.mean(share_won(left, right) for left, right in pairs)
    samples = [sample for pair in pairs for sample in pair]
    low, high = interval(samples, lambda drawn: statistics.mean(map(share_won, drawn[::2], drawn[1::2])))
    return f"{whole:.2f} [{low:.2f}, {high:.2f}]"


def interval(
    samples: Sequence[Sequence[float]], figure: Callable[[Sequence[Sequence[float]]], float]
) -> tuple[float, float]:
    """The 95 % interval of a figure, by a bootstrap over the members of each sample."""
    rng = random.Random(0)
    drawn = sorted(figure([rng.choices(sample, k=len(sample)) for sample in samples]) for _ in range(200))
    return drawn[4], drawn[194]


def share_won(left: Sequence[float], right: Sequence[float]) -> float:
    """The share of pairs in which the left value is smaller; a tie counts half."""
    return sum((a < b) + 0.5 * (a == b) for a in left for b in right) / (len(left) * len(right))


# -- several objectives ------------------------------------------------------------------------------------------------


def on_zdt(names: Sequence[str], seeds: int, trials: int) -> dict[str, Any]:
    """How much hypervolume is missing, by function and searcher, for each seed. Less is better."""
    found: dict[str, Any] = {}
    for number in (1, 2, 3):
        runs: dict[str, list[float]] = {name: [] for name in names}
        for name in names:
            for seed in range(seeds):
                function, space, best = zdt(number, seed)
                searcher, points = OF_TWO[name][1](space, seed), []
                for _ in range(trials):
                    token, config = searcher.ask()
                    points.append(function(config))
                    searcher.tell(token, points[-1])
                whole = hypervolume(function({**best, "x0": step / 999}) for step in range(1000))
                runs[name].append(whole - hypervolume(points))
        found[f"ZDT{number}"] = runs
    return found


# -- earlier runs ------------------------------------------------------------------------------------------------------

EARLIER, SEEN_AT = 60, (5, 10, 20, 50)
"""The trials of the earlier run, and the numbers of trials after which the new run's best value is compared."""


def on_relatives(names: Sequence[str], tasks: Sequence[str], seeds: int) -> dict[str, Any]:
    """The best values after the trials of `SEEN_AT`, by searcher, kind of earlier run, and function, for each seed."""
    found: dict[str, Any] = {}
    for name in names:
        found[name] = {kind: {} for kind in ("none", "like", "unlike")}
        for task in map(TASKS.__getitem__, tasks):
            for kind, of_kind in found[name].items():
                of_kind[task.name] = []
                for seed in range(seeds):
                    searcher = Ours(task.space, seed, LEARNERS[name])
                    if kind != "none":
                        earlier = Ours(task.space, 1000 + seed)
                        searcher.learn_from(_tried(earlier, relative(task, seed, kind == "like"), EARLIER))
                    values = [value for _, value in _tried(searcher, task.function, SEEN_AT[-1])]
                    of_kind[task.name].append([min(values[:count]) for count in SEEN_AT])
    return found


def _tried(searcher: Asker, function: Callable[[Config], float], trials: int) -> list[tuple[Config, float]]:
    found = []
    for _ in range(trials):
        token, config = searcher.ask()
        value = function(config)
        searcher.tell(token, value)
        found.append((config, value))
    return found


def show_relatives(found: Mapping[str, Any], seeds: int) -> Iterator[str]:
    """A table: how often a run that has learned is better than one that has not, by the number of trials."""
    yield f"P(beat) of a run that learns from an earlier one over one that does not, {seeds} seeds, by trials"
    yield ""
    yield _row("searcher", "earlier run", "function", *map(str, SEEN_AT))
    yield _row(*["---"] * (len(SEEN_AT) + 3))
    for name, by_kind in found.items():
        for kind in ("like", "unlike"):
            pairs = {task: (runs, by_kind["none"][task]) for task, runs in by_kind[kind].items()}
            for task, shown in [*((task, [pair]) for task, pair in pairs.items()), ("all", list(pairs.values()))]:
                cells = [
                    beats([([run[at] for run in warm], [run[at] for run in cold]) for warm, cold in shown])
                    for at in range(len(SEEN_AT))
                ]
                yield _row(name, kind, task, *cells)
    yield ""


# -- failures ----------------------------------------------------------------------------------------------------------

FAILURES = ("fifth", "half", "nine tenths")
MOST_PER_SUCCESS = 20
"""A run ends without all of its successes if it takes so many times as many trials."""


def on_failures(names: Sequence[str], seeds: int, successes: int) -> dict[str, Any]:
    """By searcher, kind of failure and function, for each seed: the best value, and the number of trials."""
    found: dict[str, Any] = {}
    for name in names:
        found[name] = {kind: {} for kind in ("none", *FAILURES)}
        for kind, of_kind in found[name].items():
            for task in FAILING_TASKS.values():
                of_kind[task.name] = [_with_failures(task, kind, name, seed, successes) for seed in range(seeds)]
    return found


def _with_failures(task: Task, kind: str, name: str, seed: int, successes: int) -> tuple[float, int]:
    searcher = SEARCHERS[name][1](task.space, seed)
    fails = failure(task, kind, seed)
    values: list[float] = []
    trials = 0
    while len(values) < successes and trials < MOST_PER_SUCCESS * successes:
        trials += 1
        token, config = searcher.ask()
        if fails(config):
            searcher.fail(token)
        else:
            values.append(task.function(config))
            searcher.tell(token, values[-1])
    return min(values, default=math.inf), trials


def show_failures(found: Mapping[str, Any], successes: int) -> Iterator[str]:
    """A table: how often a run with failures is better than one without, and how many trials it takes."""
    yield f"P(beat) of runs with failures over runs without, after {successes} successes; and the mean number of trials"
    yield ""
    yield _row("", *FAILURES)
    yield _row(*["---"] * (1 + len(FAILURES)))
    for name, by_kind in found.items():
        cells = []
        for kind in FAILURES:
            pairs = []
            for task, runs in by_kind[kind].items():
                pairs.append(([value for value, _ in runs], [value for value, _ in by_kind["none"][task]]))
            trials = statistics.mean(count for runs in by_kind[kind].values() for _, count in runs)
            cells.append(f"{beats(pairs)}, {trials:.0f} trials")
        yield _row(name, *cells)
    yield ""


# -- digits ------------------------------------------------------------------------------------------------------------

DIGITS_SPACE = {
    "lr": loguniform(1e-4, 1.0),
    "momentum": uniform(0, 0.99),
    "wd": loguniform(1e-6, 1e-1),
    "hidden": lograndint(8, 129),
    "batch": choice([16, 32, 64, 128]),
    "act": choice(["relu", "tanh"]),
    "init": loguniform(0.1, 3.0),
}


class Digits:
    """The learning curve of any configuration, interpolated between those of the nearest trained configurations."""

    def __init__(self) -> None:
        self._curves = read_curves("digits")
        with gzip.open(Path(__file__).with_name("digits_curves.json.gz"), "rt", encoding="utf-8") as file:
            table = json.load(file)
        self._places = [self._place(dict(zip(table["names"], row, strict=True))) for row in table["rows"]]

    def __call__(self, config: Config) -> Iterator[tuple[dict[str, float], float]]:
        """The curve, one epoch per second: a mean of the logarithms, weighted by the inverse squared distances."""
        place = self._place(config)
        near = heapq.nsmallest(NEIGHBOURS, ((math.dist(place, other), i) for i, other in enumerate(self._places)))
        weights = [1 / (distance**2 + 1e-6) for distance, _ in near]
        curves = [self._curves[index] for _, index in near]
        for steps in zip(*curves, strict=True):
            logs = [math.log(metrics["loss"]) for metrics, _ in steps]  # NaN if one is
            mean = sum(map(mul, weights, logs)) / sum(weights)
            yield {"loss": math.exp(mean)}, 1.0

    def _place(self, config: Config) -> tuple[float, ...]:
        """The coordinates: each range of numbers becomes 0 to 1, and two categories are half a range apart."""
        place = []
        for name, domain in DIGITS_SPACE.items():
            if isinstance(domain, Categorical):
                place += [0.35 * (config[name] == category) for category in domain.categories]
            else:
                to = math.log if isinstance(domain.sampler, LogUniform) else float
                place.append((to(config[name]) - to(domain.lower)) / (to(domain.upper) - to(domain.lower)))
        return tuple(place)


def on_digits(seeds: int, budget: int) -> dict[str, list[float]]:
    """The best log-loss by setting, for each seed."""
    curves = Digits()
    make_asha = partial(ASHAScheduler, max_t=EPOCHS, reduction_factor=3)
    settings: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "random": (lambda: None, lambda: None),
        "TPE": (TPESearch, lambda: None),
        "random + ASHA": (lambda: None, make_asha),
        "TPE + ASHA": (TPESearch, make_asha),
    }
    return {
        name: [digits_run(curves, make_search(), make_scheduler(), budget, seed) for seed in range(seeds)]
        for name, (make_search, make_scheduler) in settings.items()
    }


def digits_run(curves: Digits, search_alg: Any, scheduler: Any, budget: int, seed: int) -> float:
    """The best log-loss of a run."""
    spent = Spent(budget)
    config = TuneConfig(metric="loss", mode="min", num_samples=-1, search_alg=search_alg, scheduler=scheduler)
    simulate(
        curves,
        param_space=DIGITS_SPACE,
        tune_config=config,
        run_config=RunConfig(stop=spent),
        num_workers=WORKERS,
        seed=seed,
    )
    return spent.least


def show_digits(found: Mapping[str, Sequence[float]], budget: int) -> Iterator[str]:
    """A table: the median best loss of each setting, and how often it beats random search with ASHA."""
    yield f"digits, {budget} epochs, {WORKERS} workers: the best log-loss"
    yield ""
    yield _row("", "median", "quartiles", "beats random + ASHA")
    yield _row(*["---"] * 4)
    for name, values in found.items():
        low, _, high = statistics.quantiles(values, n=4, method="inclusive")
        won = beats([(values, found["random + ASHA"])])
        yield _row(name, f"{statistics.median(values):.4f}", f"{low:.4f} - {high:.4f}", won)
    yield ""


# -- cost --------------------------------------------------------------------------------------------------------------


TEN = {f"x{i}": uniform(0, 1) for i in range(10)}
MIXED = {
    **{f"x{i}": uniform(0, 1) for i in range(10)},
    **{f"lr{i}": loguniform(1e-5, 1e-1) for i in range(10)},
    **{f"n{i}": lograndint(1, 65) for i in range(10)},
    **{f"c{i}": choice(["a", "b", "c"]) for i in range(15)},
}


def costs_ms(make: Callable[..., Asker], space: Config, sizes: Sequence[int], repeats: int) -> list[float]:
    """The mean CPU milliseconds of `ask` and `tell`, after so many trials."""
    rng = random.Random(0)
    axes = {name: Axis(domain) for name, domain in space.items() if not isinstance(domain, Categorical)}
    best = {name: rng.random() if name in axes else rng.choice(domain.categories) for name, domain in space.items()}
    searcher, done, found = make(space, 0), 0, []
    for size in sizes:
        times_s = []
        while done < size + repeats:
            begin_s = time.process_time()
            token, config = searcher.ask()
            asked_s = time.process_time() - begin_s
            value = 0.0
            for name, own in config.items():
                if name in axes:
                    value += (axes[name].encode(own) - best[name]) ** 2
                else:
                    value += own != best[name]
            begin_s = time.process_time()
            searcher.tell(token, value)
            times_s.append(asked_s + time.process_time() - begin_s)
            done += 1
        found.append(1000 * statistics.mean(times_s[-repeats:]))
    return found


def show_costs(found: Mapping[str, Sequence[float]], sizes: Sequence[int], title: str) -> Iterator[str]:
    """A table: milliseconds by searcher and number of trials."""
    yield f"CPU milliseconds for a suggestion and its result, {title}, after so many trials"
    yield ""
    yield _row("", *(f"{size:,}" for size in sizes))
    yield _row(*["---"] * (len(sizes) + 1))
    for name, times_ms in found.items():
        yield _row(name, *(f"{time_ms:.2f}" for time_ms in times_ms), *[""] * (len(sizes) - len(times_ms)))
    yield ""


_IMPORT = """
import sys, time
import psutil
from minitune.search import Searcher
def size_mb(): return psutil.Process().memory_info().rss / 2**20
before_mb, before_s = size_mb(), time.process_time()
__import__(sys.argv[1])
print(1000 * (time.process_time() - before_s), size_mb() - before_mb, "numpy" in sys.modules)
"""


def import_costs(module: str, repeats: int) -> tuple[float, float, bool]:
    """CPU milliseconds and megabytes of an import after `minitune.search`, and whether it imports numpy."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    runs = []
    for _ in range(repeats):
        command = [sys.executable, "-c", _IMPORT, module]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        runs.append(done.stdout.split())
    return min(float(run[0]) for run in runs), min(float(run[1]) for run in runs), runs[0][2] == "True"


def show_imports(found: Mapping[str, tuple[float, float, bool]]) -> Iterator[str]:
    """A table: time and memory of each import."""
    yield _row("import", "CPU ms", "MB", "numpy")
    yield _row(*["---"] * 4)
    for name, (time_ms, size_mb, has_numpy) in found.items():
        yield _row(name, f"{time_ms:.0f}", f"{size_mb:.1f}", "yes" if has_numpy else "no")
    yield ""


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


# -- command -----------------------------------------------------------------------------------------------------------

NUMERIC = ("large", "many", "bbob")
"""The parts whose spaces have no choices."""
PARTS = ("functions", "parallel", *NUMERIC, "mixint", "digits", "cost", "import", "objectives", "crashes", "transfer")


def run_parts(options: argparse.Namespace) -> dict[str, Any]:
    """Run the parts that were asked for, and print a table after each. Return all figures."""
    named = [name for name in options.searchers if not lacks(SEARCHERS[name][0]) and (name != OTHER or Other.path)]
    runs = Runs(options.runs)
    seeds, trials = (2, 12) if options.quick else (options.seeds, options.trials)
    budget, typical_of = (60, 100) if options.quick else (BUDGET, 5_000)
    sizes, repeats = ((20,), 3) if options.quick else ((100, 1_000, 5_000), 20)
    found: Any
    lines: Iterable[str]
    figures: dict[str, Any] = {"seeds": seeds, "trials": trials, "searchers": named}
    for part in options.only:
        names = [name for name in named if name != TURBO or part in NUMERIC]
        if part in ("functions", "parallel", "large"):
            at_a_time = options.at_a_time if part == "parallel" else 1
            tasks, factor = (LARGE_TASKS, 2) if part == "large" else (TASKS, 1)
            (found,) = on_functions(tasks.values(), names, seeds, (factor * trials,), at_a_time, typical_of, runs)
            lines = show_functions(found, f"{factor * trials} trials, {at_a_time} at a time, {seeds} seeds")
        elif part == "many":
            counts = (trials, 3 * trials // 2)
            found = on_functions(MANY_TASKS.values(), names, seeds, counts, 1, typical_of, runs)
            lines = chain.from_iterable(
                show_functions(after, f"{count} trials, one at a time, {seeds} seeds")
                for count, after in zip(counts, found, strict=True)
            )
        elif part in ("bbob", "mixint"):
            if lacks("cocoex"):
                continue
            tasks = coco_tasks({"bbob": "bbob", "mixint": "bbob-mixint"}[part])
            (found,) = on_functions(tasks.values(), names, seeds, (trials,), 1, typical_of, runs)
            lines = show_wins(found, f"COCO {part}, five parameters, {trials} trials, {seeds} seeds")
        elif part == "digits":
            found = on_digits(seeds, budget)
            lines = show_digits(found, budget)
        elif part == "cost":
            # HyperOpt and SMAC are so slow that 5,000 suggestions would take an hour.
            found = {
                name: costs_ms(SEARCHERS[name][1], TEN, sizes[: 1 if name in ("HyperOpt TPE", SMAC) else 3], repeats)
                for name in names
            }
            mixed = {
                name: costs_ms(SEARCHERS[name][1], MIXED, sizes[:1], repeats) for name in names if name in (OURS, AUTO)
            }
            lines = chain(
                show_costs(found, sizes, "ten numbers"), show_costs(mixed, sizes[:1], "30 numbers and 15 choices")
            )
        elif part == "objectives":
            found = on_zdt([name for name in OF_TWO if not lacks(OF_TWO[name][0])], seeds, trials)
            lines = show_functions(found, f"{trials} trials of two objectives, {seeds} seeds: missing hypervolume")
        elif part == "crashes":
            capable = [name for name in names if hasattr(SEARCHERS[name][1](TASKS["branin"].space, 0), "fail")]
            found = on_failures(capable, seeds, 4 if options.quick else 40)
            lines = show_failures(found, 4 if options.quick else 40)
        elif part == "transfer":
            found = on_relatives(
                [name for name in LEARNERS if name in names], options.tasks[: 1 if options.quick else None], seeds
            )
            lines = show_relatives(found, seeds)
        else:
            found = {name: import_costs(IMPORTS[name], 1 if options.quick else 5) for name in names if name in IMPORTS}
            lines = show_imports(found)
        print("\n".join(lines), flush=True)
        figures[part] = found
    return figures


def main() -> int:
    """Run the benchmark. Return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="which parts")
    parser.add_argument(
        "--searchers",
        nargs="+",
        choices=tuple(SEARCHERS),
        default=[name for name in SEARCHERS if name != SMAC],
        help="which searchers",
    )
    parser.add_argument(
        "--tasks", nargs="+", choices=tuple(TASKS), default=list(TASKS), help="the functions of `transfer`"
    )
    parser.add_argument("--seeds", type=int, default=10, help="runs of each searcher on each function")
    parser.add_argument("--at-a-time", type=int, default=16, help="trials at a time in the part `parallel`")
    parser.add_argument("--trials", type=int, default=100, help="trials of each run")
    parser.add_argument(
        "--quick", action="store_true", help="two seeds and few trials: only checks that everything runs"
    )
    parser.add_argument("--other", help="the folder of another checkout of this project, whose TPE takes part")
    parser.add_argument("--runs", type=Path, help="a file that keeps the best values of runs; they are not repeated")
    parser.add_argument("--json", type=Path, help="a file for all figures")
    options = parser.parse_args()
    if OURS not in options.searchers:
        options.searchers = [OURS, *options.searchers]
    logging.getLogger("minitune").setLevel(logging.ERROR)
    Other.path = options.other
    try:
        figures = run_parts(options)
    finally:
        Other.end()
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
