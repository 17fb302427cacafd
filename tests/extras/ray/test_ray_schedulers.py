"""Each scheduler comes to the same results on Ray as on this machine, with functions and with classes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import minitune as tune
from minitune import schedulers
from minitune.search.bohb import TuneBOHB
from minitune.search.tpe import TPESearch

SAMPLES, WINDOW, LAST = 4, 2, 6


def learn(config):
    checkpoint = tune.get_checkpoint()
    step = json.loads((Path(checkpoint.path) / "step").read_text()) if checkpoint else 0
    while True:
        step += 1
        Path("saved").mkdir(exist_ok=True)
        Path("saved/step").write_text(json.dumps(step))
        tune.report({"loss": loss_of(config, step), "step": step}, checkpoint=tune.Checkpoint("saved"))


class Learner(tune.Trainable):
    def setup(self, config):
        self.steps = 0

    def step(self):
        self.steps += 1
        return {"loss": loss_of(self.config, self.steps), "step": self.steps}

    def save_checkpoint(self, checkpoint_dir):
        return {"steps": self.steps}

    def load_checkpoint(self, checkpoint):
        self.steps = checkpoint["steps"]

    def reset_config(self, new_config):
        self.steps = 0
        return True


def loss_of(config, step):
    return config["x"] + (1 + config["y"]) / step


def population(**more):
    return schedulers.PopulationBasedTraining(
        "training_iteration", perturbation_interval=2, hyperparam_mutations={"y": tune.uniform(0, 1)}, **more
    )


HOWS = {
    "FIFO": dict,
    "TPE": lambda: {"search_alg": TPESearch(n_initial_points=2)},
    "ASHA": lambda: {"scheduler": schedulers.ASHAScheduler(max_t=LAST, reduction_factor=2)},
    "ASHA that pauses": lambda: {
        "scheduler": schedulers.ASHAScheduler(max_t=LAST, reduction_factor=2, variant="promote")
    },
    "HyperBand": lambda: {"scheduler": schedulers.HyperBandScheduler(max_t=LAST)},
    "BOHB": lambda: {"scheduler": schedulers.HyperBandForBOHB(max_t=LAST), "search_alg": TuneBOHB()},
    "median": lambda: {
        "scheduler": schedulers.MedianStoppingRule("training_iteration", grace_period=1, min_samples_required=2)
    },
    "PBT": lambda: {"scheduler": population(quantile_fraction=0.5)},
    "PBT with reuse": lambda: {"scheduler": population(quantile_fraction=0.5), "reuse_actors": True},
    "synchronous PBT": lambda: {"scheduler": population(synch=True)},
    "PB2": lambda: {
        "scheduler": schedulers.PB2(
            "training_iteration", perturbation_interval=2, hyperparam_bounds={"y": [0, 1]}, quantile_fraction=0.5
        )
    },
}


def outcome(trainable, how, executor, storage):
    results = tune.Tuner(
        trainable,
        param_space={"x": tune.uniform(0, 1), "y": tune.uniform(0, 1)},
        tune_config=tune.TuneConfig(
            metric="loss",
            mode="min",
            num_samples=SAMPLES,
            max_concurrent_trials=WINDOW,
            seed=7,
            **HOWS[how](),
            deterministic=True,
            executor=executor,
        ),
        run_config=tune.RunConfig(storage_path=str(storage), verbose=0, stop={"training_iteration": LAST}),
    ).fit()
    assert not results.errors
    found = [
        (
            result.config,
            [str(decision) for decision in result.decisions],
            [(row["training_iteration"], row["step"], row["loss"]) for row in result.get_rows()],
        )
        for result in results
    ]
    return str(found).replace(results[0].metrics["trial_id"].partition("_")[0], "")


@pytest.mark.usefixtures("connection")
@pytest.mark.parametrize("trainable", [learn, Learner], ids=["function", "class"])
@pytest.mark.parametrize("how", HOWS)
def test_a_scheduler_decides_as_on_the_local_executor(how, trainable, tmp_path, monkeypatch):
    monkeypatch.setenv("MINITUNE_NUM_CPUS", "8")
    local, on_ray = (outcome(trainable, how, executor, tmp_path / executor) for executor in ("local", "ray"))
    assert local == on_ray
