"""A user-defined scheduler that pauses each trial after every second result, so that they take turns."""

import json
import os

import ray
from ray import tune
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler


class TakeTurns(TrialScheduler):
    def __init__(self):
        self.log = []
        self.turn = []

    def set_search_properties(self, metric, mode, **spec):
        self.log.append(["properties", metric, mode])
        return True

    def on_trial_add(self, tune_controller, trial):
        self.turn.append(trial)
        self.log.append(["add", trial.config["x"], trial.status])

    def on_trial_error(self, tune_controller, trial):
        self.turn.remove(trial)
        self.log.append(["error", trial.config["x"]])

    def on_trial_result(self, tune_controller, trial, result):
        self.log.append(["result", trial.config["x"], result["deep/n"], trial.status])
        if result["deep/n"] % 2 == 0:
            self.turn.remove(trial)
            self.turn.append(trial)
            return TrialScheduler.PAUSE
        if trial.config["x"] == 2 and result["deep/n"] == 5:
            return TrialScheduler.STOP
        return TrialScheduler.CONTINUE

    def on_trial_complete(self, tune_controller, trial, result):
        self.turn.remove(trial)
        self.log.append(["complete", trial.config["x"], result["deep/n"]])

    def on_trial_remove(self, tune_controller, trial):
        self.turn.remove(trial)
        self.log.append(["remove", trial.config["x"]])

    def choose_trial_to_run(self, tune_controller):
        for trial in self.turn:
            if trial.status in (Trial.PENDING, Trial.PAUSED):
                return trial
        return None

    def debug_string(self):
        return f"Taking turns: {len(self.turn)}"


class Counting(tune.Trainable):
    def setup(self, config):
        self.n = 0

    def step(self):
        self.n += 1
        return {"deep": {"n": self.n}}

    def save_checkpoint(self, checkpoint_dir):
        return {"n": self.n}

    def load_checkpoint(self, state):
        self.n = state["n"]


class StopsOthers(FIFOScheduler):
    """As soon as one trial is good enough, those that wait need not start."""

    def on_trial_result(self, tune_controller, trial, result):
        if result["deep/n"] == 3 and trial.config["x"] == 1:
            for other in tune_controller.get_trials():
                if other.status == "PENDING":
                    tune_controller.stop_trial(other)
        return TrialScheduler.CONTINUE


ray.init(num_cpus=1, include_dashboard=False)


def go(scheduler, xs, n):
    return tune.Tuner(
        Counting,
        param_space={"x": tune.grid_search(xs)},
        tune_config=tune.TuneConfig(scheduler=scheduler, metric="deep/n", mode="max"),
        run_config=tune.RunConfig(
            storage_path=os.environ["STORAGE"],
            stop={"deep/n": n},
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            verbose=1,
        ),
    ).fit()


turns = TakeTurns()
first = go(turns, [1, 2, 3], 6)
second = go(StopsOthers(), [0, 1, 2, 3], 5)
print(
    json.dumps(
        {
            "log": turns.log,
            "n": [[r.config["x"], r.metrics["deep"]["n"], r.metrics["training_iteration"]] for r in first],
            "since_restore": [r.metrics["iterations_since_restore"] for r in first],
            "left": turns.debug_string(),
            "others": sorted(r.metrics["deep"]["n"] if "deep" in r.metrics else 0 for r in second),
            "terminated": second.num_terminated,
        }
    )
)
