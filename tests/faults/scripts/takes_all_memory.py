"""A trial that takes memory until it is killed, in the control group that the first argument names."""

import os
import sys

from script_kit import fit, hurry

from minitune import report

hurry()


def trainable(config):
    with open("/proc/self/oom_score_adj") as file:
        report({"score": int(file.read())})
    with open(os.path.join(sys.argv[1], "cgroup.procs"), "w") as file:
        file.write(str(os.getpid()))
    taken = []
    while True:
        taken.append(b"x" * 10_000_000)


with open("/proc/self/oom_score_adj") as file:
    own = int(file.read())
[result] = fit(trainable, [0])
print(result.metrics["score"] == min(1000, own + 500), result.error)
