"""The basic experiment, as a script without a main guard."""

import re
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).with_name("scripts")

GRID = SCRIPTS / "grid_of_names.py"
RESULT = (
    r"Result\(metrics=\{'score': 'model_0', 'other_data': Ellipsis, 'done': True, 'trial_id': '[0-9a-f]{5}_00000', "
    r"'experiment_tag': '0_model_id=model_0'\}, error=None, log_dir=PosixPath\('.+'\)\)"
)


@pytest.mark.parametrize(
    ("size", "environment"),
    [(8, {}), (200, {"MINITUNE_EXECUTOR": "inline"})],
    ids=["local", "inline"],
)
def test_a_grid_of_names_prints_its_status_and_its_first_result_in_few_lines(script, size, environment):
    stdout = script.run(GRID, str(size), **environment)
    lines = stdout.splitlines()
    assert re.fullmatch(RESULT, lines[-1])
    assert f" s: {size} finished\n" in stdout
    assert "== Status ==" not in stdout
    assert len(lines) <= 40


def test_a_failed_trial_shows_the_users_traceback_and_frames_alone(script):
    stdout = script.run(SCRIPTS / "equal_failures.py")
    assert stdout.count("in helper") == 1, "equal failures are shown once"
    assert 'raise ValueError(f"no good: {x}")' in stdout
    assert "ValueError: no good: 1" in stdout
    assert "minitune/trainable" not in stdout
    assert "minitune/actor" not in stdout


def test_a_run_works_without_functions_that_other_systems_lack(script):
    # a new interpreter: the package looks for them when it is imported
    done = script.run_command([sys.executable, str(script.write(GRID)), "6", "without"])
    stdout = done.stdout
    assert re.fullmatch(RESULT, stdout.splitlines()[-1])
