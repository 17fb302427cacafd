"""Scripts as users of Ray Tune write them: only their import lines change, and they say what they said under Ray Tune.

`outcomes/` holds what each script in `scripts/` said there; `record.py` makes it anew. The scripts `old_...` are of Ray
0.2 to 1.13. Ray 2.60 refuses them, and `outcomes/` says by which error. What they say here follows from the manuals of
their time, and stands in `OLD`.
"""

from __future__ import annotations

import json
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import ANY as ANYTHING

import pytest
from kit import STREAMS, scaled_s, variables_of_scripts
from ported_scripts import NAMES, OUTCOMES, SCRIPTS, environment, outcome, ported, said
from script_server import ForkedScript, ScriptServer

_BOUND_S = scaled_s(60)

# These run in processes as users' scripts do. The others run inline, where the same is decided five times as fast.
IN_PROCESSES = {
    *("checkpoints", "class_retry", "context", "errors", "function_report", "names", "pbt_function", "pipeline"),
    *("put_get", "reuse_actors", "with_parameters"),
}

# What a script says otherwise here, on purpose: where in its outcome, and what is said here.
DEPARTURES: dict[str, dict[tuple[str | int, ...], Any]] = {
    # what is shown to people has words of its own
    "domains": {("strings", 0): "(0.0, 1.0)"},
    # a dict can still be a checkpoint, and a checkpoint is a path, as in earlier versions
    "checkpoints": {("dict",): ANYTHING, ("fspath",): ANYTHING},
    # the configuration of a result is what the trial was given, whatever the trainable has made of its copy
    "class_details": {("configs",): [["deep", "lr"]] * 2},
    # bundles are what was given, an empty first one included
    "resources": {("empty_head", 1): [{}, {"CPU": 1}]},
    # a FileNotFoundError, and a TuneError as well
    "restart_errored": {("wrong", "nowhere"): "RunNotFoundError"},
    # the last checkpoint is the latest also where it is not among the best
    "run_arguments": {("last_checkpoint",): "checkpoint_000005"},
    # several experiments in one run lie in one directory
    "run_experiments": {("directories",): ["five", "four", "one", "six", "three"]},
    # a word that means nothing is refused, also where there is nothing to resume
    "run_resume": {("NONSENSE",): "ValueError"},
    # how far a class had come stands with its checkpoint, so it is known from a path too
    "standalone": {("restored", 1): 3},
    # trials that were ended before they ever started do not count as terminated
    "custom_scheduler": {("terminated",): 2},
    "time_budget": {("terminated", 1): False},
}


OLD: dict[str, Any] = {
    "old_checkpoint_dir": {
        "config": {"lr": 2.0, "layers": 2},
        "loss": 0.125,
        "data": "data",
        "iterations": [4, 4, 4],
        "saved": [4, 8.0],
        "kept_below": ".",
        "same": True,
    },
    "old_class": {
        "best": {"width": 30},
        "best_is_second": True,
        "stopped": [True] * 3,
        "iterations": [4, 4, 4],
        "checkpoint": True,
        "again": [180, True],
    },
    "old_reporter": {
        "accuracies": [1.0] * 4,
        "timesteps": [4, 2, 4, 2],
        "alphas": [0.25, 0.5, 0.25, 0.5],
        "momentum": [0.9],
        "statuses": ["TERMINATED"],
        "halved": [3],
    },
    "old_suggest": {
        "xs": [4.0, 2.0, 1.0],
        "heard": [2.0, 0.0, -1.0],
        "lines": ["1.0 3", "2.0 3", "4.0 3"],
        "kinds": True,
        "ended": [True] * 3,
        "files": ["progress.csv", "result.json"],
        "best": {"x": 0.125},
    },
    "old_track": {
        "best": {"lr": 0.1, "threads": 2},
        "logdir": True,
        "accuracies": [0.04, 0.4, 0.04, 0.4],
        "iterations": [4] * 4,
        "lrs": [0.01, 0.01, 0.1, 0.1],
    },
}


def say(name: str, directory: Path, server: ScriptServer | None, how: str = "file") -> Any:
    """What a ported script says."""
    script = directory / f"{name}.py"
    script.write_text(ported((SCRIPTS / f"{name}.py").read_text()))
    executor = "local" if name in IN_PROCESSES else "inline"
    env = variables_of_scripts(**{**environment(directory), "PYTHONWARNINGS": None, "MINITUNE_EXECUTOR": executor})
    if server is None or how != "file":
        return outcome(script, env, _BOUND_S, how)
    with ForkedScript([str(script)], server=server, env=env, cwd=directory, **STREAMS) as process:
        stdout, stderr = process.communicate(timeout=_BOUND_S)
        return said(script.name, process.returncode, stdout, stderr)


def expected(name: str) -> Any:
    """What the script said under Ray Tune, but for the departures; of a script that Ray 2.60 refuses, see `OLD`."""
    said = json.loads((OUTCOMES / f"{name}.json").read_text())
    if name in OLD:
        assert said.keys() == {"refused"}, "Ray runs it: what it says there is to be expected"
        return OLD[name]
    for (*way, last), value in DEPARTURES.get(name, {}).items():
        place = said
        for key in way:
            place = place[key]
        place[last] = value
    return said


@pytest.fixture(scope="module")
def saying(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, script_server: ScriptServer | None
) -> dict[tuple[str, str], Future[Any]]:
    """What all selected scripts say. A script waits half of its time, so four go side by side."""
    selected = [
        item.callspec.params
        for item in request.session.items
        if item.path == request.path and hasattr(item, "callspec")
    ]
    with ThreadPoolExecutor(4) as pool:
        return {
            (one["name"], one["how"]): pool.submit(
                say, one["name"], tmp_path_factory.mktemp(one["name"]), script_server, one["how"]
            )
            for one in selected
        }


@pytest.mark.parametrize(
    ("name", "how"),
    [
        *((name, "file") for name in NAMES),
        ("function_report", "stdin"),
        ("class_retry", "cells"),
    ],
)
def test_a_script_has_the_outcome_that_it_has_under_ray_tune(
    name: str, how: str, saying: dict[tuple[str, str], Future[Any]]
) -> None:
    assert saying[name, how].result() == expected(name)


def test_nothing_but_import_lines_change() -> None:
    source = (
        "import ray\nimport ray.tune as t  # x\nfrom ray import tune\n    from ray.tune import Tuner\n"
        "import raymond\nray.init()\n"
    )
    assert ported(source) == (
        "import minitune as ray\nimport minitune.tune as t  # x\nfrom minitune import tune\n"
        "    from minitune.tune import Tuner\nimport raymond\nray.init()\n"
    )
