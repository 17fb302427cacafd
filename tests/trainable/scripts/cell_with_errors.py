"""Trainables of a cell of a notebook, which raise errors."""

from minitune import RunConfig, Trainable, Tuner


class Model(Trainable):
    def setup(self, config):
        raise KeyError("set up")  # the line of the class


def helper(config):
    raise ValueError("no")  # the line of the helper


def train(config):
    try:
        helper(config)  # the line of the function
    except ValueError as error:
        raise OSError("no more") from error


for trainable in (train, Model):
    (result,) = Tuner(trainable, run_config=RunConfig(verbose=0)).fit()
    print(result.error)
    print(open(f"{result.path}/error.txt").read())
