"""Puts small faults into the code, one at a time, and checks whether the tests notice them.

    python benchmarks/mutants.py                          # all faults
    python benchmarks/mutants.py --processes 4 --verbose
    python benchmarks/mutants.py --only journal ledger    # those whose folder, file or text has one of these words
    python benchmarks/mutants.py --check                  # only check that the list fits the code (a second)
    python benchmarks/mutants.py --check --move           # and correct the files of code that was moved

The list (`mutants_list.py`) has for each fault its file, a text that occurs there exactly once, the text that replaces
it, and the tests that should notice. A careful reviewer might overlook the fault: a check is missing, a comparison goes
the wrong way, a record comes after its effect, something is not released. It changes what a user can see.

The command puts faults into copies of the checkout, never into the checkout itself. First it runs the named tests
without a fault, since a test that fails anyway notices nothing. Then it tries one fault after another. A fault is
noticed if one of its tests fails, or takes longer than the limit. The command prints a table by folder, and the faults
that were not noticed. If those are more than one in ten, or the list does not fit the code, the exit status is 1.

Measured with one process on a busy machine with two cores: the tests without a fault take 4 minutes, and 211 faults
take 22 minutes more, most of them 2 to 6 seconds each.
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
    """One fault, and the result of its tests.

    Attributes:
        file: The path of the file in the checkout.
        old: A text that occurs in the file exactly once.
        new: The text that replaces it.
        tests: The arguments of pytest.
        noticed_by: The first test that has failed; empty if none has.
        took_s: How many seconds the tests took.
    """

    file: str
    old: str
    new: str
    tests: list[str]
    noticed_by: str = field(default="", compare=False)
    took_s: float = field(default=0.0, compare=False)

    @property
    def folder(self) -> str:
        """The folder of the file, directly below the package."""
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


# -- does the list fit the code? -------------------------------------------------------------------------------------


def misplaced(faults: Sequence[Fault]) -> Iterator[tuple[Fault, str, str]]:
    """The faults whose text does not occur in the file exactly once, and those whose tests do not exist.

    Yields:
        The fault, the problem, and the only other file in which its text occurs exactly once; empty if there is none.
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
            yield fault, f"its text occurs there {count} times", found
        elif fault.old == fault.new:
            yield fault, "it changes nothing", ""
        else:
            for test in fault.tests:
                path, _, name = test.partition("::")
                file = CHECKOUT / path
                if not file.exists() or (name and f"def {name.partition('[')[0]}(" not in file.read_text("utf-8")):
                    yield fault, f"there is no {test}", ""


def check(faults: Sequence[Fault], *, moves: bool) -> int:
    """Print the faults that do not fit the code. Return the exit status. With `moves`, correct files in the list."""
    wrong = list(misplaced(faults))
    for fault, problem, found in wrong:
        print(f"{fault}\n    {problem}" + (f"; it occurs in {found}" if found else ""))
    if moves:
        follow({(fault.file, fault.old): found for fault, _, found in wrong if found})
    placed = len(faults) - len({(fault.file, fault.old) for fault, *_ in wrong})
    print(f"{placed} of {len(faults)} faults fit the code")
    return 1 if wrong else 0


def follow(moved: Mapping[tuple[str, str], str]) -> None:
    """Correct the files of faults in `mutants_list.py`.

    Args:
        moved: The new file of a text, by its old file and the text.
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
        The exit status (None if the tests took longer than the limit), and the output.
    """
    env = {
        **os.environ,
        "PYTHONPATH": str(copy),
        "PYTHONDONTWRITEBYTECODE": "1",
        "SOURCE_DATE_EPOCH": "1",  # pytest compiles a file again if its content changes, even if its date does not
        "MINITUNE_TEST_PROCESSES": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # hypothesis's plug-in takes two seconds to load; no test needs it
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
    """Put a fault into a copy, run its tests, and remove the fault. Blocks."""
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
    """Try all faults, in several copies of the checkout at a time. Blocks."""
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
            raise SystemExit("these tests fail without a fault, so they cannot notice one:\n" + "\n".join(failing))
        threads = [threading.Thread(target=work, args=(copy,)) for copy in copies]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def failing_tests(faults: Sequence[Fault], copy: Path, bound_s: float) -> list[str]:
    """Run all named tests without a fault. Return the lines about those that fail. Blocks."""
    tests = list(dict.fromkeys(test for fault in faults for test in fault.tests))
    status, printed = run_tests(copy, tests, bound_s)
    if status == 0:
        return []
    return _failures(printed) or printed.splitlines()[-3:]


def _failures(printed: str) -> list[str]:
    """The lines about tests in pytest's summary. Other lines of the output may begin with ERROR, too."""
    return [line for line in printed.splitlines() if line.startswith(("FAILED tests", "ERROR tests"))]


def copy_checkout(target: Path) -> Path:
    """Copy the files that the tests need, without compiled ones."""
    target.mkdir()
    for name in COPIED:
        source = CHECKOUT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
        elif source.exists():
            shutil.copy2(source, target / name)
    return target


def tell(faults: Sequence[Fault]) -> int:
    """Print the table by folder, and the faults that were not noticed. Return the exit status."""
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
    """Parse the command line and run. Return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="only faults with one of these words")
    parser.add_argument("--check", action="store_true", help="only check that the list fits the code")
    parser.add_argument("--move", action="store_true", help="with --check: correct the files of code that was moved")
    parser.add_argument("--processes", type=int, default=max(1, (os.cpu_count() or 2) // 2), help="faults at a time")
    parser.add_argument("--verbose", action="store_true", help="print for each fault which test has noticed it")
    options = parser.parse_args()
    faults = [fault for fault in all_faults() if fault.is_about(options.only)]
    if not faults:
        parser.error(f"no fault has the word {' or '.join(options.only)}")
    if options.check:
        return check(faults, moves=options.move)
    if status := check(faults, moves=False):
        return status
    factor = float(os.environ.get("MINITUNE_TEST_TIMEFACTOR", "1"))
    try_all(faults, options.processes, BOUND_S * factor, verbose=options.verbose)
    return tell(faults)


if __name__ == "__main__":
    sys.exit(main())
