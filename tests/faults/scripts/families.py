"""Trials that start processes of all kinds, and end in all ways. The next trial looks whether these are dead."""

import json
import os
import signal
import subprocess
import sys
import time

from script_kit import fit, hurry

from minitune import report

hurry()


def start_all():
    children = [
        subprocess.Popen(["sleep", "600"]),
        subprocess.Popen(["sleep", "600"], start_new_session=True, close_fds=False),
        subprocess.Popen(["sh", "-c", "trap '' TERM; sleep 600 & wait"]),
    ]
    children[0].send_signal(signal.SIGSTOP)
    subprocess.run(["setsid", "--fork", "sleep", "600"])  # what is between it and us is gone when this returns
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
    marker = f"MINITUNE_TRIAL={os.environ['MINITUNE_TRIAL']}".encode()
    pids = []
    while len(pids) < 7:  # five started, a shell's own child, ourselves
        pids = [pid for pid in os.listdir("/proc") if pid.isdigit() and carries(pid, marker)]
        time.sleep(0.01)
    return pids


def carries(pid, marker):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return marker in file.read()
    except OSError:
        return False


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def trainable(config):
    place = os.path.join(sys.argv[1], "family")
    pids = open(place).read().split() if os.path.exists(place) else []
    alive = list(filter(is_alive, pids))
    family = [] if config["x"] == "looks" else start_all()
    with open(place, "w") as file:
        file.write(" ".join(family))
    report({"looked_at": len(pids), "alive": alive})
    if config["x"] == "raises":
        raise ValueError("on purpose")
    if config["x"] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if config["x"] == "late":
        time.sleep(600)
    if config["x"] == "stopped":
        report({"looked_at": len(pids), "alive": alive, "stop": 1})
        time.sleep(600)


order = ["returns", "raises", "killed", "late", "stopped", "looks"]
results = fit(trainable, order, stop={"stop": 1}, report_timeout_s=4, max_concurrent_trials=1)
print(json.dumps([[r.metrics["looked_at"], r.metrics["alive"], r.error is None] for r in results]))
