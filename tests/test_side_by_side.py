"""A session in several processes reports the same as a session in one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HAS_PROGRAMS = True  # see `time_limit`

TESTS = Path(__file__).resolve().parent


FILES = {
    "conftest.py": f"""
import sys
sys.path.append({str(TESTS)!r})
import side_by_side
side_by_side.MANY = 1
from side_by_side import pytest_runtestloop
""",
    "test_a.py": """
import os, pathlib, time

def test_the_other_file_runs_at_the_same_time():
    pathlib.Path("a").touch()
    while not os.path.exists("b"):
        time.sleep(0.01)

def test_that_fails():
    print("printed by", "Python")
    os.system("echo printed by a child")
    assert 1 == 2, "these differ"
""",
    "test_b.py": """
import os, pathlib, pytest, time, warnings

def test_the_other_file_runs_at_the_same_time():
    pathlib.Path("b").touch()
    while not os.path.exists("a"):
        time.sleep(0.01)

def test_that_warns():
    warnings.warn("take care")

@pytest.mark.skip(reason="no wish to")
def test_that_is_skipped():
    pass

@pytest.fixture(scope="session")
def torn():
    yield
    raise ValueError("at the end of the session")

def test_with_a_failing_fixture(torn):
    pass
""",
    "test_c.py": """
import os

def test_that_may_end_its_process():
    if "END" in os.environ:
        os._exit(3)
""",
}


@pytest.fixture
def session(tmp_path: Path, bound_s: Callable[[float], float]) -> Callable[..., tuple[int, str]]:
    """Runs the files above; returns the exit code and what was printed."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)

    def run(**environment: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly", "-ra"],
            cwd=tmp_path,
            env={**os.environ, "MINITUNE_TEST_PROCESSES": "2", **environment},
            capture_output=True,
            text=True,
            timeout=bound_s(60),
        )
        return done.returncode, done.stdout

    return run


def test_files_run_side_by_side_and_are_told_in_their_order(session: Callable[..., tuple[int, str]]) -> None:
    code, output = session()
    assert code == pytest.ExitCode.TESTS_FAILED
    assert re.search(r"^test_a\.py \.F .*\ntest_b\.py \.\.s\.E? .*\ntest_c\.py \.E? ", output, flags=re.MULTILINE)
    for text in ("these differ", "printed by Python", "printed by a child", "take care", "at the end of the session"):
        assert text in output
    assert "1 failed, 5 passed, 1 skipped, 1 warning, 1 error" in output


def test_a_process_that_ends_early_is_an_error_and_the_rest_is_told(session: Callable[..., tuple[int, str]]) -> None:
    code, output = session(END="1")
    assert code == pytest.ExitCode.INTERNAL_ERROR
    assert "a process ended before it had run" in output
    assert "1 failed, 4 passed, 1 skipped, 1 warning" in output
