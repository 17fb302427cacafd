"""Trials that die once, under settings of the user's made in the script, in the trainable's module, or in a trial."""

import sys

if sys.argv[1] == "script":
    import settings  # noqa: F401

import os

from script_kit import fit, hurry, show

from minitune import Checkpoint, Tuner, get_checkpoint, report

hurry()

WHERE = sys.argv[1]
with open("settings.py") as file:
    SETTINGS = file.read()


def trainable(config):
    if WHERE == "module":
        import settings  # noqa: F401
    if WHERE == "trial":
        exec(SETTINGS, {})
    checkpoint = get_checkpoint()
    n = checkpoint.to_dict()["n"] if checkpoint else 0
    while n < 4:
        n += 1
        if n == 3 and not checkpoint:
            os._exit(3)
        report({"y": n, "long": 10**700, "text": "\u00e9"}, checkpoint=Checkpoint.from_dict({"n": n}))


show(fit(trainable, range(2), max_failures=1, reuse_actors=True))
print([r.metrics["long"] == 10**700 for r in Tuner.restore("results/run", trainable).get_results()])
