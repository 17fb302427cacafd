"""The benchmarks run, check what they measure, and say what they show. How fast anything is, is not asked here."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HAS_PROGRAMS = True  # see `time_limit`

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
WORKLOADS = ["fresh", "reused", "checkpoints", "population", "growth", "idle"]
"""One of each kind that needs no other package; those left out differ from these in sizes and settings."""
PEERS = {"pool": "reused", "forkserver": "fresh", "fork": "fresh", "copytree": "checkpoints"}
"""What Python has, and the workload that it can do."""

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are measured by /proc")


def run(script, *arguments, bound_s, prelude=""):
    """A benchmark's command; `prelude` is Python that runs before it."""
    start = f"import runpy, sys; sys.path[0] = {str(BENCHMARKS)!r}; sys.argv[0] = {script!r}; {prelude}\n"
    code = f"{start}runpy.run_path({str(BENCHMARKS / script)!r}, run_name='__main__')"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=bound_s,
    )


def test_workloads_run_and_their_records_equal_their_reports(tmp_path, bound_s):
    document_path = tmp_path / "figures.json"

    done = run(
        "compare.py",
        *("--quick", "--engines", "minitune", *PEERS, "--json", str(document_path)),
        *("--only", *WORKLOADS),
        bound_s=bound_s(120),
    )

    assert done.returncode == 0, done.stderr + done.stdout
    document = json.loads(document_path.read_text(encoding="utf-8"))
    runs = [(each["workload"], each["engine"]) for each in document["runs"]]
    assert sorted(runs) == sorted([*((name, "minitune") for name in WORKLOADS), *((w, e) for e, w in PEERS.items())])
    for row in document["figures"]:
        assert len(row["engines"]["minitune"]["values"]) == document["rounds"] == 1
        assert f"| {row['title']} | " in done.stdout
    against = {name: ratio for row in document["figures"] for name, ratio in row["ratios"].items()}
    assert against.keys() == PEERS.keys()
    assert all(ratio["times"] > 0 for ratio in against.values())
    assert {kind for each in document["runs"] for kind in each["seen"]["cpu_s"]} == {"driver", "helpers", "workers"}


def test_each_wait_is_shown_beside_its_limit(bound_s):
    done = run("waiting.py", "--trials", "40", "--rounds", "1", "--million", bound_s=bound_s(120))

    rows = dict(re.findall(r"^(\S.*?)  +(\d.*)$", done.stdout, flags=re.MULTILINE))
    assert len(rows) == 15, done.stderr + done.stdout
    assert all(" s CPU (limit " in row for row in rows.values())
    assert "MB file (limit " in rows["report"]
    assert "EXCEEDED" not in rows["resume, a million"], "it continues the run to its end, so it takes a moment"


def test_requirements_pin_the_versions_that_the_tables_name():
    requirements = (BENCHMARKS / "requirements.txt").read_text(encoding="utf-8")
    pinned = dict(re.findall(r"^(\w+)(?:\[\w+\])?==(\d+\.\d+)", requirements, flags=re.MULTILINE))
    named = {"ray": "Ray Tune", "optuna": "Optuna", "joblib": "joblib"}
    assert set(pinned) == set(named)
    tables = (BENCHMARKS.parent / "minitune" / "docs" / "performance.md").read_text(encoding="utf-8")
    for name, version in pinned.items():
        assert f"{named[name]} {version}" in tables


def test_counts_are_shown_beside_the_functions_that_are_called_most(bound_s):
    done = run("counts.py", "--only", "report", "--list", "3", bound_s=bound_s(60))

    assert done.returncode == 0, done.stderr
    assert re.search(r"^\| a report \| \d", done.stdout, flags=re.MULTILINE)
    assert len(re.findall(r"^report +\d", done.stdout, flags=re.MULTILINE)) == 6


def test_a_profile_names_the_drivers_functions_and_the_processes(tmp_path, bound_s):
    done = run(
        "profile_run.py",
        *("reports", "--quick", "--sort", "cumulative", "--lines", "300", "--save", str(tmp_path / "profile")),
        *("--directory", str(tmp_path / "runs"), "--clean"),
        bound_s=bound_s(60),
    )

    assert done.returncode == 0, done.stderr
    assert "CPU of workers" in done.stdout
    assert "tune_controller.py" in done.stdout
    assert (tmp_path / "profile").stat().st_size > 0
    assert not (tmp_path / "runs").exists()


def test_without_matplotlib_the_plot_names_the_command_that_installs_it(tmp_path, bound_s):
    hidden = "import importlib.util; importlib.util.find_spec = lambda name: None"

    done = run("growth.py", "--output", str(tmp_path / "growth.png"), bound_s=bound_s(60), prelude=hidden)

    assert done.returncode == 2
    assert "pip install matplotlib" in done.stderr


def test_large_checkpoints_are_reported_in_three_ways(tmp_path, bound_s):
    places = [path for path in (Path("/dev/shm"), Path("/var/tmp")) if os.access(path, os.W_OK)]
    others = [path for path in places if path.stat().st_dev != tmp_path.stat().st_dev]
    if not others:
        pytest.skip("there is only one file system")
    options = ("--megabytes", "1", "--rounds", "1", "--storage", str(tmp_path))
    done = run("large_checkpoints.py", *options, "--other", str(others[0]), bound_s=bound_s(60))
    assert done.returncode == 0, done.stderr
    assert "1 MB, 1 rounds of 3 reports" in done.stdout
    assert len(re.findall(r"report +[0-9.]+ s \([0-9.]+ to [0-9.]+\), write", done.stdout)) == 3
    assert list(tmp_path.iterdir()) == []
    done = run("large_checkpoints.py", *options, "--other", str(tmp_path), bound_s=bound_s(60))
    assert done.returncode == 2
    assert "are one file system" in done.stderr


def test_searchers_are_compared(tmp_path, bound_s):
    document_path, runs_path = tmp_path / "figures.json", tmp_path / "runs.jsonl"

    done = run(
        "search_functions.py",
        *("--quick", "--searchers", "random", "TPE of another commit", "--json", str(document_path)),
        *("--other", str(BENCHMARKS.parent), "--runs", str(runs_path)),
        prelude="sys.modules['cocoex'] = None",
        bound_s=bound_s(60),
    )

    assert done.returncode == 0, done.stderr
    document = json.loads(document_path.read_text(encoding="utf-8"))
    parts = {"functions", "parallel", "large", "many", "digits", "cost", "import", "objectives", "crashes", "transfer"}
    assert set(document) == {"seeds", "trials", "searchers", *parts}
    assert all(len(values) == 2 for values in document["functions"]["branin"].values())
    for name in ("functions", "parallel"):  # the other checkout is this one
        for values in document[name].values():
            assert values["TPE of another commit"] == values["minitune TPE"] != values["random"]
    assert len(runs_path.read_text(encoding="utf-8").splitlines()) == 3 * 2 * (6 + 6 + 6 + 9)
    assert "| minitune TPE | " in done.stdout


def test_a_worse_function_is_named_unless_many_are_compared(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    worse_on = importlib.import_module("search_functions").worse_on
    level, clear, doubtful = [1.0] * 8, ([2.0] * 8, [1.0] * 8), ([2.0] * 6 + [1.0] * 2, [1.0] * 6 + [1.5] * 2)

    alone = worse_on({"f": doubtful})
    among_many = worse_on({"f": doubtful, "g": clear, **{f"h{number}": (level, level) for number in range(20)}})

    assert alone == ["f"]
    assert among_many == ["g"]
    assert worse_on({"g": clear[::-1], "h": (level, level)}) == []


def test_each_finding_that_a_constant_names_has_a_row():
    rows = (BENCHMARKS / "FINDINGS.md").read_text(encoding="utf-8").lower()
    named = {
        name
        for path in (BENCHMARKS.parent / "minitune").rglob("*.py")
        for name in re.findall(r"FINDINGS\.md`[^*\"]{1,4}\*([^*]+)\*", path.read_text(encoding="utf-8"))
    }
    assert {"chunks", "overtaken", "16 at a time"} <= named
    assert {name for name in named if name.lower() not in rows} == set()
