"""`minitune rerun` and `resume`: run a trial again, continue a run; and follow a live run from outside."""

from __future__ import annotations

import bdb
import itertools
import json
import os
import pickle
import pty
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from command_runs import train
from kit import REPOSITORY, cut, files_below, fit, raiser, report_state, restored_state

from minitune import (
    Checkpoint,
    get_checkpoint,
    get_context,
    grid_search,
    report,
    with_parameters,
    with_resources,
)
from minitune.analysis import ExperimentAnalysis
from minitune.schedulers import PopulationBasedTraining

SCRIPTS = Path(__file__).with_name("scripts")


def test_a_failed_trial_fails_again_and_the_run_stays_as_it_is(minitune, storage):
    before = files_below(storage)
    status, out, err = minitune("rerun", "run", "2")

    assert status == 3
    assert [line for line in out.splitlines() if line.startswith("iteration")] == [
        "iteration 1: loss=3",
        "iteration 2: loss=2",
    ]
    assert out.splitlines()[0].endswith("/run: failed after 2 reports: ZeroDivisionError: nothing left")
    assert out.endswith("failed after 2 reports; before: failed after 2 reports; --pdb opens the debugger there\n")
    assert err.startswith("Traceback")
    assert "minitune/trainable" not in err
    assert files_below(storage) == before


def draws(config):
    report({"drawn": random.random(), "attempt": get_context().get_attempt()})
    if not Path(config["mark"]).exists():
        raise ValueError("no luck")


def test_the_attempt_that_failed_is_run_again(minitune, tmp_path):
    run = fit(draws, {"mark": str(tmp_path / "mark")}, max_failures=1, seed=1, storage_path=tmp_path)
    status, out, _ = minitune("rerun", run.experiment_path)
    reported = f"iteration 1: drawn={run[0].metrics['drawn']:.6g}, attempt=2\n"
    assert (status, reported in out) == (3, True), "as the last attempt"

    (tmp_path / "mark").touch()
    status, out, _ = minitune("rerun", run.experiment_path)
    assert (status, out.splitlines()[-1]) == (0, "ended after 1 report; before: failed after 1 report")


def test_a_trial_is_not_run_again_without_its_gpus(minitune, tmp_path, monkeypatch):
    monkeypatch.setenv("MINITUNE_NUM_GPUS", "1")
    fit(with_resources(train_once, {"gpu": 1}), name="gpu", storage_path=tmp_path)
    monkeypatch.setenv("MINITUNE_NUM_GPUS", "0")
    status, _, err = minitune("rerun", tmp_path / "gpu", "0")
    assert (status, "GPU" in err) == (1, True)


def test_a_trial_of_a_larger_machine_is_run_again_here(minitune, tmp_path, monkeypatch):
    monkeypatch.setenv("MINITUNE_NUM_CPUS", "4096")
    trainable = with_resources(lambda config: {"x": 1}, {"cpu": 4096})
    fit(trainable, name="large", storage_path=tmp_path)
    monkeypatch.delenv("MINITUNE_NUM_CPUS")

    status, out, _ = minitune("rerun", tmp_path / "large", "0")

    assert status == 0
    assert "iteration 1: x=1" in out


def test_a_retry_is_run_again_from_the_checkpoint_that_it_began_at(minitune, tmp_path):
    path = fit(train, {"x": 2}, max_failures=1, storage_path=tmp_path).experiment_path

    status, out, _ = minitune("rerun", path, "0")
    assert (status, "checkpoint_000001" in out, "iteration" in out) == (3, True, False)


def endless(config):
    """Fails once, after its second report, and never ends by itself."""
    start = int(Path(checkpoint.path, "step").read_text()) if (checkpoint := get_checkpoint()) else 0
    for step in itertools.count(start):
        if step == 2 and get_context().get_attempt() == 1 and not Path(config["mark"]).exists():
            Path(config["mark"]).touch()
            raise ZeroDivisionError("for once")
        with tempfile.TemporaryDirectory() as directory:
            Path(directory, "step").write_text(str(step + 1))
            report({"step": step}, checkpoint=Checkpoint(directory))


def test_trial_stopped_after_a_retry_makes_the_same_number_of_reports(minitune, tmp_path):
    settings = {"storage_path": tmp_path, "name": "retried", "max_failures": 1, "stop": {"training_iteration": 5}}
    fit(endless, {"mark": str(tmp_path / "mark")}, **settings)

    status, out, _ = minitune("rerun", tmp_path / "retried", "0")
    assert status == 0
    assert [line for line in out.splitlines() if line.startswith("iteration")] == [
        f"iteration {step + 1}: step={step}" for step in range(5)
    ]


def climb(config):
    height, step = 0.0, 0
    if checkpoint := get_checkpoint():
        height, step = json.loads(Path(checkpoint.path, "state").read_text())
    for done in range(step + 1, config.get("end", 7)):
        height += config["speed"]
        with tempfile.TemporaryDirectory() as directory:
            Path(directory, "state").write_text(json.dumps([height, done]))
            report({"height": height}, checkpoint=Checkpoint(directory))


@pytest.mark.parametrize("end", [7, 99])
def test_a_trial_that_was_given_another_ones_checkpoint_begins_there(minitune, tmp_path, end):
    scheduler = PopulationBasedTraining(
        time_attr="training_iteration", perturbation_interval=2, hyperparam_mutations={"speed": [1, 2, 4]}
    )
    settings = {"metric": "height", "mode": "max", "scheduler": scheduler, "seed": 1, "storage_path": tmp_path}
    if end == 99:
        settings["stop"] = {"training_iteration": 6}
    grid = fit(climb, {"speed": grid_search([1, 4]), "end": end}, **settings)
    assert any(decision.action == "EXPLOIT" for decision in grid[0].decisions)

    status, out, _ = minitune("rerun", grid.experiment_path, "0")
    assert status == 0
    assert f"start   {grid[1].path}" in out
    assert out.splitlines()[-2] == f"iteration 6: height={grid[0].metrics['height']:g}"
    now, before = out.splitlines()[-1].split("; before: ")
    assert now == before


def needs_values(config, values):
    return {"total": sum(values) + config["x"]}


def test_values_that_are_not_kept_come_from_the_script(minitune, tmp_path):
    grid = fit(with_parameters(needs_values, values=[1, 2]), {"x": 1}, storage_path=tmp_path)
    status, _, err = minitune("rerun", grid.experiment_path, "0")

    assert status == 1
    assert "it has bound values" in err
    assert "--script" in err


def test_the_script_of_a_rerun_has_its_own_arguments(minitune, tmp_path, monkeypatch):
    script = SCRIPTS / "has_arguments.py"
    monkeypatch.setattr(sys, "argv", ["script.py", "1", str(tmp_path)])
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    exec(compile(script.read_text(), str(script), "exec"), {"__name__": "first"})

    status, out, err = minitune("rerun", tmp_path / "argued", "0", "--script", script, "--", "41", tmp_path)
    assert (status, "iteration 1: total=42" in out) == (0, True), err
    status, out, err = minitune("rerun", tmp_path / "argued", "0", "--", "42")
    assert (status, "iteration 1: total=43" in out) == (0, True), err
    assert "IndexError" in minitune("rerun", tmp_path / "argued", "0")[2], "our own command line is none of its"
    status, _, err = minitune("resume", tmp_path / "argued", "--add-samples", "1", "--", "7")
    assert status == 0, err
    totals = [trial.last_result["total"] for trial in ExperimentAnalysis(tmp_path / "argued").trials]
    assert totals == [2, 8]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_nothing_of_another_user_is_loaded(minitune, storage, monkeypatch):
    kept = storage / "run" / "trainable.pkl"
    os.chown(kept, 12345, -1)
    try:
        status, _, err = minitune("rerun", "run", "0")
        assert (status, "may be written by another user" in err) == (1, True)
        assert minitune("ls", "run")[0] == minitune("show", "run", "0")[0] == 0
        monkeypatch.setenv("MINITUNE_TRUST", "1")
        assert minitune("rerun", "run", "0")[0] == 0
    finally:
        os.chown(kept, 0, -1)


def test_a_run_that_others_can_write_to_is_not_loaded(minitune, storage, tmp_path, monkeypatch):
    """Its journal may have pickled objects. Loading one would run code of its author."""
    run = shutil.copytree(storage / "run", tmp_path / "run")
    (run / "journal").chmod(0o666)
    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, raiser(AssertionError("something is unpickled")))
    status, _, err = minitune("rerun", run, "0")
    assert (status, "every user can write to it" in err) == (1, True)


def spoils_its_checkpoint(config):
    state = restored_state()
    if checkpoint := get_checkpoint():
        Path(checkpoint.path, "state").write_text("-1")
    for n in range(state + 1, 4):
        if n == 3:
            raise ValueError("no luck")
        report_state(n, {"n": n})


def test_a_trial_that_spoils_its_checkpoint_spoils_a_copy(minitune, tmp_path):
    run = Path(fit(spoils_its_checkpoint, max_failures=1, storage_path=tmp_path).experiment_path)
    (state,) = run.glob("*/checkpoint_000001/state")
    state.write_text("2")  # its content before the run itself spoiled it
    before = files_below(run)
    for _ in range(2):
        status, out, _ = minitune("rerun", run, "0")
        assert (status, "checkpoint_000001" in out, "iteration" in out) == (3, True, False)
        assert files_below(run) == before


class Terminal:
    """A command that runs in a separate terminal."""

    def __init__(self, command, bound_s, **environment):
        self._bound_s = bound_s
        self._end, other = pty.openpty()
        self._left = ""
        env = {**os.environ, **environment, "TERM": "dumb"}
        self.process = subprocess.Popen(command, stdin=other, stdout=other, stderr=other, env=env)
        os.close(other)

    def expect(self, text):
        """Read until `text` appears after the last expected text."""
        deadline = time.monotonic() + self._bound_s
        while text not in self._left:
            ready, _, _ = select.select([self._end], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"{text!r} did not come, but {self._left!r}"
            self._left += os.read(self._end, 10_000).decode()
        self._left = self._left.partition(text)[2]

    def type(self, line):
        """Type a line."""
        os.write(self._end, f"{line}\n".encode())

    def wait(self):
        """Wait for the end; returns the exit status."""
        return self.process.wait(self._bound_s)

    def close(self):
        """End the command, if it has not ended."""
        self.process.kill()
        self.process.wait()
        os.close(self._end)


def test_the_debugger_has_the_terminal(script, bound_s):
    (script.directory / "module_of_mine.py").write_text(
        "def complain(weight):\n    raise ValueError(f'no luck with {weight}')\n"
    )
    script.run(SCRIPTS / "complains.py")
    terminal = Terminal(
        [sys.executable, "-m", "minitune", "rerun", "bad", "1", "--pdb"],
        bound_s(20),
        MINITUNE_STORAGE_PATH=str(script.storage),
        PYTHONPATH=str(REPOSITORY),
        BREAK="1",
    )
    try:
        terminal.expect("(Pdb) ")
        terminal.type("p config['x'] + model.weight")
        terminal.expect("4")
        terminal.type("c")
        terminal.expect("the debugger has stopped where the trial failed: `up` and `down` ")
        terminal.expect("-> raise ValueError")
        terminal.expect("(Pdb) ")
        terminal.type("up")
        terminal.expect("-> complain(model.weight)")
        terminal.type("p hidden")
        recorded = ExperimentAnalysis(script.storage / "bad").trials[1].last_result["hidden"]
        terminal.expect(str(recorded))  # drawn from the trial's own seed
        terminal.type("q")
        terminal.expect("failed after 1 report; before: failed after 1 report")
        assert terminal.wait() == 3
    finally:
        terminal.close()


def test_a_script_is_run_again_and_goes_on_with_its_run(script, minitune):
    script.finish(script.start(SCRIPTS / "killed_once.py"))
    (row,) = json.loads(minitune("ls", script.storage, "--json")[1])["runs"]
    assert (row["state"], row["finished"]) == ("killed", 1)
    trials = json.loads(minitune("ls", row["path"], "--json")[1])["trials"]
    assert {trial["status"] for trial in trials} <= {"finished", "interrupted", "not started"}  # nothing runs there

    path = str(script.directory / "killed_once.py")
    again = script.start_minitune("resume", path, "--", "--epochs", "3")
    out, err = script.finish(again)

    assert (again.returncode, out) == (0, "['--epochs', '3'] [1, 2, 3] 2\n"), err
    assert "resuming the run in" in err
    assert len(list(script.storage.iterdir())) == 1


@pytest.mark.parametrize(
    ("now", "told", "opened"),
    [("900 same", "resuming the run in", [2]), ("1 more", "a new run starts", [1, 1])],
)
def test_a_script_with_another_space(script, now, told, opened):
    """It goes on with other values, and begins another run with other parameters."""
    script.finish(script.start(SCRIPTS / "cut_by_choice.py", "1", "same", "--cut"))
    done = script.run_minitune("resume", str(script.directory / "cut_by_choice.py"), *now.split())
    assert done.returncode == 0, done.stderr
    assert told in done.stderr
    assert [len(script.records(run.name, type="open")) for run in script.storage.iterdir()] == opened


def interrupts_itself(config):
    report({"x": config["x"]})
    if config["x"] == 2:
        os.kill(os.getpid(), signal.SIGINT)
    report({"x": config["x"]})


def test_a_resumed_run_tells_that_it_was_interrupted_again(minitune, tmp_path):
    settings = {"storage_path": tmp_path, "name": "cut", "max_concurrent_trials": 1}
    cut(interrupts_itself, {"x": grid_search([0, 1, 2, 3])}, results=3, how="SIGINT", **settings)

    assert minitune("resume", tmp_path / "cut")[0] == 4
    (row,) = json.loads(minitune("ls", tmp_path, "--json")[1])["runs"]
    assert row["state"] == "interrupted"


def half(config):
    report({"x": config["x"]})
    if config["x"] == 1 and not os.path.exists(config["flag"]):
        Path(config["flag"]).touch()
        raise ValueError("the first time")


@pytest.mark.parametrize("option", ["--errored", "--restart-errored"])
def test_a_run_continues_with_its_failed_trials(minitune, tmp_path, option):
    space = {"x": grid_search([0, 1]), "flag": str(tmp_path / "flag")}
    first = fit(half, space, name="half", storage_path=tmp_path)

    assert minitune("resume", tmp_path / "half")[0] == 3
    assert minitune("resume", tmp_path / "half", option)[0] == 0
    trials = ExperimentAnalysis(tmp_path / "half").trials
    assert [trial.status for trial in trials] == ["TERMINATED"] * 2
    same = [trial.trial_id == result.metrics["trial_id"] for trial, result in zip(trials, first, strict=True)]
    assert same == [True, option == "--errored"]


def train_once(config):
    report({"loss": 1})


def test_a_live_run_is_followed_until_it_ends(script, minitune):
    live = script.start(SCRIPTS / "live.py")
    journal = script.storage / "live" / "journal"
    script.wait_until(lambda: journal.exists() and '"result"' in journal.read_text())
    run = script.storage / "live"
    assert "running (process" in minitune("ls", run)[1]
    assert minitune("resume", run)[0] == 1

    second = script.start_minitune("resume", str(script.directory / "live.py"))
    assert "is in use by process" in script.finish(second)[1]
    assert second.returncode == 1
    watch = script.start_minitune("watch", str(run))
    logs = script.start_minitune("logs", str(run), "0", "--follow")
    assert logs.stdout is not None
    assert watch.stdout is not None
    assert logs.stdout.readline() == "begun\n"
    assert watch.stdout.readline().startswith("Run of 1 trial")
    (script.directory / "go").touch()

    assert script.finish(logs) == ("done\n", "")
    out, err = script.finish(watch)
    assert (watch.returncode, err) == (0, "")
    assert out.endswith("State of the run: finished\n")
    script.finish(live)


@pytest.mark.skipif(sys.platform != "linux", reason="reading address 0 ends in a signal there")
def test_the_stack_of_a_crash_has_the_users_code(script):
    assert any(line.endswith("in train") for line in script.run(SCRIPTS / "crashes.py").splitlines())

    command = [sys.executable, "-m", "minitune", "rerun", str(script.storage / "crash")]
    again = script.start_command(command, TMPDIR=str(script.directory))  # a crash leaves its files there
    assert " in train\n" in script.finish(again)[1]


@pytest.mark.parametrize("error", [KeyboardInterrupt, bdb.BdbQuit])
@pytest.mark.parametrize("options", [[], ["--pdb"]])
def test_a_rerun_that_the_user_ends_has_not_failed(minitune, tmp_path, monkeypatch, error, options):
    def waits(config):
        report({"loss": 1})
        if "IS_RERUN" in os.environ:
            raise error

    opened = []
    monkeypatch.setattr("pdb.post_mortem", opened.append)
    path = fit(waits, storage_path=tmp_path).experiment_path
    monkeypatch.setenv("IS_RERUN", "1")
    status, out, err = minitune("rerun", path, *options)
    assert (status, out.endswith("quit after 1 report\n")) == (130, True)
    is_ctrl_c_under_pdb = error is KeyboardInterrupt and options
    assert (len(opened) == 1, err != "") == (bool(is_ctrl_c_under_pdb),) * 2


def test_a_trial_whose_first_checkpoint_is_gone_is_not_run_again(minitune, tmp_path):
    def fails_from(config):
        report_state(restored_state() + 1, {"loss": 1})
        raise ValueError("always")

    (result,) = fit(fails_from, max_failures=1, storage_path=tmp_path, name="run")
    for path in Path(result.path).glob("checkpoint_*"):
        path.rename(tmp_path / path.name)
    status, out, err = minitune("rerun", tmp_path / "run")
    assert (status, out) == (1, "")
    assert "which no longer exists, so it cannot be run again\n" in err
