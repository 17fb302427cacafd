"""A `Trainable` without Tune, as in a notebook or in a test."""

import json
import os
import tempfile

from ray import tune
from ray.tune import Trainable
from ray.tune.trainable import wrap_function


class Model(Trainable):
    def setup(self, config):
        self.n = config.get("start", 0)
        self.seen = [sorted(config)]

    def step(self):
        self.n += 1
        return {"n": self.n, "iteration_inside": self.iteration}

    def save_checkpoint(self, checkpoint_dir):
        with open(os.path.join(checkpoint_dir, "n.txt"), "w") as f:
            f.write(str(self.n))
        return None

    def load_checkpoint(self, checkpoint_dir):
        with open(os.path.join(checkpoint_dir, "n.txt")) as f:
            self.n = int(f.read())

    def reset_config(self, new_config):
        self.n = new_config["start"]
        return True

    def cleanup(self):
        self.seen.append("cleanup")


class Dicts(Model):
    def save_checkpoint(self, checkpoint_dir):
        return {"n": self.n, "tuple": (1, 2)}

    def load_checkpoint(self, state):
        assert state["tuple"] == (1, 2)
        self.n = state["n"]


outcome = {}
model = Model(config={"start": 10})
first, second = model.train(), model.train()
outcome["results"] = [[r[k] for k in ("n", "iteration_inside", "training_iteration", "done")] for r in (first, second)]
outcome["keys"] = sorted(first)
outcome["trial_id"] = [model.trial_id, model.trial_name, model.training_iteration, model.iteration, model.get_config()]
outcome["logdir"] = os.path.isdir(model.logdir)
with tempfile.TemporaryDirectory() as directory:
    saved = model.save(directory)
    outcome["files"] = [name for name in sorted(os.listdir(directory)) if name == "n.txt"]
    third = model.train()
    other = Model(config={"start": 0})
    other.restore(directory)
    after = other.train()
    outcome["restored"] = [after[k] for k in ("n", "training_iteration", "iterations_since_restore")]
    model.restore(saved)
    outcome["itself"] = [model.n, model.training_iteration]
model.train()
checkpoint = model.save()
model.train()
model.restore(checkpoint)
outcome["own_place"] = [model.n, model.training_iteration]
outcome["reset"] = [model.reset({"start": 5}), model.train()["n"], model.training_iteration, model.config]
model.stop()
outcome["seen"] = model.seen
dicts = Dicts()
dicts.train()
path = dicts.save()
fresh = Dicts({})
fresh.restore(path)
outcome["dicts"] = [fresh.n, fresh.training_iteration, fresh.config]
outcome["resources"] = Model.default_resource_request({})
outcome["is_class"] = [issubclass(wrap_function(lambda config: None), Trainable), isinstance(model, tune.Trainable)]
print(json.dumps(outcome))
