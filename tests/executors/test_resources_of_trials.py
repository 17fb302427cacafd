"""What trials are given: never more at once than there is, devices chosen before any import, all of it given back."""

import json
from pathlib import Path

import pytest
from kit import is_gone

SCRIPTS = Path(__file__).with_name("scripts")

MEET = SCRIPTS / "trials_that_meet.py"


@pytest.mark.parametrize(
    ("size", "asked", "environment"),
    [
        (8, {"cpu": 4}, {"MINITUNE_NUM_CPUS": "32"}),
        (2, {"cpu": 1, "tokens": 1}, {"MINITUNE_NUM_CPUS": "8"}),
    ],
    ids=["cpus", "custom"],
)
def test_exactly_as_many_trials_run_at_once_as_the_totals_allow(script, size, asked, environment):
    process = script.start(MEET, str(size), json.dumps(asked), **environment)
    stdout, stderr = script.finish(process)
    assert stdout.split() == [str(size), str(2 * size)], stderr


# -- devices and threads -----------------------------------------------------------------------------------------------

GPUS = SCRIPTS / "devices_of_trials.py"


def gpus(visible, count=None):
    """The environment of a machine with GPUs: these are visible, or the user says how many there are."""
    return {"MINITUNE_NUM_CPUS": "8", "MINITUNE_NUM_GPUS": count, "CUDA_VISIBLE_DEVICES": visible}


@pytest.mark.parametrize(
    ("size", "asked", "visible", "expected"),
    [
        (4, {"gpu": 1}, None, ["0", "1", "2", "3"]),
        (4, {"gpu": 0.5}, "2,3", ["2", "2", "3", "3"]),
    ],
    ids=["whole", "halves of those that are visible"],
)
def test_devices_are_chosen_before_imports_and_never_held_twice(script, size, asked, visible, expected):
    script.write(SCRIPTS / "probe.py")
    environment = gpus(visible, "4" if visible is None else None)
    held = json.loads(script.run(GPUS, str(size), json.dumps({"cpu": 1, **asked}), **environment))
    assert len(held) == 3 * size
    assert sorted(device for device, _ in held[:size]) == expected
    most = round(1 / asked["gpu"]) - 1
    assert all(device in expected and shared <= most for device, shared in held)


@pytest.mark.parametrize(("own", "expected"), [("", ["1", "2", "4"]), ("7", ["7", "7", "7"])], ids=["cap", "own"])
def test_threads_are_capped_at_the_cpus_unless_the_user_sets_them(script, own, expected):
    script.write(SCRIPTS / "probe.py")
    stdout = script.run(
        SCRIPTS / "threads_of_trials.py",
        MINITUNE_NUM_CPUS="4",
        OMP_NUM_THREADS=own,
    )
    assert stdout.strip() == str([[threads, threads] for threads in expected])


def test_the_number_of_threads_of_one_library_holds_when_it_is_imported(script):
    script.write(SCRIPTS / "probe.py")
    stdout = script.run(SCRIPTS / "threads_of_a_library.py", OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="4")
    assert stdout.strip() == "4"


def test_children_of_a_gang_have_devices_and_die_with_it(script):
    stdout = script.run(
        SCRIPTS / "devices_of_a_gang.py",
        **{**gpus("0,1,2,3"), "MINITUNE_NUM_CPUS": "2"},
    )
    gang, after, error = json.loads(stdout)
    assert gang["seen"] == ["0", "1,2"]
    assert gang["devices"] == "0,1,2"
    assert "SIGKILL (9)" in error
    assert after["devices"] == "0,1,2,3", "all four are free again"
    assert all(map(is_gone, gang["pids"]))
