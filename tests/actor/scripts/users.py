"""Trainables whose module imports `slow`."""

import os

import slow

import minitune as tune


def train(config):
    tune.report({"x": slow.VALUE, "pid": os.getpid()})


class Stepwise(tune.Trainable):
    def step(self):
        return {"x": slow.VALUE, "pid": os.getpid(), "done": True}


if __name__ == "__main__":
    from fit_each import fit_each

    fit_each(globals())
