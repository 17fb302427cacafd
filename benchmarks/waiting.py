"""Measures what people wait for: a script that begins, commands and results of a large run, a resume.

    python benchmarks/waiting.py                           # 10,000 trials of 30 reports; the runs take minutes to make
    python benchmarks/waiting.py --million                 # also 10,000 trials of 100 reports: a million
    python benchmarks/waiting.py --only best report --runs /tmp/runs      # the runs stay there for the next time

Each row is one process. It has a count that does not depend on the machine (modules that the process imports beyond
those of bare Python), the CPU time with that of its children, the wall time, and the peak of memory, beside the limits.
Of several rounds, the least CPU time counts: a busy machine adds to it and never takes away. The exit status is 1 if a
row exceeds a limit.

Another row is another `Wait`.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent / "runs" / "waiting_run.py"
SOURCE = SCRIPT.parent.parent.parent
MODULES = "import sys as _s, atexit as _a; _a.register(lambda: print('modules', len(_s.modules), file=_s.stderr))\n"
"""Makes a process tell how many modules it has loaded."""
COMMAND = "from minitune.commands.cli import main; _s.argv[0] = 'minitune'; _s.exit(main())"
BARE = "import multiprocessing, json, logging, socket, os; os.fork() or os._exit(0); os.wait()"
"""What a script with one process of its own costs without us."""
FIRST = (
    "import minitune as tune\n"
    "tune.Tuner(lambda config: tune.report({'loss': 1}), run_config=tune.RunConfig(verbose=0, callbacks=[])).fit()"
)
RESULTS = """from minitune import Tuner
def train(config): pass
grid = Tuner.restore(_s.argv[1], train).get_results()
len(grid)
"""
FRAME = f"""{RESULTS}
from importlib.util import find_spec
grid.get_dataframe() if find_spec("pandas") else grid.get_rows()
"""


@dataclass(frozen=True)
class Wait:
    """One thing that people wait for.

    Attributes:
        name: Its name in the table, and for `--only`.
        code: The Python that the process runs.
        arguments: Its arguments; `{small}`, `{large}`, `{million}` and `{out}` stand for the paths of runs and of a
            file.
        most_cpu_s: The limit of CPU time in seconds; None if there is none.
        times_bare: The limit as a multiple of `BARE`, or of an empty program with `is_command`; None if there is none.
        most_mb: The limit of memory in megabytes.
        most_modules: The limit of the count.
        is_command: Whether it may take 30 ms more than `times_bare` allows.
        most_out_mb: The limit of the size of `{out}` in megabytes.
    """

    name: str
    code: str
    arguments: Sequence[str] = ()
    most_cpu_s: float | None = None
    times_bare: float | None = None
    most_mb: float | None = None
    most_modules: int | None = None
    is_command: bool = False
    most_out_mb: float | None = None


def small(name: str) -> Wait:
    """A command on a run of 100 trials."""
    arguments = (name, "{small}")
    if name.startswith("-"):
        arguments = (name,)
    return Wait(f"{name}, 100 trials", COMMAND, arguments, times_bare=1.5, is_command=True)


WAITS = (
    Wait("first result", FIRST, times_bare=2.0, most_modules=170),
    *map(small, ("--help", "ls", "best", "show")),
    Wait("ls", COMMAND, ("ls", "{large}"), most_cpu_s=6),
    Wait("best", COMMAND, ("best", "{large}"), most_cpu_s=6),
    Wait("show", COMMAND, ("show", "{large}"), most_cpu_s=6),
    Wait("show a trial", COMMAND, ("show", "{large}", "7"), most_cpu_s=6),
    Wait("report", COMMAND, ("report", "{large}", "--output", "{out}"), most_cpu_s=10, most_mb=250, most_out_mb=6),
    Wait("get_results", RESULTS, ("{large}",), most_cpu_s=6),
    Wait("get_dataframe", FRAME, ("{large}",), most_cpu_s=6 + 2),
    Wait("ls, a million", COMMAND, ("ls", "{million}"), most_cpu_s=15, most_mb=300),
    Wait("watch, a million", COMMAND, ("watch", "{million}"), most_cpu_s=15, most_mb=300),
    Wait("resume, a million", "", ("{million}",), most_cpu_s=15),
)


@dataclass(frozen=True)
class Figures:
    """What one process took."""

    modules: int
    cpu_s: float
    wall_s: float
    memory_mb: float


def measure(command: Sequence[str]) -> Figures:
    """Run a process to its end. Blocks.

    Raises:
        RuntimeError: If it fails. The text has the end of its output.
    """
    path = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])
    started_s = time.perf_counter()
    with (
        tempfile.TemporaryFile() as output,
        subprocess.Popen(
            command, env={**os.environ, "PYTHONPATH": path}, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        ) as process,
    ):
        _, status, used = os.wait4(process.pid, 0)  # the child's own use, and that of its children
        process.returncode = os.waitstatus_to_exitcode(status)
        wall_s = time.perf_counter() - started_s
        output.seek(0)
        text = output.read().decode(errors="replace")
    if process.returncode:
        raise RuntimeError(f"{command} failed:\n{text[-2000:]}")
    counts = [line.split()[1] for line in text.splitlines() if line.startswith("modules ")]
    return Figures(int(counts[-1]) if counts else 0, _cpu_s(used), wall_s, used.ru_maxrss / 1024)


def _cpu_s(used: resource.struct_rusage) -> float:
    return used.ru_utime + used.ru_stime


def least(command: Callable[[], Sequence[str]], rounds: int) -> Figures:
    """The round with the least CPU time."""
    return min((measure(command()) for _ in range(rounds)), key=lambda figures: figures.cpu_s)


def make_run(path: Path, trials: int, reports: int) -> None:
    """Make the run if it is not there yet. Blocks, for minutes if it is large."""
    if not path.exists():
        print(f"making {path}: {trials} trials of {reports} reports", file=sys.stderr)
        measure([sys.executable, str(SCRIPT), str(path), str(trials), str(reports)])


def killed_copy(run: Path, at: Path) -> Path:
    """The journal of a run as if its driver had been killed before the last trial ended, with what a resume needs."""
    at.mkdir()
    for file in run.iterdir():
        if file.is_file():
            shutil.copyfile(file, at / file.name)
    for name in os.listdir(run):
        if (run / name).is_dir():
            (at / name).symlink_to(run / name)
    # Only the end is read: a process that it starts would seem to have as much memory.
    with (at / "journal").open("r+b") as journal:
        begin = max(0, journal.seek(0, os.SEEK_END) - 100_000)
        journal.seek(begin)
        tail = journal.read()
        journal.truncate(begin + tail.rindex(b"\n", 0, tail.rindex(b'{"type":"status"')) + 1)
    return at


def main() -> int:
    """Measure and print. Return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", metavar="ROW", help="rows whose names begin so")
    parser.add_argument("--runs", type=Path, help="where the runs are, or are made and stay (default: not kept)")
    parser.add_argument("--trials", type=int, default=10_000, help="trials of the large run (default: 10,000)")
    parser.add_argument("--million", action="store_true", help="also the rows of a million reports")
    parser.add_argument("--rounds", type=int, default=3, help="processes for each row (default: 3)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        runs = (options.runs or Path(scratch)).resolve()
        runs.mkdir(parents=True, exist_ok=True)
        os.environ["MINITUNE_STORAGE_PATH"] = f"{scratch}/storage"
        return 1 if sum([exceeds(wait, runs, Path(scratch), options) for wait in chosen(options)]) else 0


def chosen(options: argparse.Namespace) -> list[Wait]:
    """The rows that the options name."""
    names = tuple(options.only or ("",))
    return [wait for wait in WAITS if wait.name.startswith(names) and (options.million or "million" not in wait.name)]


def exceeds(wait: Wait, runs: Path, scratch: Path, options: argparse.Namespace) -> bool:
    """Measure and print one row, and return whether it exceeds a limit."""
    sizes = {"small": (100, 10), "large": (options.trials, 30), "million": (options.trials, 100)}
    paths = {"out": str(scratch / "page.html")}
    for name, (trials, reports) in sizes.items():
        paths[name] = str(runs / f"{name}-{trials}-{reports}")
        if any(f"{{{name}}}" in argument for argument in wait.arguments):
            make_run(Path(paths[name]), trials, reports)
    arguments = [argument.format(**paths) for argument in wait.arguments]

    def command() -> list[str]:
        if wait.code:
            return [sys.executable, "-c", MODULES + wait.code, *arguments]
        copy = killed_copy(Path(arguments[0]), Path(tempfile.mkdtemp(dir=scratch)) / "run")
        return [sys.executable, str(SCRIPT), str(copy), str(options.trials), "100", "resume"]

    found = least(command, options.rounds if wait.code else 1)
    bare_code = "pass" if wait.is_command else BARE
    bare = least(lambda: [sys.executable, "-c", MODULES + bare_code], options.rounds)
    modules = max(0, found.modules - bare.modules)
    cpu_limit_s = wait.most_cpu_s
    if wait.times_bare is not None:
        cpu_limit_s = wait.times_bare * bare.cpu_s + 0.03 * wait.is_command
    pairs = [
        ("modules", float(modules), wait.most_modules),
        ("s CPU", found.cpu_s, cpu_limit_s),
        ("s", found.wall_s, None),
        ("MB", found.memory_mb, wait.most_mb),
    ]
    if wait.most_out_mb is not None:
        pairs.append(("MB file", os.path.getsize(paths["out"]) / 1e6, wait.most_out_mb))
    cells = []
    for unit, value, limit in pairs:
        text = f"{value:7.4g} {unit}"
        if limit is not None:
            text += f" (limit {limit:.3g}{'' if value <= limit else ', EXCEEDED'})"
        cells.append(text)
    print(f"{wait.name:<20} {', '.join(cells)}", flush=True)
    return any(limit is not None and value > limit for _, value, limit in pairs)


if __name__ == "__main__":
    sys.exit(main())
