"""Compares searchers while ASHA stops trials, on small models that are trained epoch by epoch.

    python benchmarks/search_stopping.py                                  # all tasks, 8 seeds, 4 and 16 workers
    python benchmarks/search_stopping.py --part choose                    # the tasks that decisions are made by
    python benchmarks/search_stopping.py --variant promote                # ASHA that pauses and promotes
    python benchmarks/search_stopping.py --searcher prototype:MySearch    # another searcher, of any module
    python benchmarks/search_stopping.py --quick                          # does everything run?

The tasks are in `tasks/live.py`. A run has as many epochs as 20 full trials. The clock is virtual, and an epoch takes a
second of it. Optuna's peer is its TPE with `SuccessiveHalvingPruner` of the same levels; its workers take turns.

After 10, 25, 50 and 100 % of the epochs, the least losses are compared: *seen* as they were, and by their *truth*, the
mean loss of that configuration after as many epochs with other seeds. *P(beat)* and its intervals are those of
`search_models.py`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import math
import os
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the data is so small that threads cost more than they save
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from search_models import Cache, beats
from searchers import AUTO, OURS, Optuna, lacks
from tasks.functions import Config
from tasks.live import CHOOSE, CONFIRM, EPOCHS, LiveTask, losses

from minitune import ASHAScheduler, RunConfig, Stopper, TuneConfig
from minitune.search import AutoSearch, Searcher, TPESearch
from minitune.simulation import simulate

PARTS = {"choose": CHOOSE, "confirm": CONFIRM, "all": {**CHOOSE, **CONFIRM}}
PEER = "Optuna TPE"
SHARES = (0.1, 0.25, 0.5, 1.0)
FULL_TRIALS = 20
_FACTOR = 3

Best = tuple[float, Config, int]
"""A loss, and the configuration and the epoch that gave it."""


class Run(NamedTuple):
    """The best losses of a run after each of the `SHARES` of its epochs: those seen, and their truths."""

    seen: list[float]
    truths: list[float]


class Spent(Stopper):
    """Ends a run after a number of epochs. Knows the least loss so far."""

    def __init__(self, budget: int) -> None:
        self.marks = [math.ceil(share * budget) for share in SHARES]
        self.epochs = 0
        self.least: Best = (math.inf, {}, 0)
        self.best: list[Best] = []

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Count an epoch. The trial goes on."""
        if not self.stop_all():
            self.count(result["loss"], result["config"], result["training_iteration"])
        return False

    def stop_all(self) -> bool:
        """Whether the run ends."""
        return self.epochs >= self.marks[-1]

    def count(self, loss: float, config: Config, epoch: int) -> None:
        """Count an epoch of a configuration."""
        self.epochs += 1
        if loss < self.least[0]:  # not NaN
            self.least = (loss, dict(config), epoch)
        self.best += [self.least] * self.marks.count(self.epochs)


class Curves:
    """The learning curves of a task. Each is computed as far as it is needed, and once."""

    def __init__(self, task: LiveTask) -> None:
        self._task = task
        self._known: dict[str, tuple[list[float], Iterator[float]]] = {}

    def __call__(self, config: Config) -> Iterator[tuple[dict[str, float], float]]:
        """One epoch per second."""
        key = json.dumps(config, sort_keys=True)
        if key not in self._known:
            self._known[key] = ([], losses(self._task, dict(config)))
        seen, rest = self._known[key]
        for epoch in range(EPOCHS):
            if epoch == len(seen):
                seen.append(next(rest))
            yield {"loss": seen[epoch]}, 1.0


def run(task: LiveTask, make: Callable[[], Searcher | None], variant: str, workers: int, seed: int) -> list[Best]:
    """The best after each share of the epochs."""
    spent = Spent(FULL_TRIALS * EPOCHS)
    scheduler = ASHAScheduler(max_t=EPOCHS, reduction_factor=_FACTOR, variant=variant)
    tune = TuneConfig(metric="loss", mode="min", num_samples=-1, search_alg=make(), scheduler=scheduler)
    simulate(
        Curves(task),
        param_space=task.space,
        tune_config=tune,
        run_config=RunConfig(stop=spent),
        num_workers=workers,
        seed=seed,
        can_save=variant == "promote",
    )
    return spent.best


def run_of_optuna(task: LiveTask, workers: int, seed: int) -> list[Best]:
    """The same with Optuna."""
    import optuna

    pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=_FACTOR)
    asker = Optuna(task.space, seed, pruner=pruner)
    spent = Spent(FULL_TRIALS * EPOCHS)
    at_work: list[tuple[Any, Config, Iterator[tuple[int, float]]] | None] = [None] * workers
    while True:
        for worker, work in enumerate(at_work):
            if work is None:
                trial, config = asker.ask()
                work = (trial, config, enumerate(losses(task, config), 1))
            trial, config, curve = work
            epoch, loss = next(curve)
            spent.count(loss, config, epoch)
            if spent.stop_all():
                return spent.best
            at_work[worker] = work
            if math.isnan(loss):
                asker.fail(trial)
                at_work[worker] = None
                continue
            trial.report(loss, epoch)
            if epoch == EPOCHS:
                asker.tell(trial, loss)
                at_work[worker] = None
            elif trial.should_prune():
                asker.prune(trial)
                at_work[worker] = None


def truth_of(task: LiveTask, best: Best, seeds: int) -> float:
    """The mean loss after as many epochs, with other seeds than that of the search."""
    _, config, epoch = best
    mean = statistics.fmean([*losses(task, config, 1 + seed)][epoch - 1] for seed in range(seeds))
    return math.inf if math.isnan(mean) else mean


def measure(options: argparse.Namespace, makes: Mapping[str, Callable[[], Searcher | None]]) -> dict[str, Any]:
    """All runs by task with number of workers, and by searcher, one for each seed."""
    found: dict[str, Any] = {}
    for title in options.tasks or PARTS[options.part]:
        task = PARTS["all"][title]
        truths = Cache(options.cache, f"truths {title}")
        for workers in options.workers:
            runs: dict[str, list[Run]] = {}
            for name, make in makes.items():
                known = Cache(options.cache, f"stopping {title} {name} {options.variant} {workers}")
                runs[name] = []
                for seed in range(options.first_seed, options.first_seed + options.seeds):

                    def play(
                        task: LiveTask = task, name: str = name, make: Any = make, at: int = workers, seed: int = seed
                    ) -> list[Best]:
                        if name == PEER:
                            return run_of_optuna(task, at, seed)
                        return run(task, make, options.variant, at, seed)

                    best = known.get(str(seed), play)
                    own = []
                    for each in best:
                        key = json.dumps([*each[1:], options.splits], sort_keys=True)
                        own.append(truths.get(key, lambda each=each, task=task: truth_of(task, each, options.splits)))
                    runs[name].append(Run([each[0] for each in best], own))
            found[f"{title}, {workers}"] = runs
    return found


def show(found: Mapping[str, Mapping[str, Sequence[Run]]], ours: str) -> Iterator[str]:
    """Two tables: how often one searcher beats each other one by the values seen, and by the truth."""
    others = [name for name in next(iter(found.values())) if name != ours]
    for measured in Run._fields:
        yield f"P(beat) of {ours} by the {'values seen' if measured == 'seen' else 'truth'}, by share of the epochs"
        yield ""
        yield _row("over", *(f"{share:.0%}" for share in SHARES), *(f"{title}, 50%" for title in found))
        yield _row(*["---"] * (1 + len(SHARES) + len(found)))
        for other in others:
            cells = []
            for mark in range(len(SHARES)):
                pairs = []
                for runs in found.values():
                    left, right = ([getattr(each, measured)[mark] for each in runs[name]] for name in (ours, other))
                    pairs.append((left, right))
                cells.append(beats(pairs))
                if SHARES[mark] == 0.5:
                    single = [beats([pair]).split()[0] for pair in pairs]
            yield _row(other, *cells, *single)
        yield ""


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """Run the benchmark. Return the exit status."""
    makes: dict[str, Callable[[], Searcher | None]] = {"random": lambda: None, OURS: TPESearch, AUTO: AutoSearch}
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--part", choices=tuple(PARTS), default="all", help="which tasks")
    parser.add_argument("--tasks", nargs="+", choices=tuple(PARTS["all"]), help="these tasks, of any part")
    parser.add_argument("--searchers", nargs="+", choices=(*makes, PEER), default=[*makes, PEER])
    parser.add_argument("--searcher", action="append", default=[], help="one more, as MODULE:CLASS")
    parser.add_argument("--against", help="the searcher that is compared to the others")
    parser.add_argument("--variant", choices=("stop", "promote"), default="stop", help="of ASHA")
    parser.add_argument("--workers", nargs="+", type=int, default=[4, 16], help="trials at a time")
    parser.add_argument("--seeds", type=int, default=8, help="runs of each searcher on each task")
    parser.add_argument("--first-seed", type=int, default=0, help="the seed of the first run")
    parser.add_argument("--splits", type=int, default=5, help="by so many other seeds the truth is measured")
    parser.add_argument("--cache", type=Path, help="a folder that keeps runs and truths")
    parser.add_argument("--quick", action="store_true", help="one seed and one task: only checks that it runs")
    options = parser.parse_args()
    if options.quick:
        options.seeds = 1
        options.splits = 1
        options.tasks = ["linear digits"]
    chosen = {name: makes.get(name, lambda: None) for name in options.searchers if name != PEER or not lacks("optuna")}
    for path in options.searcher:
        module, _, name = path.partition(":")
        chosen[name] = getattr(importlib.import_module(module), name)
    ours = options.against or ([*chosen][-1] if options.searcher else AUTO)
    if ours not in chosen:
        parser.error(f"--against {ours!r} must be one of the searchers: {[*chosen]}")
    logging.getLogger("minitune").setLevel(logging.ERROR)
    print("\n".join(show(measure(options, chosen), ours)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
