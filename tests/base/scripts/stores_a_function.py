"""Stores a function that needs a class and a function of its script."""

import sys

from minitune.base.shared_values import store


class Net:
    x = 5


def helper():
    return Net()


def train(config):
    import pickle

    return pickle.loads(pickle.dumps(helper())).x, pickle.loads(pickle.dumps(helper)) is helper


store(train, sys.argv[1], "train")
