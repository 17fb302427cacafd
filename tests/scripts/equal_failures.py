"""Three trials that fail with equal errors."""

from minitune import Tuner, grid_search


def helper(x):
    raise ValueError(f"no good: {x}")


def trainable(config):
    helper(config["x"])


results = Tuner(trainable, param_space={"x": grid_search([1, 1, 1])}).fit()
error = results.errors[0].__cause__
assert isinstance(error, ValueError), type(error).__mro__
assert error.args == ("no good: 1",)
