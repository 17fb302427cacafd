"""Schedulers, searchers and callbacks as users write them for Ray Tune."""

from __future__ import annotations

from typing import Any

import pytest
from kit import fit

from minitune.experiment.callback import Callback
from minitune.experiment.trial import Trial
from minitune.schedulers import TrialScheduler
from minitune.search import BasicVariantGenerator
from minitune.space.domains import grid_search
from minitune.trainable.session import report


def train(config):
    for i in range(config.get("n", 4)):
        report({"score": config["x"] * (i + 1), "nest": {"v": i}})


def fit_with(path, space, num_samples=1, **settings):
    return fit(train, space, num_samples=num_samples, seed=1, storage_path=path, **settings)


class Telling:
    """Notes its calls, with trials by number."""

    def __init__(self):
        self.told = []

    def note(self, what, trial, *more):
        trial_id = trial if isinstance(trial, str) else trial.trial_id
        self.told.append((what, int(trial_id[-2:]), *more))

    def of(self, what):
        return [more for name, *more in self.told if name == what]


# -- schedulers -----------------------------------------------------------------------------------------------------


class CutInHalf(Telling, TrialScheduler):
    """Pauses all trials at their second result, stops the worse half and changes the configurations of the others."""

    def __init__(self):
        super().__init__()
        self.is_cut = False

    def on_trial_add(self, tune_controller, trial):
        self.note("add", trial, trial.status)
        assert tune_controller.search_alg.total_samples == 4

    def on_trial_result(self, tune_controller, trial, result):
        self.note("result", trial, result["training_iteration"], trial.config["x"])
        if result["training_iteration"] != 2 or self.is_cut:
            return TrialScheduler.CONTINUE
        paused = [t for t in tune_controller.get_live_trials() if t is not trial and t.status == Trial.PAUSED]
        if len(paused) + 1 == len(tune_controller.get_trials()):
            self.is_cut = True
            paused.sort(key=lambda t: t.last_result["score"])
            for worse in paused[:2]:
                tune_controller.stop_trial(worse)
            for better in paused[2:]:
                better.set_config({**better.config, "x": better.config["x"] * 10})
                better.set_experiment_tag(better.experiment_tag + "@perturbed")
        return TrialScheduler.PAUSE

    def on_trial_complete(self, tune_controller, trial, result):
        self.note("complete", trial, trial.status, result["training_iteration"], result["done"])

    def on_trial_remove(self, tune_controller, trial):
        self.note("remove", trial, trial.status)

    def choose_trial_to_run(self, tune_controller):
        wanted = [Trial.PENDING, Trial.PAUSED] if self.is_cut else [Trial.PENDING]
        return next((t for status in wanted for t in tune_controller.get_trials() if t.status == status), None)

    def debug_string(self):
        return "half of them"


def test_a_scheduler_that_pauses_stops_and_changes_others(tmp_path):
    scheduler = CutInHalf()
    grid = fit_with(tmp_path, {"x": grid_search([1, 2, 3, 4])}, scheduler=scheduler)
    assert scheduler.of("add") == [[n, "PENDING"] for n in range(4)]
    assert scheduler.of("remove") == [[0, "PAUSED"], [1, "PAUSED"]]
    # a function without checkpoints continues from its beginning
    assert [config for number, _, config in scheduler.of("result") if number == 2][-1] == 30
    assert {tuple(one) for one in scheduler.of("complete")} == {(2, "RUNNING", 4, True), (3, "RUNNING", 4, True)}
    assert [result.config["x"] for result in grid] == [1, 2, 30, 4]
    assert not grid.errors


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
