"""A machine that has too little of something, or a trial that holds on to what it was given."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from kit import control_group, fit, journal_of

from minitune import grid_search, report, with_resources

SCRIPTS = Path(__file__).with_name("scripts")


def test_fewer_processes_than_trials_are_waited_for_and_said_once(script):
    """The driver, its threads, the zygote and two threads of each worker have to fit."""
    group = control_group({"/sys/fs/cgroup/pids": "pids.max", "/sys/fs/cgroup": "pids.max"}, 12)
    if not group:
        pytest.skip("no control group with a limit of processes can be made here")
    path = script.write(SCRIPTS / "many_trials.py")
    command = ["sh", "-c", 'echo $$ > "$0/cgroup.procs"; exec "$1" "$2"', group, sys.executable, str(path)]
    try:
        driver = script.start_command(command, MINITUNE_NUM_CPUS="16", MINITUNE_START_METHOD="zygote")
        stdout, stderr = script.finish(driver)
    finally:
        os.rmdir(group)
    assert stdout == "True 0\n", stderr
    assert stderr.count("could not start a process") == 1


def test_a_device_is_not_given_away_while_its_last_user_unwinds(tmp_path, monkeypatch):
    monkeypatch.setenv("MINITUNE_NUM_GPUS", "1")
    place = tmp_path / "holder"

    def trainable(config):
        alone = not place.exists()
        place.touch()
        if config["x"] == 0:  # its child goes on for a while, too
            subprocess.Popen(["sh", "-c", f"trap '' TERM; sleep 600; rm {place}"], start_new_session=True)
        try:
            for i in range(1, 100):
                report({"i": i, "alone": alone, "device": os.environ["CUDA_VISIBLE_DEVICES"]})
        finally:
            time.sleep(0.4)
            place.unlink()

    one_each = with_resources(trainable, {"cpu": 1, "gpu": 1})
    grid = fit(one_each, {"x": grid_search([0, 1, 2])}, executor="local", stop={"i": 2})
    assert [(result.metrics["device"], result.metrics["alone"]) for result in grid] == [("0", True)] * 3
    ready = [record for record in journal_of() if record.get("cause") == "the worker is ready on GPU 0"]
    assert len(ready) == 3, "which device a trial had is on record"


def test_a_run_needs_no_home_and_no_temporary_directory(script):
    stdout = script.run(
        SCRIPTS / "three_trials.py",
        HOME="/nowhere",
        TMPDIR="/proc",
    )
    assert stdout == "[0, 1, 2]\n"
