"""Random experiments: all that makes a run, drawn from one seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from differential_plugins import (
    LoggingSearcher,
    MeddlingScheduler,
    NotingCallback,
    PausingScheduler,
    StopAfter,
)
from differential_trainables import CLEAN_ENDS, KINDS

from minitune import (
    ASHAScheduler,
    CheckpointConfig,
    FailureConfig,
    RunConfig,
    TuneConfig,
    Tuner,
    choice,
    grid_search,
    randint,
    sample_from,
    uniform,
    with_parameters,
    with_resources,
)
from minitune.stopper import MaximumIterationStopper, TrialPlateauStopper

NUM_CPUS = 3
RUN = "run"
PLACES = ("start", "step", "step", "step", "load", "end", "save", "wrong report", "wrong save")
ENDS = (
    "none",
    "none",
    "none",
    "done",
    "dict",
    "number",
    "zero",
    "empty",
    "text",
    "list",
    "true",
    "done dict",
    "complex",
)
ENDS += tuple(CLEAN_ENDS)


@dataclass(frozen=True)
class Plan:
    """One experiment: the arguments of its parts, as plain data. Plug-ins have state, so each run makes its own.

    `is_ordered` means that one trial runs at a time, so that the order of all records is determined; else three run
    side by side and nothing in the run depends on whose report arrives first.
    """

    seed: int
    is_ordered: bool
    kind: str
    scheduler: str
    searcher: str
    stop: str
    habits: dict[str, Any]
    settings: dict[str, Any]
    failure: FailureConfig
    checkpoint: CheckpointConfig
    resources: str
    has_parameters: bool

    @classmethod
    def of(cls, seed):
        """Draw the experiment number `seed`."""
        rng = random.Random(f"experiment/{seed}")
        kind = rng.choice(sorted(KINDS))
        is_function, saves = kind in ("function", "generator"), kind in ("class", "resettable class")
        is_ordered = rng.random() < 0.7
        stops = ["none", "none", "iterations", "score", "nested", "function", "stopper", "list", "plateau"]
        schedulers = ["none"]
        if is_ordered:
            schedulers += ["none", "asha", "asha", "asha promote", "pausing", "pausing", "pausing", "meddling"]
            stops += ["all"]
        habits = {
            "seed": seed,
            "failure_share": rng.choice((0.0, 0.0, 0.3, 0.7)),
            "places": PLACES,
            "ends": ENDS if rng.random() < 0.7 else ("none",),
            "checkpoint_every": rng.choice((0, 1, 1, 2, 3)) if is_function or saves else 0,
            "counts_makings": is_ordered,
        }
        return cls(
            seed=seed,
            is_ordered=is_ordered,
            kind=kind,
            scheduler=rng.choice(schedulers),
            searcher=rng.choice(("none", "none", "logging")) if is_ordered else "none",
            stop=rng.choice(stops),
            habits=habits,
            settings={
                "num_samples": rng.randint(1, 3),
                "reuse_actors": rng.random() < 0.5,
                "has_metric": rng.random() < 0.5,
                "log_to_file": rng.random() < 0.2,
            },
            failure=_draw_failure(rng, is_ordered),
            checkpoint=_draw_checkpoint(rng, saves, is_ordered),
            resources=rng.choice(("none", "none", "none", "fraction", "by config", "too much"))
            if is_ordered
            else "none",
            has_parameters=rng.random() < 0.2,
        )

    # -- its parts ---------------------------------------------------------------------------------------------------

    def tuner(self, executor, storage, notes):
        """A Tuner of this experiment that notes all that it tells its plug-ins."""
        has_metric = self.settings["has_metric"] or self.scheduler.startswith("asha")
        return Tuner(
            self._trainable(),
            param_space=self._space(),
            tune_config=TuneConfig(
                metric="score" if has_metric else None,
                mode="max" if has_metric else None,
                scheduler=self._scheduler(notes),
                search_alg=LoggingSearcher(self.seed, self._limit(), notes) if self.searcher == "logging" else None,
                num_samples=self._limit() if self.searcher == "logging" else self.settings["num_samples"],
                max_concurrent_trials=1 if self.is_ordered else NUM_CPUS,
                reuse_actors=self.settings["reuse_actors"],
                seed=self.seed,
                executor=executor,
            ),
            run_config=RunConfig(
                name=RUN,
                storage_path=storage,
                failure_config=self.failure,
                checkpoint_config=self.checkpoint,
                stop=self._stop(),
                callbacks=[NotingCallback(notes)],
                log_to_file=self.settings["log_to_file"],
                verbose=0,
            ),
        )

    def _limit(self):
        return int(self.settings["num_samples"]) + 2

    def _space(self):
        space = {"salt": randint(0, 10**9), "x": uniform(0, 1), "habits": self.habits}
        if self.searcher == "none":
            space["inner"] = {"grid": grid_search([1, "two"]), "odd": choice([None, (1, 2), float("nan"), {"a": [1]}])}
            space["derived"] = sample_from(lambda config: config["x"] * 2)
        return space

    def _trainable(self):
        trainable = KINDS[self.kind]
        if self.has_parameters:
            trainable = with_parameters(trainable, extra=[1, (2.0, None)])
        requests = {"fraction": {"cpu": 0.5}, "by config": _request, "too much": _too_much}
        return with_resources(trainable, requests[self.resources]) if self.resources in requests else trainable

    def _scheduler(self, notes):
        rng = random.Random(f"scheduler/{self.seed}")
        if self.scheduler.startswith("asha"):
            variant = "promote" if self.scheduler.endswith("promote") else "stop"
            return ASHAScheduler(
                max_t=rng.randint(3, 10),
                grace_period=rng.randint(1, 2),
                reduction_factor=rng.choice((2, 3, 4)),
                brackets=rng.choice((1, 1, 2)),
                variant=variant,
            )
        kinds = {"pausing": PausingScheduler, "meddling": MeddlingScheduler}
        return kinds[self.scheduler](self.seed, notes) if self.scheduler in kinds else None

    def _stop(self):
        rng = random.Random(f"stop/{self.seed}")
        if self.stop == "stopper":
            return MaximumIterationStopper(rng.randint(1, 5))
        if self.stop == "list":
            return [
                MaximumIterationStopper(4),
                TrialPlateauStopper("eval/loss", std=0.2, num_results=2, grace_period=2),
            ]
        if self.stop == "plateau":
            return TrialPlateauStopper("eval/loss", std=rng.random(), num_results=2, grace_period=2)
        if self.stop == "all":
            return StopAfter(rng.randint(1, 12))
        if self.stop == "function":
            return _stops
        limits = {
            "iterations": {"training_iteration": rng.randint(1, 5)},
            "score": {"score": rng.gauss(0.5, 1)},
            "nested": {"eval/loss": rng.uniform(0.5, 2), "step": 4},
        }
        return limits.get(self.stop)


def _draw_failure(rng, is_ordered):
    if is_ordered and rng.random() < 0.1:
        return FailureConfig(fail_fast=rng.choice((True, "raise")))
    return FailureConfig(max_failures=rng.randint(0, 3))


def _draw_checkpoint(rng, saves, is_ordered):
    arguments = {"num_to_keep": rng.choice((None, None, 1, 2, 3))}
    if rng.random() < 0.3:
        arguments["checkpoint_score_attribute"] = rng.choice(("score", "eval/loss"))
        arguments["checkpoint_score_order"] = rng.choice(("max", "min"))
    if saves:
        arguments["checkpoint_frequency"] = rng.choice((0, 0, 1, 2, 3))
        arguments["checkpoint_at_end"] = rng.choice((None, True, False))
    return CheckpointConfig(**arguments)


def _stops(trial_id, result):
    return bool(result["training_iteration"] == 3)


def _request(config):
    return {"cpu": 0.5 + config["salt"] % 3 / 2}


def _too_much(config):
    return {"cpu": 1 if config["salt"] % 3 else 99}
