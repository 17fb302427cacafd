"""Errors that Ray Tune raises under another class than the one that fits: a script may catch either.

Others are in bad_values.txt, under the name of the class `InvalidArgumentError`.
"""

import os

import pytest

from minitune import Experiment, RunConfig, TuneConfig, TuneError, Tuner
from minitune.schedulers import PB2, PopulationBasedTraining
from minitune.trainable.registry import get_trainable_cls


def score(config):
    """A trainable."""
    return {"x": 1}


def restore_under_another_name():
    grid = Tuner(score, tune_config=TuneConfig(executor="inline"), run_config=RunConfig(verbose=0)).fit()
    Tuner.restore(grid.experiment_path, "nowhere registered")


BOTH = {
    "a restored run of an unknown name": restore_under_another_name,
    "a registered class of an unknown name": lambda: get_trainable_cls("nowhere registered"),
    "a population without hyperparameters": lambda: PopulationBasedTraining(metric="x", mode="max"),
    "PB2 without bounds": lambda: PB2(metric="x", mode="max"),
    "a grid of a number, in a space": lambda: Tuner(score, param_space={"x": {"grid_search": 5}}).fit(),
}


@pytest.mark.parametrize("name", BOTH)
def test_the_error_is_a_tune_error_and_a_value_error(name):
    with pytest.raises(TuneError) as caught:
        BOTH[name]()
    assert isinstance(caught.value, ValueError)


def test_an_object_with_to_dict_is_a_space_of_a_tuner_but_not_of_an_experiment():
    """As in Ray Tune; `run` takes one, too."""

    class Space:
        def to_dict(self):
            return {"x": 1}

    assert Tuner(score, param_space=Space())._plan.experiment.param_space == {"x": 1}
    for wrong in (object(), Space):
        with pytest.raises(ValueError, match="param_space must be a dict, or an object with to_dict"):
            Tuner(score, param_space=wrong)
    with pytest.raises(ValueError, match=r"config must be a dict, but got .*; give each parameter"):
        Experiment("e", score, config=Space())
    assert not os.path.exists(os.environ["MINITUNE_STORAGE_PATH"])
