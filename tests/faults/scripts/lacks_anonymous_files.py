"""A run where the system makes no anonymous files."""

import os

from script_kit import fit, hurry

hurry()


def refuse(*args, **kwargs):
    raise OSError(38, "not here")


os.memfd_create = refuse


def trainable(config):
    return {"x": config["x"]}


print([r.metrics["x"] for r in fit(trainable, range(3))])
