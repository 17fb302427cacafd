"""Writes two trainables with bound parameters to a file."""

import pathlib
import sys

from minitune.base import pickling
from minitune.trainable import Trainable, with_parameters, with_resources


class T(Trainable):
    def setup(self, config, k):
        self.k = k

    def step(self):
        return {"k": self.k}


def f(config, k):
    return {"k": k}


both = [with_resources(with_parameters(t, k=3), {"cpu": 1}) for t in (T, f)]
pathlib.Path(sys.argv[1]).write_bytes(pickling.dumps(both, "both"))
