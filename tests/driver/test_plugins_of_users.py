"""Schedulers, searchers and callbacks as users write them for Ray Tune."""

from __future__ import annotations

from typing import Any

import pytest
from kit import fit

from minitune.experiment.callback import Callback
from minitune.search import BasicVariantGenerator
from minitune.space.domains import grid_search
from minitune.trainable.session import report


def train(config):
    for i in range(config.get("n", 4)):
        report({"score": config["x"] * (i + 1), "nest": {"v": i}})


def fit_with(path, space, num_samples=1, **settings):
    return fit(train, space, num_samples=num_samples, seed=1, storage_path=path, **settings)


# -- schedulers -----------------------------------------------------------------------------------------------------


# -- searchers ------------------------------------------------------------------------------------------------------


def test_a_search_algorithm_of_the_old_form_works(tmp_path):
    class Every(BasicVariantGenerator):
        config: Any = None

        def set_search_properties(self, metric, mode, config):
            self.config = config
            return super().set_search_properties(metric, mode, config)

    search_alg = Every()
    assert len(fit_with(tmp_path, {"x": grid_search([1, 2]), "n": 1}, search_alg=search_alg)) == 2


# -- callbacks ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hook", [name for name in vars(Callback) if name == "setup" or name.startswith("on_")])
def test_every_hook_of_a_callback_takes_future_arguments(hook):
    arguments = {"trials": []} if hook == "on_experiment_end" else {"iteration": 3, "trials": []}
    if hook == "setup":
        arguments = {"stop": None, "num_samples": 1, "total_num_samples": 1}
    elif hook.startswith("on_trial") or hook == "on_checkpoint":
        arguments["trial"] = None
    if hook == "on_trial_result":
        arguments["result"] = {}
    elif hook == "on_checkpoint":
        arguments["checkpoint"] = None
    assert getattr(Callback(), hook)(**arguments, something_new=1) is None
