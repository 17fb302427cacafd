"""`minitune doctor` and `minitune ci`: check whether this machine can run trials, and whether a script's tuning
succeeds.

`ci` is for jobs of continuous integration. It runs an unchanged script in a separate process and controls it by
environment variables: `MAX_SAMPLES` and `END_AT` limit each of its runs, and each run that has ended appends its
summary to the file of `ENDED_RUNS`. If the script still runs after its budget, it is killed with all its processes.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from minitune._version import __version__
from minitune.actor.launcher import start_method
from minitune.analysis.summary import Summary, Target, append_to, escaped
from minitune.base.checks import did_you_mean
from minitune.base.text import echo, number_text
from minitune.commands import Commands, behind_dashes, set_command
from minitune.commands.facts import add_json, print_json
from minitune.commands.selecting import count_from, seconds
from minitune.config import default_storage_path
from minitune.error import TuneError
from minitune.executors.devices import detect_gpus, free_memory_bytes, memory, memory_bytes, usable_cpus
from minitune.experiment import states
from minitune.record.layout import find_runs
from minitune.record.reading import read_overview
from minitune.record.standing import standing_of
from minitune.result import own_metrics
from minitune.settings import ENDED_RUNS, SETTINGS, STEP_SUMMARY, setting, shared_variable, variable_of

_NEEDED = ("cloudpickle", "psutil")

_OPTIONAL = (
    *("numpy", "pandas", "pyarrow", "scikit-learn", "matplotlib", "tensorboardX", "ipython"),
    *("optuna", "wandb", "mlflow"),
    *("torch", "lightning", "pytorch-lightning", "transformers", "tensorflow", "keras", "jax", "xgboost", "lightgbm"),
)

_FEW_DESCRIPTORS = 1024
_LITTLE_SPACE_BYTES = 1_000_000_000
_FILES_PER_WORKER = 8
"""About how many descriptors the driver needs for each worker."""
_WIDTH = 12
OVERTIME_S = 10.0
"""The time for the script of `ci` to end its runs and clean up after its budget is used up."""
_SIGNALLED = 128
"""If a signal ends a program, shells add this to the signal's number."""


def add_parser(commands: Commands) -> None:
    """Add the parsers of `minitune doctor` and `minitune ci`."""
    parser = commands.add_parser(
        "doctor",
        description="Check this machine: its resources, the installed versions, and whether a trial runs.",
        epilog="The exit status is 0 if trials can run, else 1.",
    )
    add_json(parser)
    set_command(parser, doctor, "minitune doctor", "minitune doctor --json")
    parser = commands.add_parser(
        "ci",
        usage="minitune ci [options] SCRIPT [-- ARGUMENTS OF THE SCRIPT]",
        description="Run a script, and fail if a trial fails or if the best value misses the target.",
    )
    parser.add_argument("script", metavar="SCRIPT", help="a Python file; with -m the name of a module")
    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is a module: run it as python -m")
    parser.add_argument("--metric", metavar="M", help="the metric of the target, such as accuracy or eval/loss")
    parser.add_argument(
        "--at-least", type=float, metavar="X", help="fail if the best value is below X (the largest is the best)"
    )
    parser.add_argument(
        "--at-most", type=float, metavar="X", help="fail if the best value is above X (the smallest is the best)"
    )
    parser.add_argument(
        "--num-samples", type=count_from(1), metavar="N", help="use at most N samples in each run (of a grid: N rounds)"
    )
    parser.add_argument(
        "--time-budget",
        type=seconds,
        metavar="S",
        help="end the runs so long after the script has started, in seconds or such as 10m; kill the script "
        f"{OVERTIME_S:g} s later",
    )
    set_command(
        parser,
        ci,
        "minitune ci tuning.py --num-samples 10 --time-budget 5m",
        "minitune ci tuning.py --metric accuracy --at-least 0.9",
        own_begins=behind_dashes,
    )


# -- doctor ------------------------------------------------------------------------------------------------------------
@dataclass
class _Findings:
    """The findings of `doctor`."""

    facts: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def doctor(options: argparse.Namespace) -> int:
    """Run `minitune doctor`: look for all facts, then print them."""
    found = _Findings()
    # The trial comes last, and only if nothing is broken: its error would only repeat the reason.
    for look in (_versions, _cpus, _memory, _gpus, _limits, _storage, _runs):
        look(found)
    if not found.problems:
        _try_trial(found)
    if options.json:
        print_json({"facts": found.facts, "warnings": found.warnings, "problems": found.problems})
        return 1 if found.problems else 0
    for name, text in found.facts.items():
        echo(f"{name:<{_WIDTH}} {text or 'none'}")
    for warning in found.warnings:
        echo(f"warning: {warning}")
    for problem in found.problems:
        echo(f"broken: {problem}")
    if not found.problems:
        echo("trials have everything that they need")
    if found.problems:
        return 1
    return 0


# -- doctor: the machine -----------------------------------------------------------------------------------------------
def _versions(found: _Findings) -> None:
    found.facts["minitune"] = f"{__version__} in {os.path.dirname(os.path.dirname(__file__))}"
    found.facts["python"] = f"{platform.python_version()} ({sys.executable})"
    found.facts["system"] = f"{platform.system()} {platform.release()} on {platform.machine()}"
    versions = dict(_installed((*_NEEDED, *_OPTIONAL)))
    for name, packages in (("needed", _NEEDED), ("optional", _OPTIONAL)):
        found.facts[name] = ", ".join(f"{one} {versions[one]}" for one in packages if one in versions)
    missing = [name for name in _NEEDED if name not in versions]
    if missing:
        found.problems.append(f"{' and '.join(missing)} must be installed: pip install {' '.join(missing)}")
    own = {variable: setting(name) for name in SETTINGS if (variable := variable_of(name)) in os.environ}
    found.facts["settings"] = ", ".join(f"{variable}={value}" for variable, value in own.items())


def _installed(names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The names and versions of the installed packages; none is imported."""
    from importlib.metadata import PackageNotFoundError, version

    for name in names:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue


def _cpus(found: _Findings) -> None:
    cores = os.cpu_count() or 1
    usable = usable_cpus()
    allowed = cores
    if sys.platform == "linux":
        allowed = len(os.sched_getaffinity(0))
    why = ""
    if usable < cores:
        why = f" (of {cores}; affinity {allowed}, the rest is a quota of the container)"
    instead = ""
    if setting("NUM_CPUS"):
        instead = f", {variable_of('NUM_CPUS')}={setting('NUM_CPUS')} counts instead"
    found.facts["cpus"] = f"{usable}{why}{instead}"
    try:
        found.facts["start method"] = start_method()
    except ValueError as error:
        found.problems.append(str(error))


def _memory(found: _Findings) -> None:
    total = memory()[0]
    limit = memory_bytes()
    free = free_memory_bytes()
    why = ""
    if limit < total:
        why = f" (a limit; the machine has {_size(total)})"
    found.facts["memory"] = f"{_size(limit)}, {_size(free)} free{why}"


def _gpus(found: _Findings) -> None:
    ids = detect_gpus(asked=True)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    why = ""
    if visible is not None:
        why = f", as CUDA_VISIBLE_DEVICES={visible!r} says"
    found.facts["gpus"] = f"{', '.join(ids) or 'none'}{why}"
    if visible is None and not ids and glob.glob("/dev/nvidia*"):
        found.warnings.append(
            "there are NVIDIA devices, but nvidia-smi does not list them: check the driver and the PATH, or set "
            "MINITUNE_NUM_GPUS"
        )


def _limits(found: _Findings) -> None:
    import resource

    files, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    processes = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    more = ""
    if hard != files:
        more = f" (up to {_limit(hard)})"
    found.facts["limits"] = f"{_limit(files)} open files{more}, {_limit(processes)} processes"
    # The driver has pipes and a process descriptor for each worker.
    if files != resource.RLIM_INFINITY and files < min(_FEW_DESCRIPTORS, _FILES_PER_WORKER * usable_cpus() + 64):
        found.warnings.append(f"only {files} files may be open at a time: `ulimit -n {_FEW_DESCRIPTORS}`")


def _limit(value: int) -> str:
    if value < 0 or value >= 1 << 60:
        return "unlimited"
    return str(value)


def _storage(found: _Findings) -> None:
    """Check that runs can be written, without creating the directory."""
    path = default_storage_path()
    there = path
    # A check must not create the directory. Its first existing parent decides whether that is possible.
    while not os.path.exists(there) and os.path.dirname(there) != there:
        there = os.path.dirname(there)
    free = shutil.disk_usage(there).free
    why = ""
    if there != path:
        why = " (it does not exist yet; a run makes it)"
    found.facts["storage"] = f"{path}, {_size(free)} free{why}"
    try:
        # Writing tells more than the permissions: they do not show a full or read-only disk.
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        reason = error.strerror or error
        found.problems.append(f"{there} cannot be written ({reason}): set MINITUNE_STORAGE_PATH, or a storage_path")
        return
    if free < _LITTLE_SPACE_BYTES:
        found.warnings.append(f"little space is left for {path}: {_size(free)}")


# -- doctor: runs ------------------------------------------------------------------------------------------------------
def _runs(found: _Findings) -> None:
    """Find runs that can be resumed, and damaged ones."""
    unfinished = []
    for path in find_runs(default_storage_path()):
        try:
            seen = read_overview(path)
            if seen.damage is not None:
                raise seen.damage
        except TuneError:
            found.warnings.append(f"the record of {path} is damaged: `minitune ls {path}` shows how")
            continue
        if seen.is_unfinished and standing_of(seen).can_go_on:
            unfinished.append(path)
    found.facts["unfinished"] = ", ".join(unfinished)


# -- doctor: a trial ---------------------------------------------------------------------------------------------------
def _try_trial(found: _Findings) -> None:
    """Run a trial in a separate process."""
    from minitune import RunConfig, TuneConfig, Tuner

    begin_s = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="minitune-doctor-", ignore_cleanup_errors=True) as directory:
            config = RunConfig(verbose=0, storage_path=directory, name="doctor")
            grid = Tuner(_probe, run_config=config, tune_config=TuneConfig(trial_timeout_s=30)).fit()
        if grid.errors:
            found.problems.append(f"a trial in its own process fails: {grid.errors[0]}")
        else:
            found.facts["trial"] = f"works in its own process, in {time.monotonic() - begin_s:.2f} s"
    except (TuneError, OSError, ValueError) as error:
        found.problems.append(f"a trial cannot be run: {error}")


def _probe(config: dict[str, Any]) -> dict[str, Any]:
    return {"pid": os.getpid()}


def _size(amount_bytes: float) -> str:
    return f"{amount_bytes / 1e9:.1f} GB"


# -- ci ----------------------------------------------------------------------------------------------------------------
def ci(options: argparse.Namespace) -> int:
    """Run `minitune ci`. Blocks until the script has ended."""
    target = None
    if (options.metric, options.at_least, options.at_most) != (None, None, None):
        try:
            target = Target.of(options.metric, options.at_least, options.at_most)
        except ValueError:
            rule = "a target must have a metric and a bound: --metric M with --at-least X or --at-most X"
            raise argparse.ArgumentError(None, rule) from None
    module = []
    if options.module:
        module = ["-m"]
    if not module and not os.path.isfile(options.script):
        rule = f"SCRIPT must be a file, but got {options.script!r}; -m takes the name of a module"
        raise argparse.ArgumentError(None, rule)
    with tempfile.TemporaryDirectory(prefix="minitune-ci-") as directory:
        runs = Path(directory, "runs.jsonl")
        status = _run([sys.executable, *module, options.script, *options.own], options, runs)
        lines = []
        if runs.exists():
            lines = runs.read_text(encoding="utf-8").splitlines(keepends=True)
        records = [json.loads(line) for line in lines if line.endswith("\n")]  # the last one may be incomplete
    problems = list(_problems(status, records, target, options.script))
    _tell([Summary.of_record(record) for record in records], problems, target)
    if problems:
        return status or 1  # a script with status 0 may still miss the target
    return 0


# -- ci: the script ----------------------------------------------------------------------------------------------------
def _run(command: list[str], options: argparse.Namespace, runs: Path) -> int | None:
    """Run the script. Blocks until it has ended or is killed. Returns its exit status; None if its time was up."""
    # By variables, not by an import hook: the script may start its runs in processes of its own.
    environ = {**os.environ, ENDED_RUNS: str(runs)}
    if options.num_samples is not None:
        environ["MINITUNE_MAX_SAMPLES"] = str(options.num_samples)
    bound_s = None
    if options.time_budget is not None:
        environ["MINITUNE_END_AT"] = repr(time.time() + options.time_budget)
        # Trials must be gone before the script is killed, or their results would be lost with it.
        environ.setdefault("MINITUNE_FORCE_TRIAL_CLEANUP_S", f"{OVERTIME_S / 2:g}")
        bound_s = options.time_budget + OVERTIME_S
    sys.stdout.flush()
    with _ended(subprocess.Popen(command, env=environ)) as process, _passing_on(process):
        try:
            status = process.wait(bound_s)
        except subprocess.TimeoutExpired:
            return None
    if status < 0:
        return _SIGNALLED - status
    return status


@contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """At the end of the `with` block, kill the process and all processes that it has started."""
    try:
        yield process
    finally:
        if process.poll() is None:
            # Listed before the kill: orphans have another parent, so they could not be found afterwards.
            tree: list[psutil.Process] = []
            with suppress(psutil.Error):
                tree = psutil.Process(process.pid).children(recursive=True)
            process.kill()
            process.wait()
            for one in tree:
                with suppress(psutil.Error):
                    one.kill()


@contextmanager
def _passing_on(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Inside the `with` block, pass signals on to the script, so that its runs end in order."""

    def pass_on(number: int, frame: object) -> None:
        if number != signal.SIGINT:  # the terminal sends SIGINT to both processes
            process.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# -- ci: the verdict ---------------------------------------------------------------------------------------------------
def _missed(target: Target, records: list[dict[str, Any]]) -> str | None:
    """The reason why the best value of all runs misses the target; None if it does not."""
    values = [record["best_values"].get(target.metric, {}).get(target.mode) for record in records]
    found = [value for value in values if value is not None]
    if not found:
        names = {name: None for record in records for name in sorted(record["best_values"])}
        known = ", ".join(list(own_metrics(names) | names)[:20])
        return (
            f"expected {target}, but no trial has reported a finite number as {target.metric!r}"
            f"{did_you_mean(target.metric, names)}; trials have reported numbers for: {known or 'nothing'}"
        )
    value = max(found) if target.mode == "max" else min(found)
    if target.is_met(value):
        return None
    return f"expected {target}, got {number_text(value)}"


def _problems(status: int | None, records: list[dict[str, Any]], target: Target | None, script: str) -> Iterator[str]:
    """The reasons why the check fails."""
    if status is None:
        yield f"{script} did not end in time and was killed"
    elif status:
        yield f"{script} ended with exit status {status}"
    if not records:
        yield f"no run of minitune has finished in {script}"
        return
    counts: Counter[str] = Counter()
    for record in records:
        counts.update(record["counts"])
    if counts[states.FAILED]:
        yield f"{counts[states.FAILED]} of {counts.total()} trials failed"
    # A script whose trials all return without a report would pass otherwise, and check nothing.
    elif not counts[states.FINISHED] + counts[states.STOPPED] + counts[states.INTERRUPTED]:
        yield "no trial has reported anything"
    if any(record["is_interrupted"] for record in records):
        yield "a run was interrupted"
    if target is not None and (text := _missed(target, records)):
        yield text


def _tell(summaries: list[Summary], problems: list[str], target: Target | None) -> None:
    """Print the summaries and the verdict, and add the verdict to the page of the job."""
    echo()
    for one in summaries:
        echo(*one.lines(), sep="\n")
    verdict = "passed"
    if problems:
        verdict = f"failed: {'; '.join(problems)}"
    elif target is not None:
        verdict = f"passed: {target}"
    for one in summaries:
        if one.cut:  # not a failure, because the user has asked for the limit
            total = sum(one.counts.values())
            verdict += f"; run {one.name} ended early, after {total - one.cut} of {total} trials"
            waiting = one.counts.get(states.NOT_STARTED)
            if waiting:
                verdict += f" ({waiting} not started)"
    echo(f"minitune ci {verdict}")
    page = shared_variable(STEP_SUMMARY)
    if page:
        append_to(page, f"**minitune ci** {escaped(verdict)}\n\n", STEP_SUMMARY)
