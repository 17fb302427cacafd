"""Users' scripts for Ray Tune run here with changed import lines, and have the same outcome as under Ray Tune.

Each script in `scripts/` has a part of Ray's interface that the others lack, and prints its outcome as JSON.
`outcomes/` has the outcomes under Ray 2.60; `record.py` records them. The scripts `old_...` are for Ray 0.2 to 1.13.
Ray 2.60 refuses them, so `outcomes/` has the name of the error, and `OLD` has the expected outcome, which follows from
the manuals of their time.
"""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from kit import scaled_s, variables_of_scripts
from ported_scripts import NAMES, OUTCOMES, SCRIPTS, environment, outcome, ported, said_in

HAS_PROGRAMS = True  # see `time_limit`

_BOUND_S = scaled_s(60)

# These run trials in processes, as users do. The others run them inline, all in forks of one interpreter.
IN_PROCESSES = {
    *("checkpoints", "class_retry", "function_report", "pbt_function"),
}

# Intended differences: for each script, the path of a value in its outcome, and the value here.
DEPARTURES: dict[str, dict[tuple[str | int, ...], Any]] = {
    # no configuration is pickled
    "logger_callback": {("pickled",): [False, False]},
    # the last checkpoint is the latest one, even if it is not among the best
    "run_arguments": {("last_checkpoint",): "checkpoint_000005"},
    # an unknown word is an error, even if there is nothing to resume
    "run_resume": {("NONSENSE",): "ValueError"},
    # the words of states are those of all views
    "cli_reporter": {("status", "TERMINATED"): False, ("status", "2/2"): False},
    # trials that ended before their start do not count as terminated
    "custom_scheduler": {("terminated",): 2},
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
        "kinds": True,
        "ended": [True] * 3,
        "files": ["progress.csv", "result.json"],
        "best": {"x": 0.125},
    },
}


def prepare(name: str, directory: Path) -> tuple[Path, dict[str, str]]:
    """A ported script, and its environment variables."""
    script = directory / f"{name}.py"
    script.write_text(ported((SCRIPTS / f"{name}.py").read_text()))
    executor = "local" if name in IN_PROCESSES else "inline"
    return script, variables_of_scripts(
        **{**environment(directory), "PYTHONWARNINGS": None, "MINITUNE_EXECUTOR": executor}
    )


def say_in_turn(prepared: dict[str, tuple[Path, dict[str, str]]]) -> dict[str, Any]:
    """The outcomes of scripts, by name. One interpreter imports the package and forks for each of them."""
    listed = json.dumps([[str(script), env] for script, env in prepared.values()])
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("forks.py"))],
        input=listed,
        env=variables_of_scripts(MINITUNE_EXECUTOR="inline"),
        stdout=subprocess.PIPE,
        text=True,
        timeout=2 * _BOUND_S,
        check=True,
    )
    codes = json.loads(done.stdout)
    return {
        name: said_in(script, script.with_suffix(".out").read_text(), code)
        for (name, (script, _)), code in zip(prepared.items(), codes, strict=True)
    }


def expected(name: str) -> Any:
    """The expected outcome: that under Ray Tune, with the intended differences, or that in `OLD`."""
    said = json.loads((OUTCOMES / f"{name}.json").read_text())
    if name in OLD:
        assert said.keys() == {"refused"}, "Ray runs it, so its outcome there is the expected one"
        return OLD[name]
    for (*way, last), value in DEPARTURES.get(name, {}).items():
        place = said
        for key in way:
            place = place[key]
        place[last] = value
    return said


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Any]:
    """The outcomes of all selected scripts. Those in processes wait half of their time, so they run side by side."""
    selected = [
        (item.callspec.params["name"], item.callspec.params["how"])
        for item in request.session.items
        if item.path == request.path and hasattr(item, "callspec")
    ]
    prepared = {(name, how): prepare(name, tmp_path_factory.mktemp(name)) for name, how in selected}
    inline = {name: prepared[name, how] for name, how in selected if name not in IN_PROCESSES}
    with ThreadPoolExecutor(3) as pool:
        in_turn = pool.submit(say_in_turn, inline)
        others = {
            (name, how): pool.submit(outcome, *prepared[name, how], _BOUND_S, how)
            for name, how in selected
            if name in IN_PROCESSES
        }
    return {
        **{(name, "file"): said for name, said in in_turn.result().items()},
        **{key: future.result() for key, future in others.items()},
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
    name: str, how: str, outcomes: dict[tuple[str, str], Any]
) -> None:
    assert outcomes[name, how] == expected(name)


def test_nothing_but_import_lines_change() -> None:
    source = (
        "import ray\nimport ray.tune as t  # x\nfrom ray import tune\n    from ray.tune import Tuner\n"
        "import raymond\nray.init()\n"
    )
    assert ported(source) == (
        "import minitune.ray as ray\nimport minitune.tune as t  # x\nfrom minitune import tune\n"
        "    from minitune.tune import Tuner\nimport raymond\nray.init()\n"
    )
