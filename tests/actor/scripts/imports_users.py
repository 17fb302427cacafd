"""Fits trainables of another module."""

from fit_each import fit_each
from users import Stepwise, train  # noqa: F401

if __name__ == "__main__":
    fit_each(globals())
