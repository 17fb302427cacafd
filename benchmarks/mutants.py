"""Puts small faults into the code, one at a time, and asks whether the tests notice.

    python benchmarks/mutants.py                          # all of them: see below
    python benchmarks/mutants.py --processes 4 --verbose
    python benchmarks/mutants.py --only journal ledger    # those whose folder, file or text has one of these words
    python benchmarks/mutants.py --check                  # does each fault still have its place? (a second)
    python benchmarks/mutants.py --check --move           # the same, and follows code that stands in another file now

The list (`mutants_list.py`) gives for each fault its file, a text that stands there exactly once, the text that takes
its place, and the tests that should notice. A fault is one that a careful reviewer might overlook: a check is gone, a
comparison has the wrong end, a record comes after its effect, a release is forgotten. It changes what a user can see.

The command puts faults into copies of the checkout, never into the checkout itself. First it runs the named tests
without a fault, for a test that fails anyway notices nothing. Then each fault gets its turn. It is noticed if one of
its tests fails or hangs beyond the bound. The command prints a table by folder and the unnoticed faults. The exit
status is 1 if those are more than one in ten, or if a fault has lost its place.

Measured in one process on a busy machine of two cores: the tests without a fault take 4 minutes, and the 211 faults 22
minutes more, most of them 2 to 6 seconds each.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mutants_list import FAULTS

CHECKOUT = Path(__file__).resolve().parent.parent
LIST = Path(__file__).with_name("mutants_list.py")
COPIED = ("minitune", "tests", "benchmarks", "README.md", "pyproject.toml", "setup.cfg")
PACKAGE = "minitune"
WANTED_SHARE = 0.9
BOUND_S = 60.0
"""How long the tests of one fault may take, times `MINITUNE_TEST_TIMEFACTOR`."""


@dataclass
class Fault:
    """One fault, and what its tests made of it.

    Attributes:
        file: The file, from the top of the checkout.
        old: Text that stands there exactly once.
        new: What takes its place.
        tests: What pytest is to run.
        noticed_by: The first test that has failed; empty if none has.
        took_s: How long the tests took, in seconds.
    """

    file: str
    old: str
    new: str
    tests: list[str]
    noticed_by: str = field(default="", compare=False)
    took_s: float = field(default=0.0, compare=False)

    @property
    def folder(self) -> str:
        """The folder of the package in which the file lies."""
        return next(iter(Path(self.file).parts[1:-1]), "(root)")

    def __str__(self) -> str:
        before, after = (" ".join(text.split()) or "(nothing)" for text in (self.old, self.new))
        return f"{self.file}: {before[:90]!r} -> {after[:90]!r}"

    def is_about(self, words: Sequence[str]) -> bool:
        """Whether one of the words occurs in its folder, file or text."""
        return not words or any(word in part for word in words for part in (self.folder, self.file, self.old))


def all_faults() -> list[Fault]:
    """All faults of the list, in its order."""
    return [Fault(file, old, new, tests.split()) for file, old, new, tests in FAULTS]


# -- does each fault have its place? ---------------------------------------------------------------------------------


def misplaced(faults: Sequence[Fault]) -> Iterator[tuple[Fault, str, str]]:
    """The faults whose text does not stand in its file exactly once, or whose tests are not there.

    Yields:
        (the fault, what is wrong, the one other file in which its text stands exactly once; empty if there is none).
    """
    sources = {
        path.relative_to(CHECKOUT).as_posix(): path.read_text(encoding="utf-8")
        for path in (CHECKOUT / PACKAGE).rglob("*.py")
    }
    for fault in faults:
        count = sources.get(fault.file, "").count(fault.old)
        if count != 1:
            where = [file for file, text in sources.items() if text.count(fault.old) == 1 and file != fault.file]
            found = where[0] if len(where) == 1 and not count else ""
            yield fault, f"its text stands there {count} times", found
        elif fault.old == fault.new:
            yield fault, "it changes nothing", ""
        else:
            for test in fault.tests:
                path, _, name = test.partition("::")
                file = CHECKOUT / path
                if not file.exists() or (name and f"def {name.partition('[')[0]}(" not in file.read_text("utf-8")):
                    yield fault, f"there is no {test}", ""


def check(faults: Sequence[Fault], *, moves: bool) -> int:
    """Print what has lost its place; returns the exit status. With `moves` the list follows code that was moved."""
    wrong = list(misplaced(faults))
    for fault, problem, found in wrong:
        print(f"{fault}\n    {problem}" + (f"; it stands in {found}" if found else ""))
    if moves:
        follow({(fault.file, fault.old): found for fault, _, found in wrong if found})
    placed = len(faults) - len({(fault.file, fault.old) for fault, *_ in wrong})
    print(f"{placed} of {len(faults)} faults have their place")
    return 1 if wrong else 0


def follow(moved: Mapping[tuple[str, str], str]) -> None:
    """Change the file of faults in the list, in place.

    Args:
        moved: By file and old text, the file in which the text stands now.
    """
    lines = LIST.read_text(encoding="utf-8").splitlines(keepends=True)
    for node in ast.walk(ast.parse("".join(lines))):
        if isinstance(node, ast.Tuple) and len(node.elts) == 4 and not isinstance(node.elts[0], ast.Name):
            file, old, *_ = (ast.literal_eval(part) for part in node.elts)
            place = node.elts[0]
            if (file, old) in moved:
                line = lines[place.lineno - 1]
                lines[place.lineno - 1] = line.replace(f'"{file}"', f'"{moved[file, old]}"', 1)
    LIST.write_text("".join(lines), encoding="utf-8")


# -- do the tests notice? --------------------------------------------------------------------------------------------


def run_tests(copy: Path, tests: Sequence[str], bound_s: float, *options: str) -> tuple[int | None, str]:
    """Run tests in a copy of the checkout. Blocks.

    Returns:
        The exit status, None if they did not end within the bound, and what was printed.
    """
    env = {
        **os.environ,
        "PYTHONPATH": str(copy),
        "PYTHONDONTWRITEBYTECODE": "1",
        "SOURCE_DATE_EPOCH": "1",  # compiled files go by the content of their source: its date may stay the same
        "MINITUNE_TEST_PROCESSES": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # that of hypothesis takes two seconds to load, and no test needs it
    }
    command = [sys.executable, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider", *options, *tests]
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        process = subprocess.Popen(
            command, cwd=copy, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
        try:
            status: int | None = process.wait(bound_s)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        output.seek(0)
        return status, output.read()


def try_fault(fault: Fault, copy: Path, bound_s: float) -> None:
    """Put a fault into a copy, run its tests, and take it out again. Blocks."""
    path = copy / fault.file
    whole = path.read_text(encoding="utf-8")
    begin_s = time.monotonic()
    path.write_text(whole.replace(fault.old, fault.new), encoding="utf-8")
    try:
        status, printed = run_tests(copy, fault.tests, bound_s, "-x")
    finally:
        path.write_text(whole, encoding="utf-8")
    fault.took_s = time.monotonic() - begin_s
    if status is None:
        fault.noticed_by = f"(not over after {bound_s:.0f} s)"
    elif status:
        failed = _failures(printed)
        last = printed.strip().splitlines()[-1:] or [""]
        fault.noticed_by = (failed or last)[0][:160] or f"(exit status {status})"


def try_all(faults: Sequence[Fault], processes: int, bound_s: float, *, verbose: bool) -> None:
    """Try faults in several copies of the checkout at a time. Blocks."""
    waiting: queue.SimpleQueue[Fault] = queue.SimpleQueue()
    for fault in faults:
        waiting.put(fault)
    told = threading.Lock()

    def work(copy: Path) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                fault = waiting.get_nowait()
                try_fault(fault, copy, bound_s)
                if verbose or not fault.noticed_by:
                    with told:
                        print(
                            f"{fault.took_s:5.1f} s  {fault.noticed_by or 'NOT NOTICED'}\n         {fault}", flush=True
                        )

    with tempfile.TemporaryDirectory(prefix="minitune-mutants-") as directory:
        copies = [copy_checkout(Path(directory, str(number))) for number in range(processes)]
        failing = failing_tests(faults, copies[0], bound_s * 10)
        if failing:
            raise SystemExit("these tests fail without any fault, so they can notice none:\n" + "\n".join(failing))
        threads = [threading.Thread(target=work, args=(copy,)) for copy in copies]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def failing_tests(faults: Sequence[Fault], copy: Path, bound_s: float) -> list[str]:
    """The lines about those of the named tests that fail without a fault. Blocks."""
    tests = list(dict.fromkeys(test for fault in faults for test in fault.tests))
    status, printed = run_tests(copy, tests, bound_s)
    if status == 0:
        return []
    return _failures(printed) or printed.splitlines()[-3:]


def _failures(printed: str) -> list[str]:
    """The lines of pytest's summary; a record of the log may begin with ERROR, too."""
    return [line for line in printed.splitlines() if line.startswith(("FAILED tests", "ERROR tests"))]


def copy_checkout(target: Path) -> Path:
    """A copy of what the tests need, without what was compiled."""
    target.mkdir()
    for name in COPIED:
        source = CHECKOUT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
        elif source.exists():
            shutil.copy2(source, target / name)
    return target


def tell(faults: Sequence[Fault]) -> int:
    """Print the table by folder and what was not noticed; returns the exit status."""
    print(f"\n{'folder':<14}{'faults':>8}{'noticed':>9}")
    for folder in sorted({fault.folder for fault in faults}):
        own = [fault for fault in faults if fault.folder == folder]
        print(f"{folder:<14}{len(own):>8}{sum(bool(fault.noticed_by) for fault in own):>9}")
    unnoticed = [fault for fault in faults if not fault.noticed_by]
    noticed = len(faults) - len(unnoticed)
    print(f"{'all':<14}{len(faults):>8}{noticed:>9}   {noticed / len(faults):.1%}, {WANTED_SHARE:.0%} are wanted")
    for fault in unnoticed:
        print(f"not noticed by {' '.join(fault.tests)}:\n  {fault}")
    return 0 if noticed >= WANTED_SHARE * len(faults) else 1


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="faults with one of these words in them")
    parser.add_argument("--check", action="store_true", help="only see whether each fault still has its place")
    parser.add_argument("--move", action="store_true", help="with --check: let the list follow code that was moved")
    parser.add_argument("--processes", type=int, default=max(1, (os.cpu_count() or 2) // 2), help="at a time")
    parser.add_argument("--verbose", action="store_true", help="tell of each fault which test has noticed it")
    options = parser.parse_args()
    faults = [fault for fault in all_faults() if fault.is_about(options.only)]
    if not faults:
        parser.error(f"no fault is about {' or '.join(options.only)}")
    if options.check:
        return check(faults, moves=options.move)
    if status := check(faults, moves=False):
        return status
    factor = float(os.environ.get("MINITUNE_TEST_TIMEFACTOR", "1"))
    try_all(faults, options.processes, BOUND_S * factor, verbose=options.verbose)
    return tell(faults)


if __name__ == "__main__":
    sys.exit(main())
