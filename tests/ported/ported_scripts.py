"""Users' scripts for Ray Tune: port one, which changes only its import lines, and run it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SCRIPTS = HERE / "scripts"
OUTCOMES = HERE / "outcomes"
NAMES = sorted(path.stem for path in SCRIPTS.glob("*.py"))

_IMPORTS = (
    # before               after
    (r"import ray(?=$|\s*#)", "import minitune.ray as ray"),
    (r"import ray\.(?=[\w.]+ as )", "import minitune."),
    (r"from ray(?=[. ])", "from minitune"),
)


def ported(source: str) -> str:
    """The script with `ray` replaced by `minitune` in its import lines."""
    for before, after in _IMPORTS:
        source = re.sub(rf"^(\s*){before}", rf"\1{after}", source, flags=re.MULTILINE)
    return source


def environment(directory: Path) -> dict[str, str]:
    """The variables for a script. Its storage is below `directory`, which has no earlier run."""
    return {**os.environ, "STORAGE": str(directory / "storage"), "PYTHONWARNINGS": "ignore"}


def command(script: Path, how: str) -> tuple[list[str], str | None]:
    """The command that runs a script, and the text for its stdin.

    Args:
        script: The file.
        how: `file`; `stdin`; `cells`: in a namespace without a module, as in a notebook.
    """
    if how == "file":
        return [sys.executable, str(script)], None
    if how == "stdin":
        return [sys.executable, "-"], script.read_text()
    cells = "import sys; name = sys.argv.pop(1); exec(compile(open(name).read(), '<cell>', 'exec'), {})"
    return [sys.executable, "-c", cells, str(script)], None


def outcome(script: Path, env: dict[str, str], timeout_s: float, how: str = "file") -> Any:
    """Run a script to its end in a new interpreter, and return its line of JSON."""
    arguments, stdin = command(script, how)
    done = subprocess.run(
        arguments, input=stdin, env=env, cwd=script.parent, capture_output=True, text=True, timeout=timeout_s
    )
    return said_in(script, done.stdout + done.stderr, done.returncode)


def said_in(script: Path, output: str, exit_code: int) -> Any:
    """The line of JSON in the output of a script, which must have ended well."""
    if exit_code:
        raise RuntimeError(f"{script.name} ended with exit code {exit_code}\n{output}")
    # it may not be the last line, because the output of workers may follow
    return json.loads([line for line in output.splitlines() if line.startswith(("{", "["))][-1])
