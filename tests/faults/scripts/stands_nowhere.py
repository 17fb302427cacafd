"""A driver whose working directory is gone."""

import os

from script_kit import fit, hurry, show

from minitune import report

hurry()


def trainable(config):
    report({"y": os.path.basename(os.path.dirname(os.getcwd()))})


os.mkdir("gone")
os.chdir("gone")
os.rmdir(os.path.join("..", "gone"))
show(fit(trainable, [1, 2, 3], reuse_actors=True))
