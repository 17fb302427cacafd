"""Stores a function. The objects of the main module stay what they were."""

import sys

from minitune.base.shared_values import Ref, store


class Net:
    pass


def train(config):
    return Net


store(train, sys.argv[1], "train")
assert Ref(sys.argv[1]).get() is not train
import __main__

assert __main__.train is train and __main__.Net is Net
