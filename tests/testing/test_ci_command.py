"""`minitune ci`: the exit status, the bounds and what is printed."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit import is_gone, read_pids, wait_until

from minitune import cli

SCRIPTS = Path(__file__).with_name("scripts")

CHECKED = SCRIPTS / "checked.py"

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def ci(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs a script; returns the exit status and what was printed."""
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    )

    def run(script: str | Path, *options: str, arguments: tuple[str, ...] = ()) -> tuple[int, str]:
        file = tmp_path / "script.py"
        file.write_text(script if isinstance(script, str) else script.read_text())
        status = cli.main(["ci", *options, str(file), "--", *arguments])
        captured = capfd.readouterr()
        return status, captured.out + captured.err

    return run


def test_a_good_run_passes_within_its_bounds(ci: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "page.md"))
    options = ("--num-samples", "3", "--time-budget", "60", "--metric", "eval/accuracy", "--at-least", "0.5")
    status, told = ci(CHECKED, *options, arguments=("1", str(tmp_path)))
    assert status == 0, told
    assert "3 trials in" in told
    assert told.endswith("minitune ci passed: best eval/accuracy >= 0.5\n")
    page = (tmp_path / "page.md").read_text()
    assert page.count("###") == 1
    assert page.endswith("**minitune ci** passed: best eval/accuracy &gt;= 0.5\n\n")


def test_a_failed_trial_and_a_missed_target_fail(ci: Run, tmp_path: Path) -> None:
    options = ("--num-samples", "3", "--metric", "loss", "--at-most", "1e-6")
    status, told = ci(CHECKED, *options, arguments=("0", str(tmp_path)))
    assert status == 1
    assert "  failed: 3 x ValueError: too large\n" in told
    ending = "minitune ci failed: 3 of 3 trials failed; expected best loss <= 1e-06, got 0.025432\n"
    assert told.endswith(ending)


def test_an_unknown_metric_is_told_with_the_known_ones(ci: Run, tmp_path: Path) -> None:
    options = ("--num-samples", "1", "--metric", "acuracy", "--at-least", "0")
    status, told = ci(CHECKED, *options, arguments=("1", str(tmp_path)))
    assert status == 1
    hint = "as 'acuracy' (did you mean 'eval/accuracy'?); trials have reported numbers for: eval/accuracy, loss, "
    assert f"no trial has reported a finite number {hint}" in told


def test_trials_that_report_nothing_fail(ci: Run, tmp_path: Path) -> None:
    script = f"""
import minitune as tune

run = tune.RunConfig(storage_path={str(tmp_path)!r})
tune.Tuner(lambda config: None, tune_config=tune.TuneConfig(executor="inline"), run_config=run).fit()
"""
    status, told = ci(script)
    assert status == 1
    assert "1 without a result" in told
    assert told.count("hint: no trial has reported a result: call report({'loss': ...}) in the trainable") == 1
    assert told.endswith("minitune ci failed: no trial has reported anything\n")


@pytest.mark.parametrize(
    ("script", "status", "text"),
    [
        ("raise SystemExit(7)", 7, "ended with exit status 7; no run of minitune has finished"),
        ("print('hello')", 1, "no run of minitune has finished in "),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", 143, "ended with exit status 143"),
    ],
)
def test_a_script_that_fails_or_runs_nothing_fails(ci: Run, script: str, status: int, text: str) -> None:
    ended, told = ci(script)
    assert ended == status
    assert text in told


def test_a_script_that_does_not_end_is_killed(ci: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minitune.commands.health.OVERTIME_S", 0.2)
    status, told = ci("import threading; threading.Event().wait()", "--time-budget", "0.1")
    assert status == 1
    assert "did not end in time and was killed" in told


def test_children_of_a_killed_script_go_with_it(ci: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that do not listen, and have a session of their own."""
    monkeypatch.setattr("minitune.commands.health.OVERTIME_S", 0.2)
    pids = tmp_path / "pids"
    status, told = ci(
        SCRIPTS / "starts_shells.py", "--time-budget", "2", arguments=(str(pids),)
    )  # two shells are there long before
    assert (status, "did not end in time and was killed" in told) == (1, True)
    found = read_pids(pids, 4)
    wait_until(lambda: all(is_gone(pid) for pid in found), "the children are gone")


def test_a_run_that_the_budget_cuts_short_passes_and_says_so(
    ci: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "page.md"))
    status, told = ci(SCRIPTS / "endless.py", "--time-budget", "60", arguments=(str(tmp_path),))
    assert (status == 0) == ("minitune ci passed; " in told), told
    assert "s is used up; 0 of 3 trials had ended, " in told
    cut = re.compile(r"; run long ended early, after 0 of 3 trials( \(\d not started\))?\n+\Z")
    assert cut.search(told)
    page = (tmp_path / "page.md").read_text()
    assert "Ended early: the stopper has ended the run: the time budget of " in page
    assert cut.search(page)


def test_a_signal_ends_the_script_and_the_command_follows(ci: Run) -> None:
    script = "import os, signal, threading; os.kill(os.getppid(), signal.SIGTERM); threading.Event().wait()"
    before = signal.getsignal(signal.SIGTERM)
    status, told = ci(script)
    assert status == 143
    assert "ended with exit status 143" in told
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_script_hears_of_the_limits_by_variables(ci: Run) -> None:
    script = (
        "import os, time\n"
        "left_s = float(os.environ['MINITUNE_END_AT']) - time.time()\n"
        "print(0 < left_s <= 500, os.environ['MINITUNE_MAX_SAMPLES'], os.environ['MINITUNE_FORCE_TRIAL_CLEANUP_S'])\n"
    )
    assert ci(script, "--time-budget", "500", "--num-samples", "3")[1].startswith("True 3 5\n")
    _, told = ci("import os; print([name for name in os.environ if name.startswith('MINITUNE_MAX')])")
    assert told.startswith("[]\n")


def test_a_module_may_be_run(ci: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_module.py").write_text("import sys; print('module', sys.argv[1:]); sys.exit(6)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert cli.main(["ci", "-m", "my_module", "--", "a"]) == 6


def record(**facts: Any) -> dict[str, Any]:
    """What a run tells `ci` at its end."""
    return {
        "name": "run",
        "path": "/runs/run",
        "elapsed_s": 1.0,
        "is_interrupted": False,
        "counts": {"finished": 2},
        "cut": 0,
        "early_end": "",
        "best": None,
        "best_line": [],
        "config": {},
        "errors": [],
        "best_values": {"loss": {"min": 1.0, "max": 3.0}},
        **facts,
    }


LOSS = ("--metric", "loss")


@pytest.mark.parametrize(
    ("records", "options", "status", "verdict"),
    [
        ([record()], [], 0, "passed"),
        ([record()], [*LOSS, "--at-most", "1"], 0, "passed: best loss <= 1"),
        ([record()], [*LOSS, "--at-most", "0.9"], 1, "failed: expected best loss <= 0.9, got 1"),
        ([record()], [*LOSS, "--at-least", "3"], 0, "passed: best loss >= 3"),
        ([record()], [*LOSS, "--at-least", "3.1"], 1, "failed: expected best loss >= 3.1, got 3"),
        (
            [record(), record(best_values={"loss": {"min": 0.5, "max": 2.0}})],
            [*LOSS, "--at-most", "0.5"],
            0,
            "passed: best loss <= 0.5",
        ),
        ([record(is_interrupted=True)], [], 1, "failed: a run was interrupted"),
        ([record(counts={"stopped": 2})], [], 0, "passed"),
        ([record(counts={"interrupted": 2}, cut=2)], [], 0, "passed; run run ended early, after 0 of 2 trials"),
        (
            [record(counts={"finished": 3, "interrupted": 1, "not started": 6}, cut=7)],
            [],
            0,
            "passed; run run ended early, after 3 of 10 trials (6 not started)",
        ),
        ([record(counts={"without a result": 2})], [], 1, "failed: no trial has reported anything"),
        ([record(counts={"not started": 2}, cut=2)], [], 1, "failed: no trial has reported anything; run run ended "),
        ([record(counts={"finished": 1, "failed": 2})], [], 1, "failed: 2 of 3 trials failed"),
        ([], [], 1, "failed: no run of minitune has finished in "),
    ],
)
def test_the_verdict_follows_from_all_runs(
    ci: Run,
    monkeypatch: pytest.MonkeyPatch,
    records: list[dict[str, Any]],
    options: list[str],
    status: int,
    verdict: str,
) -> None:
    def run(command: list[str], options: Any, runs: Path) -> int:
        lines = [f"{json.dumps(one)}\n" for one in records]
        runs.write_text("".join(lines) + '{"name": "torn')  # a process was killed while it wrote
        return 0

    monkeypatch.setattr("minitune.commands.health._run", run)
    ended, told = ci("", *options)
    assert (ended, f"\nminitune ci {verdict}" in told) == (status, True), told


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--metric", "loss"], "a target must have a metric and a bound"),
        (["--at-least", "3"], "a target must have a metric and a bound"),
        (["--num-samples", "0"], "expected N >= 1, but got 0"),
        (["--time-budget", "-1"], "expected 0 < S < infinity, but got -1"),
        (["--time-budget", "0"], "expected 0 < S < infinity, but got 0"),
        (["--time-budget", "inf"], "expected 0 < S < infinity, but got inf"),
        ([], "SCRIPT must be a file, but got 'nowhere.py'"),
    ],
)
def test_a_command_line_that_makes_no_sense_is_refused_with_the_reason(
    options: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["ci", *options, "nowhere.py"])
    assert ended.value.code == 2
    assert text in capsys.readouterr().err
