"""The benchmarks run and say what they show. How fast anything is, is not asked here."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

HAS_PROGRAMS = True  # see `time_limit`

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"

SHOWN = {
    "compare.py --quick --engines minitune pool --only reused checkpoints population --json {out}": [
        r"^\| short trials, workers reused \| \S+ trials/s \| \S+ trials/s \| \S+ x \| ",
        r"^\| reports with a checkpoint of 1 MB \| ",
        r"^\| population \| minitune \| ",
    ],
    "waiting.py --trials 40 --rounds 1 --million": [
        r"^resume, a million +\d(?!.*EXCEEDED).* s CPU \(limit ",  # it continues the run to its end
        r"^report +\d.*MB file \(limit ",
    ],
    "counts.py --only report --list 3": [r"^\| a report \| \d", r"^report +\d"],
    "profile_run.py reports --quick --sort cumulative --lines 300 --directory {tmp}/own --clean": [
        "CPU of workers",
        r"tune_controller\.py",
    ],
    "search_functions.py --quick --searchers random --json {out}": [r"^\| minitune TPE \| "],
    "large_checkpoints.py --megabytes 1 --rounds 1 --storage {tmp} --other /var/tmp": [
        "1 MB, 1 rounds of 3 reports",
        r"report +[0-9.]+ s \([0-9.]+ to [0-9.]+\), write",
    ],
}
"""Commands of each script, in the smallest size, and what stands in their output."""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are measured by /proc")
@pytest.mark.parametrize("command", SHOWN, ids=lambda command: command.partition(".")[0])
def test_a_benchmark_runs_and_shows_its_figures(command, tmp_path, bound_s):
    out = tmp_path / "figures.json"
    runs = tmp_path / "runs"
    runs.mkdir()
    if "/var/tmp" in command and Path("/var/tmp").stat().st_dev == runs.stat().st_dev:
        pytest.skip("there is only one file system")
    script, *arguments = command.format(out=out, tmp=runs).split()
    done = subprocess.run(
        [sys.executable, BENCHMARKS / script, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=bound_s(120),
    )
    assert done.returncode == 0 or script == "waiting.py", done.stderr + done.stdout  # 1: a limit is exceeded
    for shown in SHOWN[command]:
        assert re.search(shown, done.stdout, flags=re.MULTILINE), f"{shown} is missing in\n{done.stdout}{done.stderr}"
    if "{out}" in command:
        assert json.loads(out.read_text(encoding="utf-8"))
    assert list(runs.iterdir()) == []


def test_requirements_pin_the_versions_that_the_tables_name():
    requirements = (BENCHMARKS / "requirements.txt").read_text(encoding="utf-8")
    pinned = dict(re.findall(r"^(\w+)(?:\[\w+\])?==(\d+\.\d+)", requirements, flags=re.MULTILINE))
    named = {"ray": "Ray Tune", "optuna": "Optuna", "joblib": "joblib"}
    assert set(pinned) == set(named)
    tables = (BENCHMARKS.parent / "minitune" / "docs" / "performance.md").read_text(encoding="utf-8")
    for name, version in pinned.items():
        assert f"{named[name]} {version}" in tables


def test_each_finding_that_a_constant_names_has_a_row():
    rows = (BENCHMARKS / "FINDINGS.md").read_text(encoding="utf-8").lower()
    named = {
        name
        for path in (BENCHMARKS.parent / "minitune").rglob("*.py")
        for name in re.findall(r"FINDINGS\.md`[^*\"]{1,4}\*([^*]+)\*", path.read_text(encoding="utf-8"))
    }
    assert {"chunks", "overtaken", "16 at a time"} <= named
    assert {name for name in named if name.lower() not in rows} == set()
