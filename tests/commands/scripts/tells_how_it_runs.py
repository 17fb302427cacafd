"""A script that tells how it runs."""

import sys

import beside


def train(lr: int = 0):
    return found


found = __name__, __file__, sys.argv, sys.path[0], beside.value, train.__annotations__
