"""What the README shows is true: its example prints what stands under it; its commands are those that are tested."""

from __future__ import annotations

import importlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minitune._live import Row, Snapshot, render

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")

MASKS = (
    (r"\d{4}-\d\d-\d\d[ _]\d\d[:-]\d\d[:-]\d\d", "<date>"),
    (r"(?<![A-Za-z0-9])[0-9a-f]{4,8}_(\d{5})\b", r"<id>_\1"),
    (r"\d+\.\d+\.\d+\.\d+:\d+", "<ip>:<pid>"),
    (r"(~|(?<![\w.])/)[\w./=,-]*<date>", "<path>"),
    (r"(?<![\w.])/[\w./-]*/minitune_results/", "<storage>/"),
    (r'File "[^"]+", line \d+', 'File "<path>", line <n>'),
    (r"^> .*\(\d+\)", "> <path>(<n>)"),
    (r"\bseed \d+", "seed <n>"),
    (r"^[ ~^]+$", ""),
    (r"\d+(\.\d+)?/\d+(\.\d+)? ?Gi?B", "<memory>"),
    (r"\b\d+(\.\d+)?/\d+(\.\d+)? (CPUs|GPUs)", r"<amount> \3"),
    (r"running for [\d:.]+", "running for <time>"),
    (r"[\d.e-]+( +\| +[\d.e-]+ \|)$", r"<time>\1"),
    (r"(?<![\d.])(\d+ ?(min|hr|h|m) ?)*\d+(\.\d+)? ?s(econds)?\b", "<time>"),
    (r"<time> of <time> \(\d+%\)", "<time> of <time>"),
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


def examples() -> list[tuple[str, str]]:
    """Each block of Python, and the text behind it that is its output; an empty one if there is none."""
    found = []
    for language, block in re.findall(r"^```(\w+)\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL):
        if language == "python":
            found.append((block, ""))
        elif language == "text" and found and not found[-1][1]:
            found[-1] = (found[-1][0], block)
        elif found:
            found.append(("", "-"))  # what follows is not the output of Python any more
    return [example for example in found if example[0]]


def commands() -> list[tuple[str, str, str]]:
    """Each command of the blocks for a console: what is typed, what is then typed at the debugger, what it prints."""
    found = []
    for block in blocks("console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, _, output = part.partition("\n")
            typed = "".join(re.findall(r"^\(Pdb\) (.*\n)", output, flags=re.MULTILINE))
            found.append((line, typed, re.sub(r"^\(Pdb\) .*\n", "(Pdb) ", output, flags=re.MULTILINE)))
    return found


def test_the_examples_and_the_commands_print_what_the_readme_shows(
    tmp_path: Path, bound_s: Callable[[float], float]
) -> None:
    """All blocks are one script: a later one may use what an earlier one has made, and the commands what all have."""
    script = tmp_path / "example.py"
    script.write_text("print('-- next --')\n".join(f"{code}\n" for code, _ in examples()), encoding="utf-8")
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "MINITUNE_STORAGE_PATH": "~/minitune_results",
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "PYTHONUNBUFFERED": "1",
    }

    def run(words: list[str], typed: str, stderr: int) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path,
            env=environment,
            input=typed,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            timeout=bound_s(90),
        )

    done = run([str(script)], "", subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, "")
    outputs = done.stdout.split("-- next --\n")
    for (code, text), output in zip(examples(), outputs, strict=True):
        shown = masked(text)
        if shown:
            assert masked(output)[-len(shown) :] == shown, code
    for line, typed, text in commands():
        name, *arguments = shlex.split(line)
        assert name == "minitune"
        done = run(["-m", name, *arguments], typed, subprocess.STDOUT)
        assert masked(done.stdout) == masked(text), line


def test_the_picture_of_the_live_view_is_what_is_drawn() -> None:
    (picture,) = [block for block in blocks("text") if "about 6 s left" in block]
    rows = {"00012": (2, 0.60796, 0.174564, 0.912718, 6, 1.2), "00013": (2, 0.7449, 0.714132, 0.642934, 2, 0.4)}
    rows |= {"00017": (3, 0.754332, 1.4874, 0.2563, 1, 0.2)}
    running = [
        Row(f"train_2e421_{number}", {"layers": layers, "lr": lr}, {"loss": loss, "accuracy": accuracy}, step, time_s)
        for number, (layers, lr, loss, accuracy, step, time_s) in rows.items()
    ]
    running.append(Row("train_2e421_00018", {"layers": 1, "lr": 0.687452}, time_s=0.1))
    snapshot = Snapshot(
        title="digits",
        elapsed_s=3.1,
        counts={"RUNNING": 4, "TERMINATED": 15, "PENDING": 41},
        total=60,
        per_s=5.92,
        left_s=6.1,
        best=Row("train_2e421_00000", {"layers": 2, "lr": 0.874941}, {"loss": 0.0174564}, 20),
        running=running,
        resources=["4.0/4 CPUs", "memory 4.7/23.5 GiB"],
    )

    assert [line.rstrip() for line in render(snapshot, 100, 30)] == picture.splitlines()


STORY = """
    import os, signal, tempfile
    from minitune import Checkpoint, FailureConfig, RunConfig, Tuner, get_checkpoint, get_context, report

    def train(config):
        begin = 1
        if get_checkpoint() is not None:
            begin = int(open(os.path.join(get_checkpoint().path, "i")).read()) + 1
        for i in range(begin, 5):
            if i == 3 and get_context().get_attempt() == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            with tempfile.TemporaryDirectory() as directory:
                with open(os.path.join(directory, "i"), "w") as file:
                    file.write(str(i))
                report({"i": i}, checkpoint=Checkpoint(directory))

    run_config = RunConfig(name="run", verbose=0, failure_config=FailureConfig(max_failures=1))
    Tuner(train, param_space={"x": 1}, run_config=run_config).fit()
"""


def told(record: dict[str, Any]) -> str | None:
    """One line of the README's story for a record of the journal."""
    kind, checkpoint = record["type"], record.get("checkpoint")
    if kind == "trial":
        return f"trial   {record['config']}"
    if kind == "start":
        origin = "the beginning" if checkpoint is None else f"checkpoint_{checkpoint:06d}"
        return f"start   attempt {record['attempt']} from {origin}"
    if kind == "result":
        return f"result  {record['number']} checkpoint_{checkpoint['number']:06d}"
    if kind == "status":
        cause = f": {record['cause']}" if record["status"] == "PENDING" else ""
        return f"status  {record['status']}{cause}"
    return None


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_the_story_of_a_killed_trial_is_that_of_a_journal(tmp_path: Path, bound_s: Callable[[float], float]) -> None:
    script = tmp_path / "story.py"
    script.write_text(textwrap.dedent(STORY), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MINITUNE_STORAGE_PATH": str(tmp_path)}
    subprocess.run([sys.executable, str(script)], env=environment, check=True, timeout=bound_s(60))

    lines = (tmp_path / "run" / "journal").read_text(encoding="utf-8").splitlines()
    story = [told(json.loads(line[9:])) for line in lines]
    (shown,) = [block for block in blocks("text") if block.startswith("trial ")]
    assert [line for line in story if line is not None] == shown.strip().splitlines()


def test_each_component_is_where_the_table_has_it_and_as_public_as_it_says() -> None:
    rows = re.findall(r"^\| \w+ \| `([\w.]+)` \| (public|internal) \|", README, flags=re.MULTILINE)
    assert len(rows) == 8
    for path, mark in rows:
        parent, _, name = path.rpartition(".")
        package = importlib.import_module(parent)
        assert getattr(package, name) is not None
        assert (name in getattr(package, "__all__", ())) == (mark == "public"), path


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
