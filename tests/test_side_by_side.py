"""A session in several processes reports the same as a session in one."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HAS_PROGRAMS = True  # see `time_limit`

TESTS = Path(__file__).resolve().parent


SUITE = TESTS / "scripts" / "suite"
FILES = {"side_by_side_conftest.py": "conftest.py", "a.py": "test_a.py", "b.py": "test_b.py", "c.py": "test_c.py"}
"""Under these names, so that this session does not run them."""


@pytest.fixture
def session(tmp_path, bound_s):
    """Runs the files above; returns the exit code and what was printed."""
    for name, own_name in FILES.items():
        shutil.copy(SUITE / name, tmp_path / own_name)

    def run(**environment):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly", "-ra"],
            cwd=tmp_path,
            env={**os.environ, "MINITUNE_TEST_PROCESSES": "2", "PYTHONPATH": str(TESTS), **environment},
            capture_output=True,
            text=True,
            timeout=bound_s(60),
        )
        return done.returncode, done.stdout

    return run


def test_files_run_side_by_side_and_are_told_in_their_order(session):
    code, output = session()
    assert code == pytest.ExitCode.TESTS_FAILED
    assert re.search(r"^test_a\.py \.F .*\ntest_b\.py \.\.s\.E? .*\ntest_c\.py \.E? ", output, flags=re.MULTILINE)
    for text in ("these differ", "printed by Python", "printed by a child", "take care", "at the end of the session"):
        assert text in output
    assert "1 failed, 5 passed, 1 skipped, 1 warning, 1 error" in output


def test_a_process_that_ends_early_is_an_error_and_the_rest_is_told(session):
    code, output = session(END="1")
    assert code == pytest.ExitCode.INTERNAL_ERROR
    assert "a process ended before it had run" in output
    assert "1 failed, 4 passed, 1 skipped, 1 warning" in output
