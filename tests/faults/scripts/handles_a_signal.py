"""A run that a signal ends, for which the user has a handler."""

import os
import signal
import sys

from script_kit import fit, hurry, slow

hurry()

STORAGE = os.environ["MINITUNE_STORAGE_PATH"]


def handler(number, frame):
    closed = b'"type":"close"' in open(os.path.join(STORAGE, "run", "journal"), "rb").read()
    print("mine", signal.Signals(number).name, closed, flush=True)


number = signal.Signals[sys.argv[1]]
signal.signal(number, handler)
results = fit(slow, (0, 1))
assert signal.getsignal(number) is handler
print(results.interrupted, len(results), results.num_errors, min(r.metrics["i"] for r in results) > 0)
