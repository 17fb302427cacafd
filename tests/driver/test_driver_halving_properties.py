"""Schedulers that compare trials, under random settings: every trial ends, nothing stays paused."""

import math
import random

import hypothesis
from hypothesis import strategies as st

from minitune import ConcurrencyLimiter, FailureConfig, RunConfig, Searcher, TuneConfig, uniform
from minitune.schedulers import (
    ASHAScheduler,
    HyperBandForBOHB,
    HyperBandScheduler,
    MedianStoppingRule,
    PopulationBasedTraining,
)
from minitune.simulation import simulate


class Uniform(Searcher):
    """Draws without end; with `most`, only while so many have not ended, paused ones included."""

    def __init__(self, most=math.inf):
        super().__init__()
        self.random = random.Random(1)
        self.live = set()
        self.most = most

    def suggest(self, trial_id):
        if len(self.live) >= self.most:
            return None
        self.live.add(trial_id)
        return {"x": self.random.random()}

    def on_trial_complete(self, trial_id, result=None, error=False):
        self.live.discard(trial_id)


SEARCHERS = {
    "none": lambda limit: {},
    "free": lambda limit: {"search_alg": Uniform()},
    "limited": lambda limit: {"search_alg": ConcurrencyLimiter(Uniform(), limit)},
    "in batches": lambda limit: {"search_alg": ConcurrencyLimiter(Uniform(), limit, batch=True)},
    "by itself": lambda limit: {"search_alg": Uniform(limit)},
    "by the run": lambda limit: {"search_alg": Uniform(), "max_concurrent_trials": limit},
}


def curve(config):
    """Values fall towards x; some are none, or tie, and steps take different times."""
    rng = random.Random(config["x"])
    kind = rng.random()
    for step in range(1, 1000):
        value = config["x"] + 1 / step
        if kind < 0.15:
            value = math.nan if kind < 0.1 else None
        elif kind < 0.4:
            value = round(value, 1)
        yield {"score": value}, rng.random()


@hypothesis.settings(max_examples=60)
@hypothesis.given(
    kind=st.sampled_from(["hyperband", "bohb", "stop", "promote", "median", "pbt"]),
    max_t=st.sampled_from([1, 2, 5, 7, 9, 10, 16, 27, 50]),
    eta=st.sampled_from([1.5, 2, 2.5, 3, 4]),
    count=st.integers(1, 40),
    workers=st.integers(1, 8),
    searcher=st.sampled_from(sorted(SEARCHERS)),
    limit=st.integers(1, 5),
    failure_rate=st.sampled_from([0, 0, 0.05]),
    retries=st.sampled_from([0, 2]),
    can_save=st.booleans(),
    brackets=st.integers(1, 3),
    stop=st.sampled_from([None, "at max_t", "before"]),
    seed=st.integers(0, 1000),
)
def test_every_run_ends_and_its_best_reach_the_end(
    kind, max_t, eta, count, workers, searcher, limit, failure_rate, retries, can_save, brackets, stop, seed
):
    scheduler = {
        "hyperband": lambda: HyperBandScheduler(max_t=max_t, reduction_factor=eta),
        "bohb": lambda: HyperBandForBOHB(max_t=max_t, reduction_factor=eta),
        "stop": lambda: ASHAScheduler(max_t=max_t, reduction_factor=eta, brackets=brackets),
        "promote": lambda: ASHAScheduler(max_t=max_t, reduction_factor=eta, brackets=brackets, variant="promote"),
        "median": lambda: MedianStoppingRule("training_iteration", None, None, 1, 2, limit - 1),
        "pbt": lambda: PopulationBasedTraining(
            "training_iteration", None, None, limit, hyperparam_mutations={"x": uniform(0, 1)}, synch=can_save
        ),
    }[kind]()
    has_end = kind in ("hyperband", "bohb", "stop", "promote")
    criterion = None if stop is None and has_end else max_t if stop != "before" else (max_t + 1) // 2
    settings = SEARCHERS["none" if kind == "pbt" else searcher](limit)
    done = simulate(
        curve,
        param_space={} if settings.get("search_alg") else {"x": uniform(0, 1)},
        tune_config=TuneConfig(metric="score", mode="min", num_samples=count, scheduler=scheduler, **settings),
        run_config=RunConfig(
            stop=None if criterion is None else {"training_iteration": criterion},
            failure_config=FailureConfig(max_failures=retries),
        ),
        num_workers=workers,
        failure_rate=failure_rate,
        can_save=can_save,
        seed=seed,
    )
    assert len(done.results) == count == done.results.num_terminated + done.results.num_errors
    reached = [result.metrics.get("training_iteration", 0) for result in done.results if result.metrics]
    assert max(reached, default=0) <= (criterion or max_t)
    any_number = any(isinstance(entry.value, float) and entry.value == entry.value for entry in done.log)
    assert all(0 <= result.config["x"] <= 1 for result in done.results)
    if not failure_rate and any_number:
        assert max(reached) == (criterion or max_t)
    state = scheduler.get_state()
    assert not state.get("_brackets") or kind in ("stop", "promote")
    assert not state.get("_standings")
