"""Trials that report every 10 ms, and may take 2 s for it."""

import time

from script_kit import fit, hurry

from minitune import report

hurry()


def trainable(config):
    for i in range(1, 31):
        report({"i": i})
        time.sleep(0.01)


results = fit(trainable, (0, 1), report_timeout_s=2)
print([r.metrics["i"] for r in results], [r.error for r in results])
