"""Trainables that do something else before they import `slow`."""

import sys

from fit_each import fit_each

import minitune as tune


def after_the_users_own(config):
    import own  # noqa: F401
    import slow

    tune.report({"x": slow.VALUE})


class Base(tune.Trainable):
    def setup(self, config):
        assert "slow" not in sys.modules, "imported before"


class InAStep(Base):
    def step(self):
        import slow

        return {"x": slow.VALUE, "done": True}


def within(config):
    if config["i"]:
        import slow

        tune.report({"x": slow.VALUE})


if __name__ == "__main__":
    fit_each(globals())
