"""`minitune stop` and `rm`: a run ends and can be resumed; a run leaves the disk."""

from __future__ import annotations

import io
import os
import re
import signal
import sys
from pathlib import Path

import pytest
from command_runs import fit_three, train
from kit import cut

from minitune import grid_search
from minitune.record.layout import RunDirectory
from minitune.record.lock import RunLock

FOREVER = ["run", "--name", "live", "--", "sh", "-c", "i=0; while :; do i=$((i+1)); echo report v=$i; sleep 0.1; done"]


class Terminal(io.StringIO):
    def isatty(self):
        return True


# -- stop --------------------------------------------------------------------------------------------------------------
def test_a_run_that_is_stopped_can_be_resumed(script):
    driver = script.start_minitune(*FOREVER)
    script.wait_until(lambda: any(path.stat().st_size for path in script.storage.glob("live/*/result.json")))

    done = script.run_minitune("stop", "live")
    script.finish(driver)

    assert done.returncode == 0, done.stderr
    assert f"process {driver.pid} ends its trials" in done.stdout
    assert driver.returncode in (4, -signal.SIGTERM)
    assert "interrupted" in script.run_minitune("ls", "live").stdout.splitlines()[0]


def test_a_run_that_has_ended_cannot_be_stopped(run, tmp_path):
    fit_three(tmp_path)
    assert run("stop", "run") == (1, "", f"minitune: the run {tmp_path / 'run'} does not go on: it has ended\n")


def test_a_run_of_another_machine_is_not_stopped(run, tmp_path, monkeypatch):
    fit_three(tmp_path)
    monkeypatch.setattr("minitune.commands.manage.driver_pid", lambda path: 0)  # as the kernel says it
    status, _, err = run("stop", "run")
    assert status == 1
    assert "stop it there" in err


@pytest.mark.parametrize("is_held", [True, False])
def test_a_lock_that_another_user_may_have_written_stops_no_process(run, tmp_path, monkeypatch, is_held):
    fit_three(tmp_path)
    monkeypatch.setattr(os, "kill", lambda *call: pytest.fail(f"a signal: {call}"))
    lock = Path(RunDirectory(str(tmp_path / "run")).lock)
    if is_held:
        (tmp_path / "run").chmod(0o777)
        with RunLock(lock):
            assert run("stop", "run")[0] == 1
    else:
        lock.write_text(str(os.getpid()))
        assert run("stop", "run")[0] == 1


def test_one_trial_is_stopped_and_the_run_goes_on(script):
    driver = script.start_minitune(*FOREVER)
    script.wait_until(lambda: any(path.stat().st_size for path in script.storage.glob("live/*/result.json")))

    done = script.run_minitune("stop", "live", "0")
    script.finish(driver)

    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"trial 0 \(\w+\) is asked to stop; the run goes on\n", done.stdout)
    assert driver.returncode == 0, "its only trial has ended without an error"
    assert "stopped: at the request of the user" in script.run_minitune("show", "live", "0").stdout


def test_a_driver_that_hears_no_requests_is_left_alone(run, tmp_path, monkeypatch):
    cut(train, {"x": grid_search([0, 1])}, results=1, storage_path=tmp_path, name="run", max_concurrent_trials=1)
    monkeypatch.setattr(os, "kill", lambda *call: pytest.fail(f"a signal: {call}"))
    with RunLock(RunDirectory(str(tmp_path / "run")).lock):
        status, out, err = run("stop", "run", "0")
        assert (status, out) == (1, "")
        assert "stops no single trial" in err
        assert "`minitune stop " in err
        assert run("stop", "run", "9")[2].startswith("minitune: there is no trial '9'")


# -- rm ----------------------------------------------------------------------------------------------------------------
def test_a_run_is_removed_once_and_nothing_else(run, tmp_path):
    results = fit_three(tmp_path)
    fit_three(tmp_path, name="other")
    (tmp_path / "kept").touch()
    os.link(tmp_path / "kept", Path(results[0].path) / "linked")

    assert run("rm", "--yes", "run", tmp_path / "run") == (0, "removed 1 run\n", "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "other"]


def test_what_others_have_put_into_a_run_stays(run, tmp_path):
    fit_three(tmp_path)
    fit_three(tmp_path / "run", name="inner")
    theirs = tmp_path / "run" / "paper" / "figures.tex"
    theirs.parent.mkdir()
    theirs.touch()
    (tmp_path / "run" / "link").symlink_to(tmp_path)

    with RunLock(RunDirectory(str(tmp_path / "run" / "inner")).lock):
        status, _, err = run("rm", "--yes", "run")
    assert (status, "inner in it" in err) == (1, True)
    status, out, err = run("rm", "--yes", "run")

    assert (status, out) == (0, "removed 1 run\n")
    assert err == f"minitune: {tmp_path / 'run'} stays, with what is not the run's: inner, link, paper\n"
    assert sorted(os.listdir(tmp_path / "run")) == ["inner", "link", "paper"]
    assert theirs.exists()
    assert run("ls", "run/inner")[0] == 0


@pytest.mark.parametrize(
    ("name", "content"), [("journal", "dear diary\n"), ("tuner.pkl", "x"), ("journal", "\0" * 4096)]
)
def test_without_a_journal_of_a_run_nothing_is_removed(run, tmp_path, name, content):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / name).write_text(content)

    status, _, err = run("rm", "--yes", "notes")

    assert (status, os.listdir(tmp_path / "notes")) == (1, [name])
    assert "notes is not removed: which files are a run's is in its journal alone; " in err


@pytest.mark.parametrize(("answer", "is_removed"), [("y\n", True), ("yes\n", True), ("\n", False), ("", False)])
def test_rm_removes_a_run_only_if_the_answer_is_yes(run, tmp_path, monkeypatch, answer, is_removed):
    fit_three(tmp_path)
    monkeypatch.setattr(sys, "stdin", Terminal(answer))

    status, out, _ = run("rm", "run")

    assert out.startswith(f"{tmp_path / 'run'}\nRemove 1 run? [y/N] ")
    assert ((tmp_path / "run").exists(), status) == (not is_removed, 0 if is_removed else 1)


def test_without_a_terminal_nothing_is_removed(run, tmp_path, monkeypatch):
    fit_three(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))

    status, _, err = run("rm", "run")

    assert (status, (tmp_path / "run").exists()) == (1, True)
    assert "pass --yes" in err


def test_no_run_is_removed_if_one_of_them_goes_on(run, tmp_path):
    fit_three(tmp_path)
    fit_three(tmp_path, name="live")
    with RunLock(RunDirectory(str(tmp_path / "live")).lock):
        status, _, err = run("rm", "--yes", "run", "live")
    assert (status, sorted(os.listdir(tmp_path))) == (1, ["live", "run"])
    assert "is in use by" in err


def test_a_link_to_a_run_is_refused(run, tmp_path):
    fit_three(tmp_path)
    (tmp_path / "link").symlink_to("run")
    status, _, err = run("rm", "--yes", "link")
    assert (status, (tmp_path / "run").exists(), (tmp_path / "link").exists()) == (1, True, True)
    assert "is a link to" in err


def test_a_trial_that_has_ended_cannot_be_stopped(run, tmp_path):
    fit_three(tmp_path)
    with RunLock(RunDirectory(str(tmp_path / "run")).lock):
        status, out, err = run("stop", "run", "2")
    assert (status, out) == (1, "")
    assert err.startswith("minitune: trial 2 (")
    assert err.endswith(") does not go on: it is failed\n")
