"""A test that hangs fails with the stacks of its threads; the tests after it run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HAS_PROGRAMS = True  # see `time_limit`

TESTS = Path(__file__).resolve().parent


def test_a_test_that_hangs_fails_alone_with_the_stacks_of_its_threads(tmp_path, bound_s):
    suite = TESTS / "scripts" / "suite"
    shutil.copy(suite / "time_limit_conftest.py", tmp_path / "conftest.py")
    shutil.copy(suite / "hanging.py", tmp_path / "test_hanging.py")

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly", "-ra"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=bound_s(60),
    )

    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "2 failed, 3 passed, 1 error" in done.stdout
    assert "the test took longer than 0.3 s" in done.stdout
    assert "in the thread the one that waits:" in done.stdout
    for line in (">       waiting.join()", ">           never.wait()", ">       never.wait()"):
        assert f"\n{line}\n" in done.stdout
