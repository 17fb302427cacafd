"""The trainable of the test suites, and the helpers beside it."""

import json
import math
import os

import ray
from ray import tune
from ray.tune.utils import flatten_dict, merge_dicts
from ray.tune.utils.mock_trainable import MOCK_TRAINABLE_NAME, MyTrainableClass, register_mock_trainable
from ray.tune.utils.util import deep_update, unflatten_dict

ray.init(num_cpus=2, include_dashboard=False)
register_mock_trainable()


def go(trainable, **kwargs):
    space = {"width": tune.grid_search([1, 2]), "height": 10, **kwargs}
    return tune.Tuner(
        trainable,
        param_space=space,
        tune_config=tune.TuneConfig(metric="episode_reward_mean", mode="max"),
        run_config=tune.RunConfig(
            storage_path=os.environ["STORAGE"],
            stop={"training_iteration": 3},
            failure_config=tune.FailureConfig(max_failures=1),
            checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=1),
            verbose=0,
        ),
    ).fit()


def look(results):
    expected = [10 * math.tanh(3 / r.config["width"]) for r in results]
    return [
        bool(abs(r.metrics["episode_reward_mean"] - e) < 1e-9) for r, e in zip(results, expected)
    ], results.num_errors


print(
    json.dumps(
        {
            "by_name": look(go(MOCK_TRAINABLE_NAME)),
            "by_class": look(go(MyTrainableClass)),
            "mended": look(go(MyTrainableClass, mock_error=True)),
            "persistent": go(MyTrainableClass, mock_error=True, persistent_error=True).num_errors,
            "name": MOCK_TRAINABLE_NAME,
            "flat": flatten_dict({"a": {"b": 1, "c": {"d": 2}}, "e": []}),
            "flat_dot": flatten_dict({"a": {"b": 1}}, delimiter="."),
            "unflat": unflatten_dict({"a/b": 1, "a/c/d": 2}),
            "merged": merge_dicts({"a": {"b": 1}}, {"a": {"c": 2}}),
            "updated": deep_update({"a": {"b": 1}}, {"a": {"b": 2}}, new_keys_allowed=True),
        }
    )
)
