"""A run that SIGUSR1 ends, for which the user has a handler."""

import signal

from script_kit import fit, hurry, slow

hurry()

signal.signal(signal.SIGUSR1, handler := lambda number, frame: print("mine", flush=True))
results = fit(slow, (0, 1))
assert signal.getsignal(signal.SIGUSR1) is handler
print(results.interrupted, len(results), results.num_errors, min(r.metrics["i"] for r in results) > 0)
