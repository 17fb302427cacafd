"""What the README shows is true: its example prints what stands under it; its commands are those that are tested."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")

MASKS = (
    (r"\d{4}-\d\d-\d\d[ _]\d\d[:-]\d\d[:-]\d\d", "<date>"),
    (r"(?<![A-Za-z0-9])[0-9a-f]{4,8}_(\d{5})\b", r"<id>_\1"),
    (r"\d+\.\d+\.\d+\.\d+:\d+", "<ip>:<pid>"),
    (r"(~|(?<![\w.])/)[\w./-]*<date>", "<path>"),
    (r"\d+(\.\d+)?/\d+(\.\d+)? ?Gi?B", "<memory>"),
    (r"\b\d+(\.\d+)?/\d+(\.\d+)? (CPUs|GPUs)", r"<amount> \3"),
    (r"running for [\d:.]+", "running for <time>"),
    (r"[\d.e-]+( +\| +[\d.e-]+ \|)$", r"<time>\1"),
    (r"(?<![\d.])(\d+ ?(min|hr|h|m) ?)*\d+(\.\d+)? ?s(econds)?\b", "<time>"),
    (r"[-─═ ]{2,}", " "),
)
"""What differs from run to run and from machine to machine; column widths follow from it."""


def masked(text: str) -> list[str]:
    for pattern, replacement in MASKS:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return [line.strip() for line in text.strip().splitlines() if line.strip()]


def blocks(language: str) -> list[str]:
    """The code blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


def command(ending: str) -> str:
    """The one command line for a shell that ends so."""
    (found,) = [line for block in blocks("sh") for line in block.splitlines() if line.endswith(ending)]
    return found


def test_the_example_prints_what_the_readme_shows(tmp_path: Path, bound_s: Callable[[float], float]) -> None:
    script = tmp_path / "example.py"
    script.write_text(blocks("python")[0], encoding="utf-8")

    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=bound_s(60),
    )

    assert (done.returncode, done.stderr) == (0, "")
    shown = masked(blocks("text")[0])
    assert masked(done.stdout)[-len(shown) :] == shown


def test_continuous_integration_runs_the_readmes_own_commands() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()

    for shown in (command("-m pytest"), command("minitune demo")):
        # without the last word, a failure of the first steps would go unnoticed: `set -e` ignores it there
        assert f"{shown} || exit 1" in [line.strip() for line in script]


def test_masks_hide_only_what_differs_from_run_to_run() -> None:
    first = "train_ab12c_00003  TERMINATED  127.0.0.1:4711  1.25e-05  total 1.62s in /home/a/runs/f_2026-01-02_03-04-05"
    second = "train_0f12e_00003 TERMINATED 10.0.0.1:17 1.25e-05  total 0.9s in /tmp/f_2027-01-02_13-04-05"

    assert masked(first) == masked(second)
    assert masked(first) != masked(second.replace("1.25e-05", "1.26e-05"))
    assert masked(first) != masked(second.replace("_00003", "_00004"))
