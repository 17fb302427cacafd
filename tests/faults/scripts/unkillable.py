"""A run whose driver cannot kill its workers."""

import json
import os
import time

from script_kit import fit, hurry

from minitune import report, with_resources
from minitune.actor import process_tree as tree
from minitune.actor import remote_actor

hurry()

tree.KILL_CONFIRM_S = remote_actor.TERM_TO_KILL_S = 0.2
tree.send_signal = lambda pid, number: True
tree.kill_group = lambda pid, number=9: True


def trainable(config):
    report({"pid": os.getpid()})
    while config["x"] == 1:
        time.sleep(0.01)


trainable = with_resources(trainable, lambda config: {"cpu": config["x"]})
results = fit(trainable, [1, 0.5, 0.75, 2], report_timeout_s=2, max_concurrent_trials=1)
print(json.dumps([str(r.error) for r in results] + [results[0].metrics["pid"]]))
