"""A function that reaches a lock by way of a class of its script."""

import threading

from minitune.base.pickling import dumps

LOCK = threading.Lock()


class Net:
    def step(self):
        return LOCK


def helper():
    return Net()


def train(config):
    return helper()


try:
    dumps(train, "the trainable")
except TypeError as error:
    print(error)
