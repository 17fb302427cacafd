"""`deterministic=True`: what learns from results decides the same in each run, however fast each trial is."""

import logging
import os
import random
import signal
from pathlib import Path

import pytest
from kit import fit, resume, run_path, virtual_executor

from minitune import (
    Callback,
    ConcurrencyLimiter,
    RunConfig,
    Searcher,
    Trainable,
    TuneConfig,
    TuneError,
    choice,
    get_context,
    report,
    simulate,
    uniform,
    with_resources,
)
from minitune.base import clock
from minitune.schedulers import (
    ASHAScheduler,
    HyperBandScheduler,
    MedianStoppingRule,
    PopulationBasedTraining,
)
from minitune.search.tpe import TPESearch

SPACE = {"x": uniform(0, 1), "y": uniform(0, 1)}
WINDOW, SAMPLES, LAST = 4, 8, 7


def loss(config, step):
    return float(config["x"] + (1 + config["y"]) / step)


class Slow(Trainable):
    """Takes virtual time as it likes; what it reports follows from its configuration."""

    def setup(self, config):
        self.jitter = random.Random()  # not seeded
        self.fails = get_context().get_attempt() <= config.get("failures", 0)

    def step(self):
        clock.current.sleep(self.jitter.choice((0.01, 1, 5)) * self.jitter.random())
        if self.fails and self.iteration == 3:
            raise ValueError("an attempt fails")
        return {"loss": loss(self.config, self.iteration + 1)}

    def save_checkpoint(self, checkpoint_dir):
        Path(checkpoint_dir, "state").write_text("")

    def load_checkpoint(self, checkpoint_dir):
        assert Path(checkpoint_dir, "state").exists()


def curve(config):
    return (({"loss": loss(config, step)}, 1.0) for step in range(1, LAST + 1))


class Climber(Searcher):
    """Looks around the best place so far, as far as it has heard."""

    def __init__(self):
        super().__init__()
        self.asked = {}
        self.best = (float("inf"), {"x": 0.5, "y": 0.5})
        self.rng = random.Random(0)

    def set_seed(self, seed):
        self.rng = random.Random(seed)

    def suggest(self, trial_id):
        self.asked[trial_id] = {name: near + self.rng.uniform(-0.1, 0.1) for name, near in self.best[1].items()}
        return self.asked[trial_id]

    def on_trial_result(self, trial_id, result):
        self.best = min(self.best, (result["loss"], self.asked[trial_id]), key=lambda found: found[0])


def population(**more):
    mutations = {"y": uniform(0, 1)}
    return PopulationBasedTraining(
        "training_iteration", perturbation_interval=2, hyperparam_mutations=mutations, **more
    )


LEARNING = {
    "ASHA": lambda: {"scheduler": ASHAScheduler(max_t=LAST, brackets=2, reduction_factor=3)},
    "ASHA that pauses": lambda: {"scheduler": ASHAScheduler(max_t=LAST, variant="promote", reduction_factor=3)},
    "HyperBand": lambda: {"scheduler": HyperBandScheduler(max_t=LAST)},
    "median": lambda: {"scheduler": MedianStoppingRule("training_iteration", grace_period=2, min_samples_required=2)},
    "PBT": lambda: {"scheduler": population()},
    "synchronous PBT": lambda: {"scheduler": population(synch=True)},
    "a searcher": lambda: {"search_alg": Climber()},
    "a limited searcher": lambda: {"search_alg": ConcurrencyLimiter(Climber(), WINDOW, batch=True)},
    "TPE": lambda: {"search_alg": TPESearch(n_initial_points=3), "scheduler": ASHAScheduler(max_t=LAST)},
}


def space_of(how):
    return None if how in ("a searcher", "a limited searcher") else SPACE


def settings(how, **more):
    """Of a run and of a simulation."""
    common = {"num_samples": SAMPLES, "seed": 7, "max_concurrent_trials": WINDOW, "metric": "loss", "mode": "min"}
    return {**common, **LEARNING[how](), **more}


def fit_in_order(how, cpus=WINDOW, trainable=Slow, space=None, **more):
    """The results of a run in logical order, on a virtual clock unless an executor is given."""
    ordered = {"deterministic": True, "executor": virtual_executor(cpus), "stop": {"training_iteration": LAST}, **more}
    return fit(trainable, space or space_of(how), **settings(how, **ordered))


def table(results, *, with_ids=True):
    """All but what is a time or a process."""
    assert len(results) == SAMPLES
    return [
        (
            result.config,
            result.metrics["trial_id"] if with_ids else result.metrics["trial_id"][-5:],
            [str(decision) for decision in result.decisions if decision.action != "RETRY"],
            [(row["training_iteration"], row.get("loss")) for row in result.get_rows()],
        )
        for result in results
    ]


@pytest.mark.parametrize("how", LEARNING)
def test_the_table_of_any_machine_is_that_of_the_virtual_one(how):
    small, large = (fit_in_order(how, cpus) for cpus in (WINDOW, 2 * WINDOW))
    run = RunConfig(verbose=0, storage_path=run_path("simulated"), stop={"training_iteration": LAST})
    virtual = simulate(
        curve,
        param_space=space_of(how),
        tune_config=TuneConfig(**settings(how)),
        run_config=run,
        num_workers=WINDOW,
    )
    assert table(small) == table(large)
    assert [text.replace("sim_", "") for text in map(str, table(virtual.results, with_ids=False))] == [
        text.replace(f"{small[0].metrics['trial_id'][:5]}_", "") for text in map(str, table(small, with_ids=False))
    ]


def test_other_numbers_give_other_runs():
    tables = [
        table(fit_in_order("TPE", **more), with_ids=False)
        for more in ({}, {"seed": 8}, {"max_concurrent_trials": WINDOW - 1})
    ]
    assert tables[0] != tables[1] != tables[2] != tables[0]


def test_failures_and_retries_have_their_places():
    space = {**SPACE, "failures": choice([0, 0, 1, 2])}
    grids = [
        fit_in_order("ASHA", cpus, space=space, max_failures=1, checkpoint_frequency=2) for cpus in (WINDOW, 2 * WINDOW)
    ]
    assert table(grids[0]) == table(grids[1])
    errors = [[str(result.error).splitlines()[-1:] for result in grid] for grid in grids]
    assert errors[0] == errors[1]
    assert 0 < grids[0].num_errors < SAMPLES


def test_workers_that_are_reused_change_nothing():
    assert table(fit_in_order("PBT", reuse_actors=True)) == table(fit_in_order("PBT"))


def crashing(config):
    """Takes its time, and dies with its process in the first attempt of every third trial."""
    import time

    jitter = random.Random(os.getpid())
    context = get_context()
    is_third = int(context.get_trial_id()[-5:]) % 3 == 0
    for step in range(1, LAST + 1):
        time.sleep(jitter.uniform(0, 0.004))
        if step == 2 and is_third and context.get_attempt() == 1:
            os._exit(3)
        report({"loss": loss(config, step)})


def test_races_and_deaths_change_no_decision(monkeypatch):
    tables = []
    for cpus in (WINDOW, 2 * WINDOW):
        monkeypatch.setenv("MINITUNE_NUM_CPUS", str(cpus))
        grid = fit_in_order("TPE", trainable=crashing, executor="local", deterministic=True, max_failures=1)
        assert not grid.errors
        tables.append(table(grid))
    assert tables[0] == tables[1]


class Hanging(Slow):
    def step(self):
        if self.fails and self.iteration == 2:
            clock.current.sleep(10_000)
        return super().step()


def test_hang_fails_its_trial_and_not_those_that_wait_for_it():
    tables = []
    for cpus in (WINDOW, 2 * WINDOW):
        executor = virtual_executor(cpus)
        space = {**SPACE, "failures": choice([0, 0, 1])}
        more = {"executor": executor, "report_timeout_s": 8, "max_failures": 1}
        grid = fit_in_order("ASHA", trainable=Hanging, space=space, **more)
        assert not grid.errors  # no one has used up two attempts
        tables.append(table(grid))
        assert executor.clock.monotonic() < 10_000
    assert tables[0] == tables[1]


@pytest.mark.parametrize(("cpus", "each"), [(3, 1), (7, 2)])
def test_a_machine_without_room_for_the_window_is_refused(cpus, each):
    text = rf"max_concurrent_trials=4 .* room for 3 here: .* {{CPU: {each}}}.* {{CPU: {cpus}}}"
    with pytest.raises(TuneError, match=text):
        fit_in_order("ASHA", cpus, with_resources(Slow, {"cpu": each}))


def test_a_simulation_shows_the_cost_of_the_order():
    def uneven(config):
        return (({"loss": loss(config, step)}, 1 + 9 * config["x"]) for step in range(1, LAST + 1))

    def run(**more):
        config = TuneConfig(num_samples=SAMPLES, seed=7, max_concurrent_trials=WINDOW, **more)
        return simulate(uneven, param_space=SPACE, tune_config=config, num_workers=WINDOW)

    free, ordered = run(), run(deterministic=True)
    assert ordered.makespan_s > free.makespan_s
    assert ordered.decision_log == run(deterministic=True).decision_log


def test_a_machine_that_sets_the_limit_is_named(caplog):
    sized = with_resources(Slow, lambda config: {"cpu": 1 if config["x"] < 0.5 else 3})
    with caplog.at_level(logging.WARNING, "minitune"):
        grid = fit_in_order("ASHA", trainable=sized)
    assert not grid.errors
    said = [
        text
        for text in map(logging.LogRecord.getMessage, caplog.records)
        if "the same only where the totals are" in text
    ]
    assert len(said) == 1
    assert said[0].endswith("{CPU: 4}")


def test_an_interrupt_is_not_held_up():
    """One trial never comes back; the results of the others wait for it when Ctrl-C is pressed."""
    stuck = True

    class Presses(Callback):
        pressed = False

        def on_step_begin(self, **info):
            if executor.clock.monotonic() > 100 and not self.pressed:
                self.pressed = True
                signal.raise_signal(signal.SIGINT)

    class Stuck(Slow):
        def step(self):
            if stuck and self.iteration == 2 and self.trial_id.endswith("1"):
                clock.current.sleep(10_000)
            return super().step()

    executor = virtual_executor(WINDOW)
    grid = fit_in_order("ASHA", trainable=Stuck, executor=executor, callbacks=[Presses()])
    assert grid.interrupted
    assert executor.clock.monotonic() < 1_000

    stuck = False
    resumed = resume(
        Stuck,
        path=grid.experiment_path,
        stop={"training_iteration": LAST},
        **settings("ASHA", deterministic=True, executor=virtual_executor(WINDOW)),
    )
    assert not resumed.interrupted
    assert [result.config for result in resumed] == [result.config for result in fit_in_order("ASHA", name="other")]
