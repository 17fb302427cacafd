"""A machine that has too little of something, or a trial that holds on to what it was given."""

from __future__ import annotations

import json
import os
import sys
import textwrap

import pytest
from kit import PRELUDE, control_group, fake_nvidia_smi


def test_fewer_processes_than_trials_are_waited_for_and_said_once(script):
    """The driver, its threads, what workers are copied from, and two threads of each worker have to fit."""
    group = control_group({"/sys/fs/cgroup/pids": "pids.max", "/sys/fs/cgroup": "pids.max"}, 12)
    if not group:
        pytest.skip("no control group with a limit of processes can be made here")
    path = script.directory / "driver.py"
    path.write_text(
        textwrap.dedent(
            PRELUDE
            + """
    def trainable(config):
        time.sleep(0.1)
        return {"x": config["x"]}

    results = fit(trainable, range(16))
    print([r.metrics.get("x") for r in results] == list(range(16)), results.num_errors)
    """
        )
    )
    command = ["sh", "-c", 'echo $$ > "$0/cgroup.procs"; exec "$1" "$2"', group, sys.executable, str(path)]
    try:
        driver = script.start_command(command, MINITUNE_NUM_CPUS="16", MINITUNE_START_METHOD="zygote")
        stdout, stderr = script.finish(driver)
    finally:
        os.rmdir(group)
    assert stdout == "True 0\n", stderr
    assert stderr.count("could not start a process") == 1


def test_a_device_is_not_given_away_while_its_last_user_unwinds(script):
    command = fake_nvidia_smi(script.directory / "bin", "echo 'GPU 0: Fake (UUID: GPU-0)'")
    stdout = script.run(
        PRELUDE
        + """
    def trainable(config):
        place = os.path.join(sys.argv[1], "holder")
        alone = not os.path.exists(place)
        open(place, "w").close()
        if config["x"] == 0:  # its child goes on for a while, too
            subprocess.Popen(["sh", "-c", f"trap '' TERM; sleep 600; rm {place}"], start_new_session=True)
        try:
            for i in range(1, 100):
                report({"i": i, "alone": alone, "device": os.environ["CUDA_VISIBLE_DEVICES"]})
        finally:
            time.sleep(0.4)
            os.remove(place)

    results = fit(with_resources(trainable, {"cpu": 1, "gpu": 1}), range(3), stop={"i": 2})
    print(json.dumps([[r.metrics["device"], r.metrics["alone"]] for r in results]))
    journal = os.path.join(results.experiment_path, "journal")
    print(sum('"the worker is ready on GPU 0"' in line for line in open(journal)))
    """,
        str(script.directory),
        PATH=f"{command.parent}{os.pathsep}{os.environ['PATH']}",
        MINITUNE_NUM_CPUS="8",
        MINITUNE_NUM_GPUS=None,
    )
    devices, ready = stdout.splitlines()
    assert json.loads(devices) == [["0", True]] * 3
    assert ready == "3", "which device a trial had is on record"


def test_two_hundred_trials_at_a_time(script):
    """All of the first two hundred have to be there before any of them goes on; more wait behind them."""
    stdout = script.run(
        PRELUDE
        + """
    def trainable(config):
        if config["x"] < 200:
            os.makedirs("../here", exist_ok=True)
            open(f"../here/{config['x']}", "w").close()
            while len(os.listdir("../here")) < 200:
                time.sleep(0.1)
        report({"x": config["x"]})

    results = fit(trainable, range(220))
    print([r.metrics["x"] for r in results] == list(range(220)), results.num_errors)
    """,
        MINITUNE_NUM_CPUS="200",
    )
    assert stdout == "True 0\n"


def test_a_home_a_temporary_directory_and_shared_memory_that_cannot_be_used(script):
    stdout = script.run(
        PRELUDE
        + """
    def refuse(*args, **kwargs):
        raise OSError(38, "not here")

    os.memfd_create = refuse

    def trainable(config):
        return {"x": config["x"]}

    print([r.metrics["x"] for r in fit(trainable, range(3))])
    """,
        HOME="/nowhere",
        TMPDIR="/proc",
    )
    assert stdout == "[0, 1, 2]\n"
