"""Measures how good the schedulers are and what they cost, in simulated runs. Each gate has a goal.

    python benchmarks/schedulers.py                                 # all gates with few seeds: minutes
    python benchmarks/schedulers.py --seeds 50                      # as many seeds as the goals ask for
    python benchmarks/schedulers.py --seeds 100 --only asha median  # some gates

Each gate prints its measurement and its goal. If one is missed, the exit status is 1. Quality depends only on the
seeds. Cost depends on the machine and its load.

*Curves*: `digits_curves.json.gz`, `diabetes_curves.json.gz` and `cancer_curves.json.gz` have the loss of 1,000 random
configurations after each of 27 epochs (see `make_curves.py`). On digits, a trial that is good early is good at the end.
On the others, curves cross (rank correlation of the first epoch with the last: 0.72, -0.33 and 0.56; the last loss is
more than 1.1 times the least one in 8 %, 29 % and 29 % of the curves). Trials take the configurations in a random
order, which depends on the seed. The *target* is the loss that the best of 100 full trials (2,700 epochs) reaches in
half of the orders. The figure is the number of epochs of all trials until one reaches the target, as a share of 2,700.
Only 7 configurations reach it. So another row has the target of 25 full trials, which 28 configurations reach, as a
share of 675 epochs. The interval beside each median contains the median of all orders with a confidence of 95 % (from
order statistics). A gate is missed if the whole interval is beyond the goal, and unsure if only a part of it is. Each
epoch takes a second; with `--measured-seconds` it takes as long as the training did, so that big models end late.

*Peer*: the share of orders in which ASHA finds a smaller loss than Optuna's `SuccessiveHalvingPruner` with the same
levels, within an eighth and half of the epochs of 100 full trials. Both take the configurations in the same order. It
needs Optuna. Only the stopping variant has a goal.

*Toy* (Jaderberg et al. 2017, section 4): population based training changes a configuration during the trial, so it
cannot use curves of fixed configurations. Two members maximise 1.2 - (a² + b²) from a = b = 0.9 by gradient steps on
1.2 - (h0·a² + h1·b²), one with h = (1, 0), the other with h = (0, 1). Alone, neither passes 0.39. The interval beside
a share of seeds is Wilson's, of 95 %.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import json
import logging
import math
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minitune import (
    ASHAScheduler,
    FailureConfig,
    FIFOScheduler,
    RunConfig,
    Stopper,
    TuneConfig,
    grid_search,
    sample_from,
    uniform,
)
from minitune.schedulers import HyperBandScheduler, MedianStoppingRule, PopulationBasedTraining, TrialScheduler
from minitune.search import Searcher
from minitune.simulation import Simulation, simulate

EPOCHS = 27
TABLES = ("digits", "diabetes", "cancer")
MEASURED_SECONDS = False
"""Whether an epoch takes as long as the training did. Otherwise it takes a second."""
MARGIN = 1.1
"""HyperBand may use so many times the epochs of the paper's allocation."""


@dataclass(frozen=True)
class Row:
    """One row of the table."""

    what: str
    measured: str
    goal: str
    good: bool
    unsure: bool = False


# -- curves --------------------------------------------------------------------------------------------------------


def read_curves(table: str) -> list[list[tuple[dict[str, float], float]]]:
    """The curves of a table: (metrics, seconds) for each epoch of each configuration."""
    with gzip.open(Path(__file__).with_name(f"{table}_curves.json.gz"), "rt", encoding="utf-8") as file:
        rows = json.load(file)["rows"]
    curves = []
    for *_, seconds_e5, deltas in rows:
        loss, curve = 0, []
        for delta in deltas:
            loss += delta or 0
            curve.append(({"loss": math.nan if delta is None else loss / 1e5}, seconds_e5 / 1e5))
        curves.append(curve)
    return curves


def target_of(curves: Any, full_trials: int) -> float:
    """The loss that the best of some full trials reaches in half of the orders in which the curves can be drawn."""
    lowest = sorted(min((m["loss"] for m, _ in c if m["loss"] == m["loss"]), default=math.inf) for c in curves)
    is_missed = 1.0  # the probability that none of the best is drawn
    rank = 0
    while is_missed > 0.5:
        is_missed *= 1 - full_trials / (len(lowest) - rank)
        rank += 1
    return lowest[rank - 1]


def interval_of_median(values: Sequence[float]) -> tuple[float, float]:
    """The order statistics between which the distribution's median is with a probability of at least 95 %."""
    count, below, tail = len(values), 0, 0.5 ** len(values)
    while tail <= 0.025:  # of at most `below` values under the median
        below += 1
        tail += math.comb(count, below) / 2**count
    ordered = sorted(values)
    return ordered[max(0, below - 1)], ordered[min(count - 1, count - below)]


def interval_of_share(good: float, count: int) -> tuple[float, float]:
    """The interval that holds the true share with a probability of 95 % (Wilson 1927)."""
    square = 1.96**2
    middle = (good + square / 2) / (count + square)
    half = math.sqrt(square * (good * (count - good) / count + square / 4)) / (count + square)
    return middle - half, middle + half


class Reached(Stopper):
    """Ends the run when the target is reached, or the budget is used up."""

    def __init__(self, target: float, budget: int) -> None:
        self.target, self.budget, self.epochs, self.is_reached = target, budget, 0, False

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Count an epoch. The trial goes on."""
        if not self.stop_all():
            self.epochs += 1
            self.is_reached = result["loss"] <= self.target
        return False

    def stop_all(self) -> bool:
        """Whether the run ends."""
        return self.is_reached or self.epochs >= self.budget


def epochs_to_target(
    curves: Any,
    make: Callable[[], TrialScheduler],
    num_workers: int,
    seed: int,
    full_trials: int = 100,
    saves: bool = False,
) -> float:
    """The epochs until the target of so many full trials is reached, as a share of theirs; 1 if it is not reached."""
    order = random.Random(seed).sample(range(len(curves)), len(curves))
    reached = Reached(target_of(curves, full_trials), full_trials * EPOCHS)
    simulate(
        dict(enumerate(curves)),
        param_space={"curve": grid_search(order)},
        tune_config=TuneConfig(metric="loss", mode="min", scheduler=make()),
        run_config=RunConfig(stop=reached),
        num_workers=num_workers,
        seed=seed,
        can_save=saves,
    )
    return reached.epochs / reached.budget if reached.is_reached else 1.0


def _asha(**kwargs: Any) -> Callable[[], TrialScheduler]:
    return lambda: ASHAScheduler(max_t=EPOCHS, reduction_factor=3, **kwargs)


def _median_rule() -> TrialScheduler:
    return MedianStoppingRule(time_attr="training_iteration", grace_period=1, min_samples_required=3)


def curves_gate(
    name: str, make: Callable[[], TrialScheduler], goals: dict[str, dict[int, float]], saves: bool = False
) -> Callable[[int], Iterator[Row]]:
    """A gate on epochs to target.

    Args:
        name: The scheduler's name.
        make: Makes the scheduler.
        goals: The largest share that is good, by table and number of workers. They may be missing.
        saves: Whether trials save checkpoints, as a scheduler that pauses needs. Without them the simulation is faster.
    """

    def gate(num_seeds: int) -> Iterator[Row]:
        for table in TABLES:
            curves = read_curves(table)
            if not MEASURED_SECONDS:
                curves = [[(metrics, 1.0) for metrics, _ in curve] for curve in curves]
            for num_workers, full_trials in ((1, 100), (4, 100), (16, 100), (4, 25)):
                shares = [
                    epochs_to_target(curves, make, num_workers, seed, full_trials, saves) for seed in range(num_seeds)
                ]
                low, high = interval_of_median(shares)
                goal = goals.get(table, {}).get(num_workers) if full_trials == 100 else None
                yield Row(
                    f"{name}, {table}, best of {full_trials}, {num_workers} workers, {num_seeds} orders",
                    f"{statistics.median(shares):.3f} ({low:.3f} to {high:.3f})",
                    "-" if goal is None else f"<= {goal:.2f}",
                    goal is None or low <= goal,
                    goal is not None and low <= goal < high,
                )

    return gate


# -- a peer --------------------------------------------------------------------------------------------------------


class Spent(Stopper):
    """Ends the run after a number of epochs. Knows the least loss so far."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.epochs = 0
        self.least = math.inf

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Count an epoch. The trial goes on."""
        if not self.stop_all():
            self.epochs += 1
            if result["loss"] < self.least:  # not NaN
                self.least = result["loss"]
        return False

    def stop_all(self) -> bool:
        """Whether the run ends."""
        return self.epochs >= self.budget


def least_loss(
    curves: Any, make: Callable[[], TrialScheduler], num_workers: int, seed: int, budget: int, saves: bool
) -> float:
    """The least loss that a search finds in so many epochs."""
    spent = Spent(budget)
    simulate(
        dict(enumerate(curves)),
        param_space={"curve": grid_search(random.Random(seed).sample(range(len(curves)), len(curves)))},
        tune_config=TuneConfig(metric="loss", mode="min", scheduler=make()),
        run_config=RunConfig(stop=spent),
        num_workers=num_workers,
        seed=seed,
        can_save=saves,
    )
    return spent.least


def least_loss_of_optuna(curves: Any, eta: int, num_workers: int, seed: int, budget: int) -> float:
    """The same with Optuna's successive halving. All epochs take as long, so the workers take turns."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    order = iter(random.Random(seed).sample(range(len(curves)), len(curves)))
    pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=eta)
    study = optuna.create_study(pruner=pruner, sampler=optuna.samplers.RandomSampler(seed=0))
    workers: list[tuple[Any, Iterator[Any]] | None] = [None] * num_workers
    epochs, least = 0, math.inf
    while True:
        for worker, work in enumerate(workers):
            trial, curve = work or (study.ask(), enumerate(curves[next(order)], 1))
            epoch, (metrics, _) = next(curve)
            epochs += 1
            if metrics["loss"] < least:  # not NaN
                least = metrics["loss"]
            if epochs == budget:
                return least
            trial.report(metrics["loss"], epoch)
            is_last = epoch == EPOCHS
            workers[worker] = (trial, curve)
            if is_last or trial.should_prune():
                study.tell(trial, state=optuna.trial.TrialState.PRUNED)
                workers[worker] = None


def peer_gate(num_seeds: int) -> Iterator[Row]:
    """Both variants of ASHA against Optuna's successive halving."""
    if importlib.util.find_spec("optuna") is None:
        print("ASHA over Optuna: not measured, since Optuna is not installed", file=sys.stderr)
        return
    for table in TABLES:
        curves = [[(metrics, 1.0) for metrics, _ in curve] for curve in read_curves(table)]
        for num_workers, part in ((1, 8), (4, 8), (16, 8), (1, 2), (4, 2), (16, 2)):
            settings = [(num_workers, seed, 100 * EPOCHS // part) for seed in range(num_seeds)]
            peers = [least_loss_of_optuna(curves, 3, *setting) for setting in settings]
            for variant in ("stop", "promote"):
                own = [least_loss(curves, _asha(variant=variant), *each, variant == "promote") for each in settings]
                won = sum((left < right) + 0.5 * (left == right) for left, right in zip(own, peers, strict=True))
                low, high = interval_of_share(won, num_seeds)
                has_goal = variant == "stop"
                yield Row(
                    f"ASHA {variant} over Optuna, {table}, {num_workers} workers, 1/{part}, {num_seeds} orders",
                    f"{won / num_seeds:.3f} ({low:.3f} to {high:.3f})",
                    ">= 0.50" if has_goal else "-",
                    high >= 0.5 or not has_goal,
                    has_goal and low < 0.5 <= high,
                )


# -- HyperBand -------------------------------------------------------------------------------------------------------


def band(max_t: int, eta: int) -> tuple[int, int]:
    """The trials and epochs of one band, after Li et al. 2018. A promoted trial goes on; it does not start over."""
    s_max = 0
    while eta ** (s_max + 1) <= max_t:
        s_max += 1
    trials = epochs = 0
    for s in range(s_max, -1, -1):
        alive = math.ceil((s_max + 1) / (s + 1) * eta**s)
        trials, reached = trials + alive, 0
        for i in range(s + 1):
            rung = max(1, round(max_t * eta ** (i - s))) if i < s else max_t
            epochs += alive * (rung - reached)
            reached, alive = rung, max(1, alive // eta)
    return trials, epochs


class OneByOne(Searcher):
    """A searcher that suggests random points. A shy one sometimes answers "not now", even if no trial runs."""

    def __init__(self, rng: random.Random, is_shy: bool):
        super().__init__(metric="loss", mode="min")
        self._rng = rng
        self.is_shy = is_shy

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        """A random point, or "not now"."""
        return None if self.is_shy and self._rng.random() < 0.2 else {"x": self._rng.random()}

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Learn nothing."""


def _noisy(config: dict[str, Any]) -> Iterator[tuple[dict[str, float], float]]:
    rng = random.Random(config["x"])
    is_bad, speed = rng.random() < 0.05, rng.uniform(0.5, 2.0)
    epoch = 0
    while True:
        epoch += 1
        yield {"loss": math.nan if is_bad else config["x"] + rng.random() / epoch}, speed


def run_random_setting(seed: int) -> list[str]:
    """Simulate HyperBand with settings that the seed determines. Return a text for each problem."""
    rng = random.Random(seed)
    max_t, eta = rng.choice([1, 2, 5, 9, 16, 27, 50, 81, 100]), rng.choice([2, 3, 4])
    trials_of_band, epochs_of_band = band(max_t, eta)
    bands = rng.choice([0, 1]) if trials_of_band <= 250 else 0
    num_samples = trials_of_band * bands or rng.randint(1, 60)
    num_workers, failure_rate = rng.choice([1, 2, 4, 8, 16]), rng.choice([0.0, 0.0, 0.02])
    config = TuneConfig(
        metric="loss",
        mode="min",
        num_samples=num_samples,
        max_concurrent_trials=rng.choice([None, None, 1, 2, 5]),
        search_alg=rng.choice([None, OneByOne(rng, is_shy=False), OneByOne(rng, is_shy=True)]),
        scheduler=HyperBandScheduler(max_t=max_t, reduction_factor=eta),
    )
    if config.search_alg is not None:
        config.metric = config.mode = None
        config.scheduler = HyperBandScheduler(metric="loss", mode="min", max_t=max_t, reduction_factor=eta)
    done = simulate(
        _noisy,
        param_space=None if config.search_alg is not None else {"x": uniform(0, 1)},
        tune_config=config,
        run_config=RunConfig(failure_config=FailureConfig(max_failures=rng.choice([0, 3]))),
        num_workers=num_workers,
        failure_rate=failure_rate,
        seed=seed,
    )
    wrong = _problems(done, num_samples, num_workers)
    reached = max((result.metrics.get("training_iteration", 0) for result in done.results), default=0)
    if not failure_rate and reached != max_t and any(_is_number(result) for result in done.results):
        wrong.append(f"the last rung is {reached} instead of {max_t}")
    is_shy = config.search_alg is not None and config.search_alg.is_shy  # it may end a bracket before it is full
    if bands and not (failure_rate or is_shy) and done.num_steps > MARGIN * epochs_of_band * bands:
        wrong.append(f"{done.num_steps} epochs instead of {epochs_of_band * bands}")
    setting = f"seed {seed}: max_t={max_t} eta={eta} n={num_samples} workers={num_workers} failures={failure_rate}"
    return [f"{setting}: {one}" for one in wrong]


def _is_number(result: Any) -> bool:
    return not math.isnan(result.metrics.get("loss", math.nan))


def _problems(done: Simulation, num_samples: int, num_workers: int) -> list[str]:
    """A text for each promise of all schedulers that the run has broken."""
    wrong = []
    ended = done.results.num_terminated + done.results.num_errors
    if not ended == len(done.results) == num_samples:
        wrong.append(f"{num_samples} trials were asked for, {len(done.results)} were created, and {ended} have ended")
    running: set[str] = set()
    for entry in done.log:
        if entry.event == "RUNNING":
            running.add(entry.trial_id)
        elif entry.event in ("PENDING", "PAUSED", "TERMINATED", "ERROR"):
            running.discard(entry.trial_id)
        if len(running) > num_workers:
            wrong.append(f"{len(running)} trials ran at a time on {num_workers} workers")
            break
    return wrong


def hyperband_gate(num_seeds: int) -> Iterator[Row]:
    """Random settings: all trials end, the last rung is max_t, and there are not many more epochs than the paper's."""
    count = 20 * num_seeds
    problems = [problem for seed in range(count) for problem in run_random_setting(seed)]
    for problem in problems[:10]:
        print(problem, file=sys.stderr)
    yield Row(f"HyperBand, {count} random settings", f"{len(problems)} wrong", "0", not problems)


# -- population based training ---------------------------------------------------------------------------------------


def toy(config: dict[str, Any], state: tuple[float, float] | None) -> Iterator[tuple[dict[str, float], float, Any]]:
    """The toy problem. Its state is (a, b)."""
    a, b = state or (0.9, 0.9)
    while True:
        a, b = a - 0.04 * config["h0"] * a, b - 0.04 * config["h1"] * b
        yield {"score": 1.2 - (a * a + b * b)}, 1.0, (a, b)


def run_toy(seed: int, **settings: Any) -> tuple[float, bool]:
    """The best score after 200 steps, and whether all values are in their domains."""
    scheduler = PopulationBasedTraining(
        time_attr="training_iteration",
        perturbation_interval=4,
        hyperparam_mutations={"h0": uniform(0, 1), "h1": uniform(0, 1)},
        resample_probability=0.25,
        perturbation_factors=(1.2, 0.8),
        log_config=False,
        **settings,
    )
    done = simulate(
        toy,
        param_space={"h0": grid_search([1.0, 0.0]), "h1": sample_from(lambda config: 1.0 - config["h0"])},
        tune_config=TuneConfig(metric="score", mode="max", scheduler=scheduler),
        run_config=RunConfig(stop={"training_iteration": 200}),
        num_workers=2,
        seed=seed,
    )
    best = max(result.metrics["score"] for result in done.results)
    in_domain = all(0 <= result.config[name] <= 1 for result in done.results for name in ("h0", "h1"))
    return best, in_domain


def pbt_gate(num_seeds: int) -> Iterator[Row]:
    """The paper's toy problem."""
    count = 4 * num_seeds
    runs = [run_toy(seed) for seed in range(count)]
    good = sum(best >= 1.19 for best, _ in runs)
    low, high = interval_of_share(good, count)
    yield Row(
        f"PBT, toy: share of {count} seeds that reach 1.19",
        f"{good / count:.3f} ({low:.3f} to {high:.3f})",
        ">= 0.95",
        high >= 0.95,
        low < 0.95 <= high,
    )
    yield Row(
        "PBT, toy: every value in its domain", str(all(fine for _, fine in runs)), "True", all(f for _, f in runs)
    )


# -- cost ------------------------------------------------------------------------------------------------------------


def cost_gate(num_seeds: int) -> Iterator[Row]:
    """The time of the hooks for results and ends, per result, in a run of 1,000 trials."""
    curves = read_curves("digits")
    makes: dict[str, Callable[[], TrialScheduler]] = {
        "FIFO": FIFOScheduler,
        "ASHA": _asha(),
        "ASHA promote": _asha(variant="promote"),
        "HyperBand": lambda: HyperBandScheduler(max_t=EPOCHS, reduction_factor=3),
        "median rule": _median_rule,
    }
    for name, make in makes.items():
        spent_us = _spent_us(curves, make)
        yield Row(f"{name}, time per result at 1,000 trials", f"{spent_us:.1f} µs", "<= 10 µs", spent_us <= 10)


def _spent_us(curves: Any, make: Callable[[], TrialScheduler]) -> float:
    """The microseconds per result that a scheduler's hooks take.

    Each repetition makes the same calls. The shortest time of each call counts, since other processes only add time.
    """
    runs = [_durations_ns(curves, make()) for _ in range(5)]
    own_ns = min(_durations_ns(curves, FIFOScheduler())[0])  # the clock's own time: this hook does nothing
    calls = [min(times) - own_ns for times in zip(*(times for times, _ in runs), strict=True)]
    return max(0.0, sum(calls) / 1000 / runs[0][1])


def _durations_ns(curves: Any, scheduler: TrialScheduler) -> tuple[list[int], int]:
    """The nanoseconds of each call of a hook, and the number of results."""
    times: list[int] = []
    clock = time.perf_counter_ns

    def timed(hook: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            begin = clock()
            answer = hook(*args)
            times.append(clock() - begin)
            return answer

        return call

    kind = type(scheduler)
    names = ("on_trial_add", "on_trial_result", "on_trial_complete", "on_trial_remove")
    scheduler.__class__ = type(kind.__name__, (kind,), {name: timed(getattr(kind, name)) for name in names})
    config = TuneConfig(metric="loss", mode="min", scheduler=scheduler)
    return times, simulate(dict(enumerate(curves)), tune_config=config, num_workers=4).num_steps


def throughput_gate(num_seeds: int) -> Iterator[Row]:
    """How many results the whole driver processes per second of CPU time."""
    curves = read_curves("digits")
    for name, make in (("FIFO", FIFOScheduler), ("ASHA", _asha())):
        rates = []
        for _ in range(3):
            config = TuneConfig(metric="loss", mode="min", scheduler=make())
            begin_s = time.process_time()
            done = simulate(dict(enumerate(curves)), tune_config=config, num_workers=4, can_save=False)
            rates.append(done.num_steps / (time.process_time() - begin_s))
        yield Row(f"simulation, {name}: results per second", f"{max(rates):,.0f}", ">= 3,000", max(rates) >= 3_000)


ASHA_GOALS = {"digits": {1: 0.20, 4: 0.20, 16: 0.27}, "diabetes": {1: 0.27, 4: 0.27, 16: 0.27}}
"""The goals on diabetes were set after the measurement, so they only show whether ASHA gets worse. On digits, the
stopping variant is unsure with 100 orders. With 400 it is not: its interval with 4 workers is 0.166 to 0.196."""

HYPERBAND_GOALS = {"digits": {1: 0.35, 4: 0.40, 16: 0.45}, "diabetes": {1: 0.45, 4: 0.45, 16: 0.45}}
"""The goals were set after the measurement, so they only show whether HyperBand gets worse."""

GATES: dict[str, Callable[[int], Iterator[Row]]] = {
    "hyperband": hyperband_gate,
    "asha": curves_gate("ASHA stop, eta 3", _asha(), ASHA_GOALS),
    "asha-promote": curves_gate("ASHA promote, eta 3", _asha(variant="promote"), ASHA_GOALS, saves=True),
    "median": curves_gate("median rule", _median_rule, {"digits": {1: 0.50, 4: 0.50}, "diabetes": {1: 0.50, 4: 0.50}}),
    "hyperband-curves": curves_gate(
        "HyperBand, eta 3", lambda: HyperBandScheduler(max_t=EPOCHS, reduction_factor=3), HYPERBAND_GOALS, saves=True
    ),
    "fifo": curves_gate("FIFO", FIFOScheduler, {}),
    "asha-peer": peer_gate,
    "cost": cost_gate,
    "pbt": pbt_gate,
    "throughput": throughput_gate,
}


def main() -> int:
    """Run the gates. Return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=tuple(GATES), default=list(GATES), help="which gates")
    parser.add_argument("--seeds", type=int, default=5, help="how many seeds; some gates use several times as many")
    parser.add_argument("--measured-seconds", action="store_true", help="epochs take as long as the training did")
    options = parser.parse_args()
    global MEASURED_SECONDS
    MEASURED_SECONDS = options.measured_seconds
    logging.getLogger("minitune").setLevel(logging.ERROR)
    is_good = True
    print(f"{'what':<62} {'measured':<36} {'goal':<12}")
    for name in options.only:
        for row in GATES[name](options.seeds):
            verdict = "MISSED" if not row.good else "unsure" if row.unsure else ""
            print(f"{row.what:<62} {row.measured:<36} {row.goal:<12} {verdict}", flush=True)
            is_good = is_good and row.good
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
