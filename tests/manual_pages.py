"""README.md and the pages of the manual: their code blocks, and how each kind is run.

| block | what happens to it |
|---|---|
| `python` | the blocks of a page make one script, which runs in a fresh home directory |
| `text` directly below | what that block printed; a line `...` stands for any number of lines |
| any that begins with `# train.py` or `// train.c` | it is written to that file, for the commands of the page |
| `python` that begins with `# needs PACKAGE` | a script of its own; see `OPTIONAL` |
| `console` | each `$ COMMAND` runs in bash after the script, in the same home; the lines below it are its output |
| `sh`, `ini` | the syntax is checked; `tests/extras/program` runs those with `minitune run` |
| any other `text` | a picture or listing: a test must know it, see `PICTURES` |

Dates, ids, paths and times differ from machine to machine; they are masked before texts are compared. Run this file
with `--write` to put what the commands and scripts print now into the pages.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kit import variables_of_scripts

ROOT = Path(__file__).resolve().parent.parent
MANUAL = ROOT / "minitune" / "docs"
README = ROOT / "README.md"
_NOT_OF_A_HOME = ("MINITUNE_", "PYTEST_XDIST_")
HOME_SHOWN = "/home/me"
"""The home directory that the pages show."""

OPTIONAL = {
    "scikit-learn": "manual",
    "pandas": "manual",
    "optuna": "manual",
    "tensorboardX": "manual",
    "matplotlib": "manual",
    "xgboost": "manual",
    "lightgbm": "manual",
    "hydra-core": "manual",
    "torch": "manual_torch",
    "lightning": "manual_torch",
    "ray": "ray",
}
"""Packages that a block may need, and the folder of `tests/extras` whose tests run it. The main suite compiles it."""

FILES = {"py": "python", "sh": "sh", "yaml": "yaml", "c": "c"}
"""The language of a block that is a file, by the end of the file's name."""

IN_PROCESSES = {"first-run", "output", "resources", "storage", "trainables"}
"""The pages whose trials run in processes, as a reader's do. Those of the others run inline, which is twice as fast."""

PICTURES = {
    "live view": "best so far",
    "journal": "start   attempt 1",
    "architecture": "driver: one process",
    "pipes": "control pipe: stop",
    "step": "a command for the worker",
    "resume": "load the snapshot",
}
"""Text blocks that are no output of a block above them: a part of each, by the name that the test of it asks for."""

MASKS = (
    (r"\x1b\[[0-9;]*m", ""),
    (r"\bfloat division by zero", "division by zero"),  # before Python 3.14
    (r"\d{4}-\d\d-\d\d[ _T]\d\d[:-]\d\d[:-]\d\d", "<date>"),
    (r"(?<![A-Za-z0-9])[0-9a-f]{5,8}_(\d{5})\b", r"<id>_\1"),
    (r"\d+\.\d+\.\d+\.\d+:\d+", "<ip>:<pid>"),
    (r"\bpid \d+", "pid <pid>"),
    (r"(~|(?<![\w.])/)[\w./=,-]*<date>", "<path>"),
    (r'File "[^"]*", line \d+', 'File "<path>", line <n>'),
    (r"^> .*\(\d+\)", "> <path>(<n>)"),
    (r"\bseed \d{3,}", "seed <n>"),
    (r"^[ ~^]+$", ""),
    (r"\d+(\.\d+)?/\d+(\.\d+)? ?Gi?B", "<memory>"),
    (r"\d+(\.\d+)? (kB|MB|GB|GiB)\b", "<memory>"),
    (r"\b\d+(\.\d+)?/\d+(\.\d+)? (CPUs|GPUs)", r"<amount> \3"),
    (r"running for [\d:.]+", "running for <time>"),
    (r"[\d.e-]+( +\| +[\d.e-]+ \|)$", r"<time>\1"),
    (r"(?<![\d.])(\d+ ?(min|hr|h|m) ?)*\d+(\.\d+)?(e-\d+)? ?s(econds)?\b", "<time>"),
    (r"<time> of <time> \(\d+%\)", "<time> of <time>"),
    (r"[-─═ ]{2,}", " "),
)
"""Texts that differ from run to run or from machine to machine; column widths follow from them."""


@dataclass(frozen=True)
class Block:
    """One fenced block of a page.

    Attributes:
        page: The file that it stands in.
        line: The number of its first line below the fence, from 1 on.
        language: What stands behind the opening fence.
        body: Its text.
    """

    page: Path
    line: int
    language: str
    body: str

    @property
    def file_name(self) -> str | None:
        """The file that a block is, or None."""
        found = re.match(r"(?:#|//) ([\w/]+\.(\w+))\n", self.body)
        return found[1] if found and FILES.get(found[2]) == self.language else None

    @property
    def package(self) -> str | None:
        """The optional package that a block of Python needs, or None."""
        found = re.match(r"# needs ([\w-]+)", self.body) if self.language == "python" else None
        return found[1] if found else None

    @property
    def is_script(self) -> bool:
        """Whether it is a part of its page's script."""
        return self.language == "python" and self.file_name is None and self.package is None


@dataclass(frozen=True)
class Printed:
    """What a block, or one command of it, printed.

    Attributes:
        source: The code or the command.
        shown: The output that the page shows.
        actual: The output that there was, with the home directory replaced by `HOME_SHOWN`.
    """

    source: str
    shown: str
    actual: str

    @property
    def agrees(self) -> bool:
        """Whether the shown output is what there was, or its end."""
        return agree(self.shown, self.actual)


def pages() -> list[Path]:
    """The README and every page of the manual."""
    return [README, *sorted(MANUAL.glob("*.md"))]


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, text.count("\n", 0, found.start()) + 2, found[1], found[2])
        for found in re.finditer(r"^```([^\n]*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    ]


def scripts_of(page: Path) -> list[list[tuple[Block, Block | None]]]:
    """The blocks of each script of a page, each block with the text block that shows its output, if there is one."""
    parts = [pair for pair in _with_outputs(page) if pair[0].is_script]
    return [parts] if parts else []


def alone(page: Path) -> list[tuple[Block, Block | None]]:
    """The blocks that need an optional package, each with the text block that shows its output."""
    return [pair for pair in _with_outputs(page) if pair[0].package is not None]


def needing(*packages: str) -> list[tuple[Block, Block | None]]:
    """The blocks of all pages that need one of these packages, each with the text block that shows its output."""
    return [pair for page in pages() for pair in alone(page) if pair[0].package in packages]


def outputs(page: Path) -> list[Block]:
    """The text blocks that show what a block of Python printed."""
    return [shown for _, shown in _with_outputs(page) if shown is not None]


def _with_outputs(page: Path) -> list[tuple[Block, Block | None]]:
    found = blocks(page)
    lines = page.read_text(encoding="utf-8").splitlines()
    pairs = []
    for block, following in itertools.zip_longest(found, found[1:]):
        if block.language != "python":
            continue
        shown = None
        if following is not None and following.language == "text" and block.file_name is None:
            end = block.line + block.body.count("\n")  # the line of the closing fence
            if not "".join(lines[end : following.line - 2]).strip():
                shown = following
        pairs.append((block, shown))
    return pairs


def commands(block: Block) -> list[tuple[str, str]]:
    """Each command of a console block, with the output that is shown for it."""
    parts = re.split(r"^\$ ", block.body, flags=re.MULTILINE)
    if parts[0].strip():
        raise ValueError(f"a console block must begin with a command, but {where(block)} begins with {parts[0]!r}")
    return [(line, output) for line, _, output in (part.partition("\n") for part in parts[1:])]


def where(block: Block) -> str:
    """The place of a block, for messages."""
    return f"{block.page.name}:{block.line}"


def masked(text: str) -> list[str]:
    """The lines of a text without what differs from run to run."""
    for pattern, replacement in MASKS:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return [line.strip() for line in text.strip().splitlines() if line.strip()]


def agree(shown: str, actual: str) -> bool:
    """Whether `shown` is `actual` or its end, up to what is masked; `...` stands for any number of lines."""
    wanted, there = masked(shown), masked(actual)
    if "..." not in wanted:
        return not wanted or there[-len(wanted) :] == wanted
    pattern = "".join(r"(?:.*\n)*?" if line == "..." else re.escape(line) + r"\n" for line in wanted)
    return re.search(rf"(?:^|\n){pattern}\Z", "".join(f"{line}\n" for line in there)) is not None


class Home:
    """A fresh home directory in which the blocks of one page run.

    Args:
        directory: It; empty so far.
        bound_s: Seconds after which a script or command counts as hanging.
    """

    def __init__(self, directory: Path, bound_s: float = 120):
        self._directory = directory
        self._bound_s = bound_s
        self._environment = {
            **{name: value for name, value in variables_of_scripts().items() if not name.startswith(_NOT_OF_A_HOME)},
            **{name: value for name, value in os.environ.items() if name.startswith("MINITUNE_TEST_")},
            "HOME": str(directory),
            "COLUMNS": "120",
            "NO_COLOR": "1",
            "MINITUNE_WARN_THRESHOLD_S": "60",  # a busy machine is slow: no page shows the warning about that
        }
        programs = directory / ".programs"
        programs.mkdir()
        for name, words in {"minitune": "-m minitune", "python": "", "pytest": "-m pytest -p no:cacheprovider"}.items():
            program = programs / name
            program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n', encoding="utf-8")
            program.chmod(0o755)
        self._environment["PATH"] = os.pathsep.join([str(programs), os.environ.get("PATH", "")])

    def run_page(self, page: Path) -> list[Printed]:
        """Run the script and then the commands of a page; what needs an optional package is left out.

        Raises:
            AssertionError: If the script fails or writes to its standard error.
        """
        self._write_files(page)
        printed = []
        environment = {} if page.stem in IN_PROCESSES else {"MINITUNE_EXECUTOR": "inline"}
        for number, parts in enumerate(scripts_of(page)):
            text = "print('-- next --')\n".join(f"{block.body}\n" for block, _ in parts)
            output = self._run_script(f"{page.stem}_example_{number}.py", text, **environment)
            sections = output.split("-- next --\n")
            for (block, shown), section in zip(parts, sections, strict=True):
                if shown is not None:
                    printed.append(Printed(block.body, shown.body, section))
        for block in blocks(page):
            if block.language == "console":
                printed += [self._run_command(line, shown) for line, shown in commands(block)]
        return printed

    def run_alone(self, block: Block, shown: Block | None) -> Printed:
        """Run a block that needs an optional package."""
        printed = self._run_script(f"needs_{block.package}_{block.line}.py", block.body, quiet=False)
        return Printed(block.body, shown.body if shown else "", printed)

    def run_shell(self, block: Block) -> str:
        """Run a block of commands that need other programs, with the files of its page; returns its output."""
        self._write_files(block.page)
        done = self._run(["bash", "-ec", block.body], "", subprocess.STDOUT)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def _write_files(self, page: Path) -> None:
        for block in blocks(page):
            if block.file_name is not None:
                (self._directory / block.file_name).write_text(block.body, encoding="utf-8")

    def _run_script(self, name: str, text: str, quiet: bool = True, **environment: str) -> str:
        script = self._directory / name
        script.write_text(text, encoding="utf-8")
        done = self._run([sys.executable, str(script)], "", subprocess.PIPE, **environment)
        assert done.returncode == 0, f"{name} failed\n{done.stdout}\n{done.stderr}"
        assert not (quiet and done.stderr), f"{name} wrote to its standard error\n{done.stderr}"
        return self._shown(done.stdout)

    def _run_command(self, line: str, shown: str) -> Printed:
        typed = "".join(re.findall(r"^\(Pdb\) (.*\n)", shown, flags=re.MULTILINE))
        without = re.sub(r"^\(Pdb\) .*\n", "(Pdb) ", shown, flags=re.MULTILINE)
        done = self._run(["bash", "-c", line], typed, subprocess.STDOUT)
        if not shown.strip():
            assert done.returncode == 0, f"`{line}` failed with {done.returncode}\n{done.stdout}"
        return Printed(line, without, self._shown(done.stdout))

    def _run(
        self, words: Sequence[str], typed: str, stderr: int, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words,
            cwd=self._directory,
            env={**self._environment, **environment},
            input=typed,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            timeout=self._bound_s,
        )

    def _shown(self, output: str) -> str:
        return output.replace(str(self._directory), HOME_SHOWN)


def write_outputs(names: Sequence[str]) -> None:
    """Put what scripts and commands print now into the pages, where it differs from what these show."""
    for page in pages():
        if names and page.stem not in names:
            continue
        with tempfile.TemporaryDirectory() as directory:
            text = page.read_text(encoding="utf-8")
            for printed in Home(Path(directory)).run_page(page):
                if not printed.agrees:
                    lines = "\n".join(line.rstrip() for line in printed.actual.strip().splitlines())
                    text = text.replace(printed.shown, f"{lines}\n", 1)
                    print(f"{page.name}: {printed.source.strip().splitlines()[-1]}")
            page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Put what the examples print now into README.md and the manual.")
    parser.add_argument("--write", action="store_true", required=True)
    parser.add_argument("page", nargs="*", help="names of pages, such as seeds; by default all")
    write_outputs(parser.parse_args().page)
