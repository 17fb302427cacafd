"""`minitune ci`: runs a script in a job of continuous integration; the exit status tells whether its tuning went well.

The script is not changed, and runs as it always does, in a process of its own. Settings in its environment say the
rest: `MAX_SAMPLES` and `END_AT` bound each of its runs, and to the file of `ENDED_RUNS` each run that has ended appends
what it has come to.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from minitune import _summary
from minitune._summary import Summary, Target, append_to, escaped
from minitune.settings import is_on, setting

PASSED, FAILED, USAGE = 0, 1, 2

GRACE_S = 10.0
"""How long the script may go on after the end of its budget, in seconds, to end its runs and say what it has to say."""
_SIGNALLED = 128
"""What shells add to the number of the signal that has ended a program."""


def main(arguments: list[str], prog: str) -> int:
    """Run `minitune ci`.

    Args:
        arguments: What follows its name.
        prog: Its name, for the help.

    Returns:
        The script's exit status if that is not 0; else 1 if a trial has failed, a target was missed or nothing was
        run at all; else 0.
    """
    parser = _parser(prog)
    split = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_args(arguments[:split])
    target = _target(parser, options)
    module = ["-m"] if options.module else []
    if not module and not os.path.isfile(options.script):
        parser.error(f"SCRIPT must be a file, but got {options.script!r}; -m takes the name of a module")
    with tempfile.TemporaryDirectory(prefix="minitune-ci-") as directory:
        runs = Path(directory, "runs.jsonl")
        status = _run([sys.executable, *module, options.script, *arguments[split + 1 :]], options, runs)
        records = [json.loads(line) for line in _lines_of(runs)]
    problems = list(_problems(status, records, target, options.script))
    _tell([Summary.of_record(record) for record in records], problems, target)
    return PASSED if not problems else status if status not in (PASSED, None) else FAILED


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog,
        usage=f"{prog} [options] SCRIPT [-- ARGUMENTS OF THE SCRIPT]",
        description="Run a script, and fail if a trial of its runs fails or their best value is not good enough.",
    )
    parser.add_argument("script", metavar="SCRIPT", help="a Python file; with -m the name of a module")
    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is a module: run it as python -m")
    parser.add_argument("--metric", metavar="M", help="what the target is about, such as accuracy or eval/loss")
    parser.add_argument("--at-least", type=float, metavar="X", help="fail if the best value is below; more is better")
    parser.add_argument("--at-most", type=float, metavar="X", help="fail if the best value is above; less is better")
    parser.add_argument(
        "--samples", type=_count, metavar="N", help="limits num_samples of each run (a grid: its rounds)"
    )
    parser.add_argument(
        "--budget-s",
        type=_seconds,
        metavar="S",
        help=f"runs end after so many seconds, counted from the script's start; {GRACE_S:g} s later it is killed",
    )
    return parser


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"N >= 1 must hold, but got {value}")
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"0 < S < infinity must hold, but got {text}")
    return value


def _target(parser: argparse.ArgumentParser, options: argparse.Namespace) -> Target | None:
    """The target of the command line, or None."""
    if options.metric is None and options.at_least is None and options.at_most is None:
        return None
    try:
        return Target.of(options.metric, options.at_least, options.at_most)
    except ValueError:
        parser.error("a target must have a metric and a bound: --metric M with --at-least X or --at-most X")


# -- the script ----------------------------------------------------------------------------------------------------


def _run(command: list[str], options: argparse.Namespace, runs: Path) -> int | None:
    """Run the script. Blocks until it has ended, or is killed.

    Returns:
        Its exit status, or None if its time was up.
    """
    environ = {**os.environ, "MINITUNE_ENDED_RUNS": str(runs)}
    if options.samples is not None:
        environ["MINITUNE_MAX_SAMPLES"] = str(options.samples)
    bound_s = None
    if options.budget_s is not None:
        environ["MINITUNE_END_AT"] = repr(time.time() + options.budget_s)
        environ.setdefault("MINITUNE_FORCE_TRIAL_CLEANUP_S", f"{GRACE_S / 2:g}")
        bound_s = options.budget_s + GRACE_S
    sys.stdout.flush()
    with _ended(subprocess.Popen(command, env=environ)) as process, _passing_on(process):
        try:
            status = process.wait(bound_s)
        except subprocess.TimeoutExpired:
            return None
    return _SIGNALLED - status if status < 0 else status


@contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """The process in a `with` block, at whose end it is no more, nor is what it has started."""
    try:
        yield process
    finally:
        if process.poll() is None:
            tree = _descendants(process.pid)
            process.kill()
            process.wait()
            for one in tree:
                try:
                    one.kill()
                except psutil.Error:
                    continue


@contextmanager
def _passing_on(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Signals that would end us end the script instead, whose runs then end in order; our end follows from its."""

    def pass_on(number: int, frame: object) -> None:
        if number != signal.SIGINT:  # of that one the terminal tells both of us
            process.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        found: list[psutil.Process] = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []
    return found


def _lines_of(path: Path) -> list[str]:
    """The complete lines of a file, of which the last one may be torn; none if there is no file."""
    try:
        return [line for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if line.endswith("\n")]
    except FileNotFoundError:
        return []


# -- the verdict ---------------------------------------------------------------------------------------------------


def _missed(target: Target, records: list[dict[str, Any]]) -> str | None:
    """How the best value of all runs misses the target; None if it is met."""
    found = [record["extremes"][target.metric] for record in records if target.metric in record["extremes"]]
    if not found:
        known = ", ".join(sorted({name for record in records for name in record["extremes"]})[:20])
        return (
            f"{target} must hold, but no trial has reported a finite number as {target.metric!r}; there are numbers "
            f"for: {known or 'nothing'}"
        )
    value = max(high for _, high in found) if target.mode == "max" else min(low for low, _ in found)
    return None if target.is_met(value) else f"{target} must hold, but it is {value:.6g}"


def _problems(status: int | None, records: list[dict[str, Any]], target: Target | None, script: str) -> Iterator[str]:
    """What has gone wrong, in words."""
    if status is None:
        yield f"{script} did not end in time and was killed"
    elif status:
        yield f"{script} ended with exit status {status}"
    if not records:
        yield f"no run of minitune has ended in {script}"
        return
    counts: Counter[str] = Counter()
    for record in records:
        counts.update(record["counts"])
    if counts[_summary.FAILED]:
        yield f"{counts[_summary.FAILED]} of {counts.total()} trials failed"
    elif not counts[_summary.WELL] + counts[_summary.CUT]:
        yield "no trial has reported anything"
    if any(record["is_interrupted"] for record in records):
        yield "a run was interrupted"
    if target is not None and (text := _missed(target, records)):
        yield text


def _tell(summaries: list[Summary], problems: list[str], target: Target | None) -> None:
    """Print the summaries and the verdict, and add the verdict to the page of the job."""
    print()
    for summary in summaries:
        print(*summary.lines(), sep="\n")
    verdict = "failed: " + "; ".join(problems) if problems else "passed" + (f": {target} holds" if target else "")
    for summary in summaries:
        if summary.cut:  # it is no failure: the bound was asked for
            total = sum(summary.counts.values())
            verdict += f"; run {summary.name} was ended early, after {total - summary.cut} of {total} trials"
    print(f"minitune ci {verdict}")
    if is_on("STEP_SUMMARY"):
        append_to(setting("STEP_SUMMARY"), f"**minitune ci** {escaped(verdict)}\n\n", "STEP_SUMMARY")
