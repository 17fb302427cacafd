"""Errors that Ray Tune raises under another class than the one that fits: a script may catch either.

Others are in bad_values.txt, under the name of the class `InvalidArgumentError`.
"""

import pytest

from minitune import RunConfig, TuneConfig, TuneError, Tuner
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
