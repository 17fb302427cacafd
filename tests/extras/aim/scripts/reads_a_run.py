"""Prints Aim's data about a run as JSON."""

import json
import sys

import aim

run = aim.Run(run_hash=sys.argv[1], repo=sys.argv[2], system_tracking_interval=None, capture_terminal_logs=False)
values = {metric.name: sorted(metric.values.values_list()) for metric in run.metrics()}
found = {"experiment": run.experiment, "values": values, "hparams": run["hparams"]}
print(json.dumps({**found, "trial_id": run["trial_id"], "end": run["end"]}))
