"""PB2: its bounds, and that it finds good values."""

import math
import pickle

from kit import FakeContext, make_trial
from toy_population import Loop

from minitune import lograndint, loguniform, randint, uniform
from minitune.schedulers import create_scheduler
from minitune.schedulers.pb2 import PB2
from minitune.testing import SchedulerContract


def pb2(**settings):
    scheduler = PB2(
        **{
            "time_attr": "training_iteration",
            "metric": "score",
            "mode": "max",
            "perturbation_interval": 2,
            "hyperparam_bounds": {"x": [0.0, 1.0]},
            **settings,
        }
    )
    scheduler.set_seed(0)
    return scheduler


def climb(state, config):
    """The nearer `x` is to 0.7, the more a step gains."""
    state["score"] += 1 - (config["x"] - 0.7) ** 2
    return {"score": state["score"]}


class TestPB2(SchedulerContract):
    def make_scheduler(self):
        return create_scheduler(
            "pb2",
            time_attr="training_iteration",
            perturbation_interval=7,
            hyperparam_bounds={"x": [0.0, 1.0]},
            log_config=False,
        )


def test_missing_parameters_are_drawn_from_the_bounds():
    bounds = {"x": [0.5, 0.6], "log": loguniform(1e-6, 1e-3), "deep": {"n": randint(3, 5), "y": [1, 1]}}
    trial = make_trial(0, config={"deep": {"kept": 1}})
    pb2(hyperparam_bounds=bounds).on_trial_add(FakeContext([trial]), trial)
    assert 0.5 <= trial.config["x"] <= 0.6
    assert 1e-6 <= trial.config["log"] <= 1e-3
    assert trial.config["deep"]["n"] in (3, 4)
    assert trial.config["deep"]["y"] == 1
    assert trial.config["deep"]["kept"] == 1
    assert set(trial.evaluated_params) == {"x", "log", "deep/n", "deep/y"}


def test_new_hyperparameters_stay_within_their_bounds_and_keep_their_type():
    bounds = {
        "x": [0.0, 1.0],
        "n": [1, 9],
        "log": loguniform(1e-4, 1e-1),
        "width": lograndint(8, 64),
        "deep": {"y": uniform(-1, 1)},
    }
    scheduler = pb2(hyperparam_bounds=bounds, quantile_fraction=0.5, synch=True)
    configs = [{"x": n / 3, "n": n + 1, "log": 0.01, "width": 16, "deep": {"y": 0.0}, "kept": "k"} for n in range(4)]
    configs[2]["log"] = 0.0  # outside of its bounds, which have a logarithm
    loop = Loop(scheduler, configs, {"score": 0.0}, climb)
    new = []
    for _ in range(24):
        loop.step()
        new += [trial.config for trial in loop.trials if "@perturbed" in trial.experiment_tag]
    assert len(new) > 10
    for config in new:
        assert 0 <= config["x"] <= 1
        assert type(config["n"]) is int
        assert 1 <= config["n"] <= 9
        assert 1e-4 <= config["log"] <= 1e-1
        assert type(config["width"]) is int
        assert 8 <= config["width"] < 64
        assert -1 <= config["deep"]["y"] <= 1
        assert config["kept"] == "k"
    assert len({config["n"] for config in new}) > 2
    assert any(math.log10(config["log"]) < -3 for config in new), "orders of magnitude are alike"


def test_pb2_finds_the_helpful_parameter():
    loop = Loop(
        pb2(synch=True, quantile_fraction=0.5),
        [{"x": 0.0}, {"x": 0.1}, {"x": 0.2}, {"x": 0.9}],
        {"score": 0.0},
        climb,
    )
    for _ in range(24):
        loop.step()
    late = [trial.config["x"] for trial in loop.trials]
    assert sum(abs(x - 0.7) < 0.2 for x in late) >= 3, late


def test_members_that_explore_in_one_round_do_not_get_the_same_config():
    scheduler = pb2(synch=True, quantile_fraction=0.5)
    loop = Loop(scheduler, [{"x": n / 7} for n in range(8)], {"score": 0.0}, climb)
    for _ in range(6):
        loop.step()
    new = sorted(trial.config["x"] for trial in loop.trials)
    assert len(set(new)) == 8
    reasons = [decision.reason for _, decision in loop.decisions]
    assert any("waits until all" in reason for reason in reasons)


def test_without_gains_to_learn_from_new_values_are_drawn_uniformly():
    loop = Loop(
        pb2(),
        [{"x": 0.2}, {"x": 0.3}],
        {"score": 0.0},
        lambda state, config: {"score": math.nan if config["x"] < 0.25 else 1.0},
    )
    for _ in range(4):
        loop.step()
    _, config = loop.decisions[-2][1].exploit
    assert config["x"] not in (0.2, 0.3)
    assert loop.decisions[-2][1].facts["rule"] == "pb2"


def test_a_custom_function_has_the_last_word():
    loop = Loop(
        pb2(custom_explore_fn=lambda config: {**config, "x": 0.5}), [{"x": 0.0}, {"x": 0.7}], {"score": 0.0}, climb
    )
    for _ in range(6):
        loop.step()
    assert loop.exploits()
    assert all(config["x"] == 0.5 for _, _, config in loop.exploits())


def test_nothing_is_kept_of_members_that_have_ended():
    scheduler = pb2(synch=True, quantile_fraction=0.5)
    loop = Loop(scheduler, [{"x": n / 3} for n in range(4)], {"score": 0.0}, climb)
    for _ in range(6):
        loop.step()
    for trial in loop.trials:
        scheduler.on_trial_remove(FakeContext(loop.trials), trial)
    state = pickle.dumps(scheduler.get_state())
    assert not [trial.trial_id for trial in loop.trials if trial.trial_id.encode() in state]
