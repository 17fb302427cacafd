"""A trial that prints 200 MB, and a driver that looks how much memory it has come to use."""

import resource
import sys

from script_kit import fit, hurry

hurry()


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def trainable(config):
    line = "x" * 99_999 + "\n"
    for _ in range(2_000):
        sys.stdout.write(line)
    return {"y": 1}


before = peak()
[result] = fit(trainable, log_to_file=True)
print(result.error, peak() - before < 60_000)
