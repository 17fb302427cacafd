"""simulate: the driver on learning curves, with every parameter's effect, and always the same."""

import logging
from pathlib import Path

import pytest
from kit import listening

from minitune import (
    ASHAScheduler,
    CheckpointConfig,
    FailureConfig,
    JsonLoggerCallback,
    RunConfig,
    Trainable,
    TrialScheduler,
    TuneConfig,
    Tuner,
    grid_search,
    uniform,
)
from minitune.base import clock
from minitune.experiment.decision import PAUSE, Decision
from minitune.experiment.endings import EndKind
from minitune.record.past_run import read_curves
from minitune.record.reading import read_run
from minitune.simulation import simulate

SCRIPTS = Path(__file__).with_name("scripts")


def curve(config):
    return [({"loss": config["x"] + 1 / epoch}, 10.0) for epoch in range(1, 10)]


def simulated(curve=curve, space=None, *, run=None, num_workers=1, **settings):
    """A simulation that minimises the loss; `settings` are those of `simulate` and of `TuneConfig`."""
    own = {name: settings.pop(name) for name in ("can_save", "failure_rate", "seed") if name in settings}
    config = TuneConfig(**{"metric": "loss", "mode": "min", **settings})
    return simulate(curve, param_space=space, tune_config=config, run_config=run, num_workers=num_workers, **own)


def on_grid(count, scheduler=None, **settings):
    """`count` trials, the first being the best."""
    return simulated(space={"x": grid_search(list(range(count)))}, scheduler=scheduler, **settings)


def retrying(**checkpoints):
    return RunConfig(failure_config=FailureConfig(-1), checkpoint_config=CheckpointConfig(**checkpoints))


def lengths(simulation):
    return [result.metrics["training_iteration"] for result in simulation.results]


def test_every_trial_runs_its_curve_on_a_clock_that_jumps():
    times = []
    watch = listening(on_trial_result=lambda **info: times.append(clock.current.time()))
    done = on_grid(4, num_workers=2, run=RunConfig(callbacks=[watch]))

    assert lengths(done) == [9, 9, 9, 9]
    assert (done.makespan_s, done.num_steps) == (180.0, 36)
    assert sorted(set(times)) == [10.0 * step for step in range(1, 19)]
    assert done.results.get_best_result().config == {"x": 0}
    assert done.results[0].metrics["time_total_s"] == 90.0
    assert clock.current is clock.REAL
    assert [on_grid(6, num_workers=count).makespan_s for count in (1, 2, 3, 6)] == [540.0, 270.0, 180.0, 90.0]
    # A limit of the run may come due later than its last trial.
    assert on_grid(1, time_budget_s=1000, trial_timeout_s=500).makespan_s == 90


def test_a_log_prints_a_line_for_each_event():
    done = simulated(lambda config: [({"loss": 2.0 / n}, 10.0) for n in (1, 2)])

    assert [str(entry).replace(entry.trial_id, "T") for entry in done.log] == [
        "0.0 T ADDED 0",
        "0.0 T RUNNING attempt 1",
        "10.0 T CONTINUE 1 2.0",
        "20.0 T CONTINUE 2 1.0",
        "20.0 T TERMINATED the trainable has returned",
    ]


def test_failures_are_retried_from_the_last_checkpoint(caplog):
    caplog.set_level(logging.WARNING, logger="minitune")
    resumed = on_grid(20, failure_rate=0.2, run=retrying(checkpoint_frequency=1))
    anew = on_grid(20, failure_rate=0.2, can_save=False, run=retrying())
    once = on_grid(20, failure_rate=0.2)

    assert lengths(resumed) == lengths(anew) == [9] * 20
    assert resumed.num_failures > 10
    assert resumed.num_steps == 180 + resumed.num_failures
    assert anew.num_steps > resumed.num_steps
    assert resumed.makespan_s > 20 * 90, "time that a failure has cut short counts"
    assert 0 < once.results.num_errors < 20
    assert once.num_failures == once.results.num_errors
    assert "simulated failure" in str(once.results.errors[0])
    assert caplog.text == "", "failures of simulated workers are no news"


def breaks(config):
    yield {"loss": 1.0}, 1.0
    raise ZeroDivisionError("of my own")


def stepping(step):
    return lambda config: [step]


BAD_STEPS = [
    *(3, {"loss": 1.0}, ({"loss": 1.0},), ({"loss": 1.0}, 1, 2), ("loss", 1.0)),
    *(({"loss": 1.0}, "1"), ({"loss": 1.0}, True)),
]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (breaks, "ZeroDivisionError: of my own"),
        ({"a": []}, "must be a key of the table of curves"),
        (lambda config, state: [({"loss": 1.0}, 1.0)], "must yield (metrics, seconds, state)"),
        (stepping(({"loss": 1.0}, -1.0)), "seconds < infinity"),
        (stepping(({"loss": 1.0}, float("inf"))), "seconds < infinity"),
        *((stepping(step), "must yield (metrics, seconds), but") for step in BAD_STEPS),
    ],
)
def test_an_error_of_a_curve_is_its_trials(given, text):
    (error,) = simulated(given, {"curve": "b"}).results.errors
    assert text in str(error)


class Rests(TrialScheduler):
    """Pauses each trial after its third result."""

    def on_trial_result(self, tune_controller, trial, result):
        if result["training_iteration"] == 3 and trial.attempt.number == 1:
            return Decision(PAUSE, "have a rest")
        return "CONTINUE"


def consumes(config):
    return [({"loss": config.pop("x")}, 1.0), *curve({"x": 0})]


def test_a_pause_goes_on_from_the_checkpoint_or_starts_over():
    saved = on_grid(2, Rests())
    lost = on_grid(2, Rests(), can_save=False)
    table = simulated({"a": [({"loss": n}, 1.0) for n in range(5)]}, scheduler=Rests())
    changed = simulated(consumes, {"x": 3}, scheduler=Rests())

    assert lengths(saved) == lengths(lost) == [9, 9]
    assert (saved.num_steps, lost.num_steps, table.num_steps) == (18, 24, 5)
    assert [one.action for one in saved.results[0].decisions][:2] == ["PAUSE", "RESUME"]
    assert table.results[0].metrics["loss"] == 4
    assert (lengths(changed), changed.results[0].config) == ([10], {"x": 3}), "a curve may change its configuration"


class Exploiter(TrialScheduler):
    """After three results the other trials go on from the first one's checkpoint, under another configuration."""

    def on_trial_result(self, tune_controller, trial, result):
        first = tune_controller.get_trials()[0]
        if trial is first:
            return Decision("CONTINUE", save=True)
        if result["training_iteration"] == 3 and trial.config["x"] == 1:
            return Decision(PAUSE, "the first is better", exploit=(first, {"x": 0.5}))
        return "CONTINUE"


def test_an_exploit_goes_on_at_the_donors_place_on_the_curve_of_the_new_config():
    second = on_grid(2, Exploiter(), num_workers=2).results[1]

    assert second.config == {"x": 0.5}
    assert second.metrics["loss"] == pytest.approx(0.5 + 1 / 9)
    assert second.metrics["training_iteration"] == 9
    assert [one.facts.get("donor") for one in second.decisions if one.action == "EXPLOIT"] == ["sim_00000"]


def test_a_curve_with_a_state_goes_on_from_that_of_the_checkpoint():
    def counts_in_place(config, state):
        state = [0] if state is None else state
        for _ in range(6):
            state[0] += 1
            yield {"loss": -state[0] * config["x"]}, 1.0, state

    space = {"x": grid_search([2, 1, 1])}
    done = simulated(counts_in_place, space, scheduler=Exploiter(), num_workers=3)

    # the second step of the donor is saved; a saved state is independent of the trials
    assert [result.metrics["loss"] for result in done.results] == [-2 * 6, -0.5 * (2 + 6), -0.5 * (2 + 6)]


def test_a_table_of_curves_is_run_in_order():
    done = simulated({"a": curve({"x": 1}), "b": curve({"x": 0})[:4]})

    assert [result.config for result in done.results] == [{"curve": "a"}, {"curve": "b"}]
    assert lengths(done) == [9, 4]


@pytest.mark.parametrize(
    ("settings", "length", "text"),
    [
        ({"stop": {"training_iteration": 4}}, 4, "stopped because training_iteration >= 4 was reached"),
        # the step that runs may end, so that it can be saved
        ({"time_budget_s": 205}, 3, "the time budget of 205 s is used up"),
    ],
)
def test_stop_criteria_and_budgets_are_those_of_a_run(settings, length, text):
    run = RunConfig(stop=settings.pop("stop", None))
    last = on_grid(3, run=run, **settings).results[2]
    assert last.metrics["training_iteration"] == length
    assert str(last.decisions[-1]).startswith(f"after iteration {length}: ")
    assert text in str(last.decisions[-1])


def test_nothing_is_written_unless_there_is_a_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    on_grid(3, ASHAScheduler(max_t=9, reduction_factor=3), failure_rate=0.1)
    assert not list(tmp_path.rglob("*"))

    with pytest.raises(ValueError, match="storage_path"):
        on_grid(1, run=RunConfig(callbacks=[JsonLoggerCallback()]))

    done = on_grid(3, run=RunConfig(storage_path=str(tmp_path / "runs"), name="simulated"))
    recorded = read_run(tmp_path / "runs" / "simulated")
    assert [trial.last_result["loss"] for trial in recorded.trials] == [r.metrics["loss"] for r in done.results]
    assert done.decision_log == on_grid(3).decision_log


@pytest.mark.parametrize("variant", ["stop", "promote"])
def test_equal_seeds_give_equal_logs_in_any_process(variant, script):
    first, second = (
        script.run(SCRIPTS / "decision_log.py", variant, PYTHONHASHSEED=hash_seed) for hash_seed in ("1", "2")
    )
    assert first.count("\n") > 200
    assert first == second


def test_a_simulation_shows_something_only_if_asked_to(capsys):
    on_grid(1)
    assert capsys.readouterr().out == ""
    on_grid(1, run=RunConfig(verbose=1))
    assert " s: 1 finished\n" in capsys.readouterr().out


def test_the_log_tells_why_each_trial_has_ended():
    done = on_grid(2, ASHAScheduler(max_t=4, grace_period=1, reduction_factor=2))
    ends = [(entry.trial_id, entry.kind) for entry in done.log if entry.kind is not None]
    assert ends == [("sim_00000", EndKind.MAX_T), ("sim_00001", EndKind.SCHEDULER)]
    assert [entry.kind for entry in on_grid(1).log if entry.kind is not None] == [EndKind.RETURNED]


def test_only_warnings_about_single_trials_and_files_are_kept_back(caplog):
    def warn(trial, **info):
        for extra in ({"trial_id": trial.trial_id}, {"run_path": "path"}, {}):
            logging.getLogger("minitune").warning("a warning with %s", [*extra], extra=extra)

    simulated({"a": curve({"x": 1})[:1]}, run=RunConfig(callbacks=[listening(on_trial_result=warn)]))
    assert caplog.messages == ["a warning with []"]
    logging.getLogger("minitune").warning("afterwards", extra={"trial_id": "t"})
    assert caplog.messages[1:] == ["afterwards"]


def test_the_seed_is_that_of_the_call_or_of_the_config_or_zero():
    given = TuneConfig(metric="loss", mode="min", seed=5, num_samples=4)
    space = {"x": uniform(0, 1)}
    runs = [
        simulate(curve, param_space=space, tune_config=config, seed=seed)
        for config, seed in ((given, None), (given, 7), (TuneConfig(metric="loss", mode="min"), None))
    ]
    assert [run.results.seed for run in runs] == [5, 7, 0]
    assert runs[0].decision_log != runs[1].decision_log
    assert (given.seed, given.executor) == (5, TuneConfig().executor), "the user's stays as it is"


class Real(Trainable):
    """The same curve, made by a real class."""

    def setup(self, config):
        self.x = config["x"]
        self.epoch = 0

    def step(self):
        self.epoch += 1
        return {"loss": self.x + 1 / self.epoch}

    def save_checkpoint(self, checkpoint_dir):
        return {"epoch": self.epoch}

    def load_checkpoint(self, checkpoint):
        self.epoch = checkpoint["epoch"]


@pytest.mark.parametrize("variant", ["stop", "promote"])
def test_a_simulation_decides_as_a_real_run(variant, tmp_path):
    def settings():
        scheduler = ASHAScheduler(max_t=9, reduction_factor=3, variant=variant)
        config = TuneConfig(
            metric="loss", mode="min", num_samples=15, seed=3, scheduler=scheduler, max_concurrent_trials=1
        )
        return {"param_space": {"x": uniform(0, 1)}, "tune_config": config}

    arguments = settings()
    arguments["tune_config"].executor = "inline"
    real = Tuner(Real, run_config=RunConfig(verbose=0, storage_path=str(tmp_path)), **arguments).fit()
    simulated = simulate(curve, **settings()).results

    assert [(result.config, *map(str, result.decisions)) for result in real] == [
        (result.config, *map(str, result.decisions)) for result in simulated
    ]
    lengths = [len(curve) for curve in read_curves(real.experiment_path).values()]
    assert lengths == [result.metrics["training_iteration"] for result in simulated]
