"""Trainables that import `slow` before they do anything else."""

from fit_each import fit_each

import minitune as tune


def trainable(config):
    """Begins with imports."""
    import json  # noqa: F401
    import os.path as path  # noqa: F401

    import slow  # noqa: F401
    from slow import VALUE

    tune.report({"x": VALUE})


def generator(config):
    from slow import VALUE

    yield {"x": VALUE}


class Stepwise(tune.Trainable):
    def setup(self, config):
        import slow

        self.value = slow.VALUE

    def step(self):
        return {"x": self.value, "done": True}


if __name__ == "__main__":
    fit_each(globals())
