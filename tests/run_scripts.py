"""Runs as a user starts them: a script, as a process of its own, looked at from outside."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

REPOSITORY = Path(__file__).resolve().parents[1]


class Script:
    """A script of the user's and the processes that were started from it."""

    def __init__(self, directory: Path, bound_s: Callable[[float], float]):
        self.directory = directory
        self.storage = directory / "results"
        self._bound_s = bound_s
        self._started: list[subprocess.Popen[str]] = []
        self._count = 0

    def start(self, source: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """Write `source` to a file and run it."""
        self._count += 1
        path = self.directory / f"script_{self._count}.py"
        path.write_text(textwrap.dedent(source))
        return self.start_command([sys.executable, str(path), *arguments], **environment)

    def start_command(self, command: list[str], stdin: str | None = None, **environment: str) -> subprocess.Popen[str]:
        """Run a command with the package importable and results below the test's directory."""
        env = {**os.environ, "MINITUNE_STORAGE_PATH": str(self.storage), "PYTHONUNBUFFERED": "1", **environment}
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(REPOSITORY), env.get("PYTHONPATH", "")]))
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
            cwd=self.directory,
        )
        self._started.append(process)
        if stdin is not None and process.stdin is not None:
            process.stdin.write(stdin)
            process.stdin.close()
            process.stdin = None
        return process

    def finish(self, process: subprocess.Popen[str], bound_s: float = 60) -> tuple[str, str]:
        """Wait for the end of a process; returns its stdout and stderr."""
        return process.communicate(timeout=self._bound_s(bound_s))

    def run(self, source: str, *arguments: str, **environment: str) -> str:
        """Run a script to its end, which must be a good one; returns its stdout."""
        process = self.start(source, *arguments, **environment)
        stdout, stderr = self.finish(process)
        assert process.returncode == 0, f"exit code {process.returncode}\n{stdout}\n{stderr}"
        return stdout

    def wait_until(self, condition: Callable[[], bool], bound_s: float = 30) -> None:
        """Wait until a file or process outside shows what is waited for."""
        until = time.monotonic() + self._bound_s(bound_s)
        while not condition():
            assert time.monotonic() < until, "this did not happen within the bound"
            time.sleep(0.005)

    def close(self) -> None:
        """End what is still running."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate()


@pytest.fixture
def script(tmp_path: Path, bound_s: Callable[[float], float], nothing_left: None) -> Iterator[Script]:
    """See `Script`."""
    script = Script(tmp_path, bound_s)
    yield script
    script.close()


def is_gone(pid: int) -> bool:
    """Whether a process is dead. Where nobody reaps them, dead orphans stay to be seen."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
