"""A run that is made by hand, as the page gets it."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

LOG = {"kind": "log", "low": 0.001, "high": 10}
TRIAL = {
    "name": "train_t0000",
    "status": "finished",
    "ended": "finished",
    "why": "",
    "error": "",
    "params": {},
    "metrics": {},
    "curve": [],
    "bests": {},
    "courses": {"at": None, "seconds": [], "values": {}},
    "steps": None,
    "total_s": 0.0,
    "reported_s": None,
    "copies": [],
    "facts": {},
}
RUNNING = {"status": "running", "ended": "running"}
RUN = {
    "name": "made",
    "path": "/runs/made",
    "trainable": "train",
    "state": "finished",
    "state_text": "finished",
    "is_live": False,
    "rest_s": None,
    "total": None,
    "best_config": None,
    "errors": [],
    "resume": None,
    "metric": "loss",
    "mode": "min",
    "objectives": {},
    "metrics": [],
    "scales": {},
    "seed": 7,
    "begun_s": 1_000_000_000.0,
    "worked_s": 100.0,
    "best": None,
    "importances": {},
}


def run_of(trials: list[dict[str, Any]], **facts: Any) -> dict[str, Any]:
    """A run as the page gets it; a trial's number is its position."""
    whole = []
    for number, trial in enumerate(trials):
        known = copy.deepcopy(trial)
        whole.append({**TRIAL, "number": number, "value": [None, *trial.get("curve", ())][-1], **known})
    params = list(dict.fromkeys(name for trial in whole for name in trial["params"]))
    counts = Counter(trial["status"] for trial in whole)
    known = [trial for trial in whole if isinstance(trial["value"], (int, float))]
    ranked = sorted(known, key=lambda trial: trial["value"], reverse=facts.get("mode") == "max")
    order = [trial["number"] for trial in ranked]
    return {**RUN, "params": params, "trials": whole, "counts": counts, "order": order, **facts}
