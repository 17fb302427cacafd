"""A driver without a process above it that reaps orphans."""

import os
import signal
import subprocess

from script_kit import fit, hurry

from minitune import report

hurry()


def trainable(config):
    subprocess.Popen(["sh", "-c", "sleep 600 & sleep 600"], start_new_session=True)
    if config["x"] == 1:
        report({"x": 0})
        os.kill(os.getpid(), signal.SIGKILL)
    return {"x": config["x"]}


results = fit(trainable, (0, 1, 2))
print(os.getpid(), [r.metrics["x"] for r in results], results.num_errors)
states = {}
for name in filter(str.isdigit, os.listdir("/proc")):
    with open(f"/proc/{name}/stat") as file:
        states[int(name)] = file.read().rpartition(")")[2].split()[0]
if os.environ.get("MINITUNE_START_METHOD") == "interpreter":  # then orphans fall to the driver, dead
    states = {pid: state for pid, state in states.items() if state != "Z"}
print(sorted(states))
