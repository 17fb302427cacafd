"""How many Python calls the driver makes for each report, and for each trial: speed that no busy machine can hide.

Each count is the difference of two runs of different length, so start and end of a run take no part. Another run goes
before both, for the first run of a process does more. Calls into C, and calls of the standard library, are not counted.
The bounds leave 3 % of room, because the loop takes more turns on a busy machine.
"""

from __future__ import annotations

import json
import sys
from collections import Counter

import pytest
from kit import Script

PROBE = """
import collections, json, os, sys
import minitune as tune

kind, *counts = sys.argv[1], *map(int, sys.argv[2:])
root = os.path.dirname(tune.__file__)

def profile(frame, event, arg):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(root):
        calls[f"{code.co_filename[len(root) + 1:]}:{code.co_qualname}"] += 1

def reports(config):
    for number in range(n):
        tune.report({"loss": 1.0 / (number + 1)})

def one(config):
    tune.report({"loss": config["x"]})

for n in counts:
    calls = collections.Counter()
    is_report = kind == "report"
    tuner = tune.Tuner(
        reports if is_report else one,
        param_space={} if is_report else {"x": tune.uniform(0, 1)},
        tune_config=tune.TuneConfig(
            metric="loss",
            mode="min",
            num_samples=1 if is_report else n,
            max_concurrent_trials=1,
            reuse_actors=kind == "reused trial",
        ),
        run_config=tune.RunConfig(verbose=0),
    )
    sys.setprofile(profile)
    tuner.fit()
    sys.setprofile(None)
    print(json.dumps(calls))
"""


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="other Pythons call comprehensions in other ways")
@pytest.mark.skipif(sys.platform != "linux", reason="other systems start and reuse workers in other ways")
@pytest.mark.parametrize(
    ("kind", "few", "many", "most_calls", "most_modules"),
    [("report", 100, 300, 31, 17), ("reused trial", 30, 90, 290, 35), ("fresh trial", 20, 60, 450, 42)],
)
def test_the_driver_makes_few_calls(
    kind: str, few: int, many: int, most_calls: int, most_modules: int, script: Script
) -> None:
    printed = script.run(PROBE, kind, "5", str(few), str(many))

    _, first, second = (Counter(json.loads(line)) for line in printed.splitlines())
    each = {name: (count - first[name]) / (many - few) for name, count in second.items()}
    listed = "\n".join(f"{count:7.2f} {name}" for name, count in sorted(each.items()) if count >= 0.1)
    modules = {name.split(":")[0] for name, count in each.items() if count >= 0.5}
    assert sum(each.values()) <= most_calls, listed
    assert len(modules) <= most_modules, listed
