"""Trials that write down each report when it has returned. With a second argument, the run goes on."""

import os
import sys
import tempfile

from script_kit import fit, hurry

from minitune import Checkpoint, Tuner, get_checkpoint, report

hurry()

STORAGE = os.environ["MINITUNE_STORAGE_PATH"]


def slow(config):
    checkpoint = get_checkpoint()
    start = int(open(os.path.join(checkpoint.path, "i")).read()) if checkpoint else 0
    for i in range(start + 1, 101):
        with tempfile.TemporaryDirectory(dir=".") as directory:
            open(os.path.join(directory, "i"), "w").write(str(i))
            report({"i": i}, checkpoint=Checkpoint.from_directory(directory) if i % 5 == 0 else None)
        with open(sys.argv[1], "a") as file:
            file.write(f"{config['x']} {i}\n")


if len(sys.argv) == 2:
    fit(slow, (0, 1))
else:
    results = Tuner.restore(os.path.join(STORAGE, "run"), slow).fit()
    print([r.metrics["i"] == r.metrics["training_iteration"] == 100 for r in results], results.num_errors)
