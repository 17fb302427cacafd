"""Kills workers and drivers of a real run at random, resumes the run, and checks that nothing was lost.

    python benchmarks/chaos.py                                          # 300 trials, some minutes
    python benchmarks/chaos.py --trials 40 --driver-kills 3             # the short form
    python benchmarks/chaos.py --scheduler asha --json chaos.json

The run (`chaos_workload.py`) is a process of its own. At random moments, this script kills a worker or the driver with
SIGKILL. After each driver's death it starts the workload again, which resumes the run. At the end, it compares the
run's journal and files with what each trial has noted in a file of its own. It prints each gate with the measured
value. If a gate is not met, the exit status is 1. Latencies are gates only with --hold-latencies, for a machine that
does nothing else. Linux only, because processes are found by their environment in /proc.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

HERE = Path(__file__).resolve().parent
MARK = "MINITUNE_CHAOS"
"""The environment variable that marks all processes of a run."""


@dataclass
class Seen:
    """The kills, and what was measured after them.

    Attributes:
        worker_kills: For each kill of a worker, the time in seconds since the epoch and the trial.
        driver_kills: How many drivers were killed.
        orphans_s: For each end of a driver, the seconds until all processes of the run had ended.
        restarts_s: For each later driver, the seconds until the journal had a new record.
        drivers: For each driver, its memory in bytes, descriptors and threads after each pause between kills.
        lost: The acknowledged reports, by trial and step, that the journal did not have.
        left: The commands of the processes that were alive 10 s after the end of a driver.
    """

    worker_kills: list[tuple[float, str]] = field(default_factory=list)
    driver_kills: int = 0
    orphans_s: list[float] = field(default_factory=list)
    restarts_s: list[float] = field(default_factory=list)
    drivers: list[list[tuple[int, int, int]]] = field(default_factory=list)
    lost: set[tuple[str, int]] = field(default_factory=set)
    left: list[str] = field(default_factory=list)


class Chaos:
    """Starts a run, and kills its processes.

    Args:
        options: The options of the command.
        directory: The directory for all files.
    """

    def __init__(self, options: argparse.Namespace, directory: Path):
        self.options = options
        self.storage, self.witness = directory / "storage", directory / "witness"
        self.witness.mkdir(parents=True)
        self.journal = self.storage / "run" / "journal"
        self.mark = uuid.uuid4().hex
        # Files, not pipes: a driver that prints more than a pipe holds would block, since both are read at the end.
        self.errors = (directory / "errors.txt").open("w+", encoding="utf-8")  # of all drivers
        self.output = directory / "output.txt"
        self.random = random.Random(options.seed)
        self.seen = Seen()

    def run(self) -> list[dict[str, Any]]:
        """Kill and resume until the run ends by itself. Blocks for minutes.

        Returns:
            The trials, as the last driver has printed them.

        Raises:
            RuntimeError: If a driver fails, or the run does not end.
        """
        for _ in range(self.options.driver_kills):
            driver = self._start()
            lives_until_s = time.time() + self.random.uniform(0.05, self.options.life_s)
            if not self._torment(driver, lives_until_s):
                return self._finish(driver)
            driver.kill()
            driver.wait()
            self.seen.driver_kills += 1
            self._wait_for_orphans()
            self.seen.lost |= lost_reports(self.witness, self.journal)  # before the resumed run makes them again
        driver = self._start()
        self._torment(driver, time.time() + self.options.limit_s)
        return self._finish(driver)

    def _start(self) -> subprocess.Popen[bytes]:
        options = self.options
        arguments = [self.storage, self.witness, options.trials, options.reports, options.seed, options.scheduler]
        arguments.append("reuse" if options.reuse else "fresh")
        path = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
        self.seen.drivers.append([])
        size = self._journal_bytes()
        started_s = time.time()
        with self.output.open("w") as output:
            driver = subprocess.Popen(
                [sys.executable, str(HERE / "chaos_workload.py"), *map(str, arguments)],
                env={**os.environ, MARK: self.mark, "PYTHONPATH": path},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=self.errors,
            )
        while driver.poll() is None and self._journal_bytes() <= size:
            time.sleep(0.002)
        if size:
            self.seen.restarts_s.append(time.time() - started_s)
        return driver

    def _journal_bytes(self) -> int:
        return self.journal.stat().st_size if self.journal.exists() else 0

    def _torment(self, driver: subprocess.Popen[bytes], until_s: float) -> bool:
        """Kill workers until `until_s`. Return whether the driver was still alive then."""
        process = psutil.Process(driver.pid)
        while time.time() < until_s:
            pause_s = min(self.random.expovariate(1 / self.options.every_s), until_s - time.time())
            try:
                driver.wait(max(0.0, pause_s))
                return False
            except subprocess.TimeoutExpired:
                pass
            if len(self.seen.worker_kills) < self.options.worker_kills:
                self._kill_worker()
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                memory_bytes, threads = process.memory_info().rss, process.num_threads()
                self.seen.drivers[-1].append((memory_bytes, _descriptors(driver.pid), threads))
        return driver.poll() is None

    def _kill_worker(self) -> None:
        """Kill the worker of a random trial that is running."""
        candidates = []
        for path in self.witness.iterdir():
            pids = [line.split()[1] for line in path.read_text().splitlines() if line.startswith("pid ")]
            if pids and psutil.pid_exists(int(pids[-1])) and self._is_ours(int(pids[-1])):
                candidates.append((path.name, int(pids[-1])))
        if not candidates:
            return
        trial, pid = self.random.choice(sorted(candidates))
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        self.seen.worker_kills.append((time.time(), trial))

    def _is_ours(self, pid: int) -> bool:
        """Whether a process is alive and has the mark. The pid alone is not enough, since it may be used again."""
        try:
            if Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"Z":
                return False
            return f"{MARK}={self.mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False

    def _marked(self) -> list[int]:
        return [pid for pid in psutil.pids() if self._is_ours(pid)]

    def _wait_for_orphans(self) -> None:
        """After a driver's end, measure how long its other processes live. After 10 s, kill those that are left."""
        start_s = time.time()
        while (left := self._marked()) and time.time() < start_s + 10:
            time.sleep(0.002)
        self.seen.orphans_s.append(time.time() - start_s)
        for pid in left:
            self.seen.left.append(" ".join(psutil.Process(pid).cmdline()))
            os.kill(pid, signal.SIGKILL)

    def _finish(self, driver: subprocess.Popen[bytes]) -> list[dict[str, Any]]:
        try:
            driver.wait(self.options.limit_s)
        except subprocess.TimeoutExpired:
            driver.kill()
            raise RuntimeError(f"the run hangs: it has not ended after {self.options.limit_s:.0f} s") from None
        finally:
            self._wait_for_orphans()
        if driver.returncode:
            self.errors.seek(0)
            raise RuntimeError(f"the driver has failed with exit status {driver.returncode}:\n{self.errors.read()}")
        trials: list[dict[str, Any]] = json.loads(self.output.read_text().splitlines()[-1])
        return trials


# -- gates -------------------------------------------------------------------------------------------------------------


@dataclass
class Gate:
    """A promise, checked.

    Attributes:
        name: The promise.
        value: The measured value.
        passes: Whether the promise was kept.
    """

    name: str
    value: str
    passes: bool


def read_journal(path: Path) -> list[dict[str, Any]]:
    """The records. A line is a checksum, a space and a JSON object. An incomplete last line does not count."""
    whole = path.read_text().rpartition("\n")[0] if path.exists() else ""
    return [json.loads(line.partition(" ")[2]) for line in whole.splitlines()]


def lost_reports(witness: Path, journal: Path) -> set[tuple[str, int]]:
    """The reports, by trial and step, that the trial has noted as acknowledged, but the journal does not have."""
    told = set()
    for path in witness.iterdir():
        lines = [line.split() for line in path.read_text().splitlines()]
        told |= {(path.name, int(line[1])) for line in lines if line[0] == "told"}
    return told - {(r["trial"], r["metrics"]["step"]) for r in read_journal(journal) if r["type"] == "result"}


def live_steps(records: list[dict[str, Any]]) -> dict[str, list[int]]:
    """The steps of each trial's reports, without those that were rolled back."""
    steps: dict[str, list[int]] = defaultdict(list)
    for record in records:
        if record["type"] == "result":
            steps[record["trial"]].append(record["metrics"]["step"])
        elif record["type"] == "rollback":
            del steps[record["trial"]][record["number"] :]
    return steps


def check(chaos: Chaos, trials: list[dict[str, Any]]) -> list[Gate]:
    """Check all promises."""
    records = read_journal(chaos.journal)
    return [
        *_check_trials(chaos, trials, records),
        *_check_results(chaos, records),
        *_check_files(chaos, trials),
        *_check_processes(chaos, records),
    ]


def _check_trials(chaos: Chaos, trials: list[dict[str, Any]], records: list[dict[str, Any]]) -> list[Gate]:
    options = chaos.options
    stopped = {r["trial"] for r in records if r["type"] == "result" and r["decision"] == "STOP"}
    ended = [t for t in trials if not t["error"] and (t["step"] == options.reports or t["trial"] in stopped)]
    wrong = [t for t in trials if t["loss"] != round(t["config"]["height"] / t["step"] + t["config"]["floor"], 9)]
    configs = defaultdict(set)
    for record in records:
        if record["type"] == "trial":
            configs[record["trial"]].add(json.dumps(record["config"], sort_keys=True))
    same = sum(configs[t["trial"]] == {json.dumps(t["config"], sort_keys=True)} for t in trials)
    return [
        Gate("trials that ended as they should", f"{len(ended)} of {options.trials}", len(ended) == options.trials),
        Gate("results that differ from those of an undisturbed trial", str(len(wrong)), not wrong),
        Gate(
            "configurations the same in every life",
            f"{same} of {options.trials}",
            same == len(trials) == len(configs) == options.trials,
        ),
    ]


def _check_results(chaos: Chaos, records: list[dict[str, Any]]) -> list[Gate]:
    lost = chaos.seen.lost | lost_reports(chaos.witness, chaos.journal)
    executed = sum(path.read_text().count("says") for path in chaos.witness.iterdir())
    live = live_steps(records)
    broken = [trial for trial, steps in live.items() if steps != list(range(1, len(steps) + 1))]
    needed = sum(map(len, live.values()))
    kills = len(chaos.seen.worker_kills) + chaos.options.driver_kills * (os.cpu_count() or 1)
    allowed = needed + kills * 6 + len(live)  # a kill costs the steps since the last checkpoint, and the present one
    return [
        Gate("acknowledged reports that are lost", f"{len(lost)} of {executed}", not lost),
        Gate("trials with a gap or a repeat in their live reports", str(len(broken)), not broken),
        Gate("steps executed / needed", f"{executed / needed:.3f}", executed <= allowed),
    ]


def _check_files(chaos: Chaos, trials: list[dict[str, Any]]) -> list[Gate]:
    whole = total = 0
    for trial in trials:
        for checkpoint in trial["checkpoints"]:
            total += 1
            state = json.loads(Path(checkpoint, "state.json").read_text())
            whole += state["height"] == trial["config"]["height"] and len(state["ballast"]) == 20_000
    run = chaos.storage / "run"
    temporary = [str(path.relative_to(run)) for path in run.rglob(".tmp*")]
    doubled = 0
    for path in run.glob("*/result.json"):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        keys = [(row["step"], row["pid"], row["time_total_s"]) for row in rows]
        doubled += len(keys) - len(set(keys))
    return [
        Gate("kept checkpoints that are whole", f"{whole} of {total}", whole == total > 0),
        Gate("rows that result.json has twice", str(doubled), not doubled),
        Gate("temporary files after the end", ", ".join(temporary) or "0", not temporary),
    ]


def _check_processes(chaos: Chaos, records: list[dict[str, Any]]) -> list[Gate]:
    seen = chaos.seen
    noticed_s = sorted(_latencies(seen.worker_kills, records))
    hold = chaos.options.hold_latencies
    gates = [
        Gate("workers killed", str(len(seen.worker_kills)), True),
        Gate("drivers killed, and resumed", str(seen.driver_kills), True),
        Gate("processes left 10 s after a driver's end", ", ".join(seen.left) or "0", not seen.left),
    ]
    if noticed_s:
        within = _within(noticed_s, median=0.005, p99=0.05, worst=0.25)
        gates.append(Gate("death of a worker to its record", _spread_ms(noticed_s), within or not hold))
    if seen.orphans_s:
        within = _within(seen.orphans_s, median=0.5, p99=0.5, worst=2)
        gates.append(
            Gate("end of a driver to the end of all it started", _spread_ms(seen.orphans_s), within or not hold)
        )
    if seen.restarts_s:
        within = _within(seen.restarts_s, median=2, p99=2, worst=2)
        gates.append(
            Gate("start of the next driver to its first record", _spread_ms(seen.restarts_s), within or not hold)
        )
    longest = max(seen.drivers, key=len)
    if len(longest) >= 40:
        quarter = len(longest) // 4
        early, late = longest[quarter : 2 * quarter], longest[-quarter:]
        for index, name in ((1, "descriptors"), (2, "threads")):
            # A worker that starts or ends changes the number for a moment. A leak grows beyond that.
            before, after = max(s[index] for s in early), statistics.median_high(s[index] for s in late)
            gates.append(Gate(f"{name} of the driver, early and late", f"{before} and {after}", after <= before))
        growth = statistics.median(s[0] for s in late) - statistics.median(s[0] for s in early)
        gates.append(Gate("memory of the driver, late - early", f"{growth / 1024:.0f} KiB", growth < 8 * 2**20))
    return gates


def _descriptors(pid: int) -> int:
    """The number of a driver's descriptors, without the logs of trials: those of waiting trials stay open."""
    count = 0
    with contextlib.suppress(OSError):  # the driver has ended
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):  # the driver has closed it
                count += os.path.basename(os.readlink(f"/proc/{pid}/fd/{name}")) not in ("result.json", "progress.csv")
    return count


def _latencies(kills: list[tuple[float, str]], records: list[dict[str, Any]]) -> list[float]:
    """The seconds from each kill to the record of the trial's new status, if the same driver wrote it."""
    found = []
    for at, trial in kills:
        for record in records:
            if record.get("at", 0) >= at and (record["type"] == "open" or record.get("trial") == trial):
                if record["type"] == "status":
                    found.append(record["at"] - at)
                break
    return found


def _spread_ms(values_s: list[float]) -> str:
    median, p99, worst = (1000 * value for value in _spread(values_s))
    return f"median {median:.1f} ms, p99 {p99:.1f}, max {worst:.1f}"


def _within(values_s: list[float], *, median: float, p99: float, worst: float) -> bool:
    return all(seen <= limit for seen, limit in zip(_spread(values_s), (median, p99, worst), strict=True))


def _spread(values: list[float]) -> tuple[float, float, float]:
    """The median, the 99th percentile and the maximum."""
    ordered = sorted(values)
    return statistics.median(ordered), ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))], ordered[-1]


def main() -> int:
    """Parse the command line, run, check and print. Return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--reports", type=int, default=20, help="reports of a trial that is not stopped")
    parser.add_argument("--scheduler", choices=("fifo", "asha"), default="fifo")
    parser.add_argument("--reuse", action="store_true", help="reuse workers for other trials")
    parser.add_argument("--driver-kills", type=int, default=20)
    parser.add_argument("--life-s", type=float, default=4.0, help="kill each driver after at most so many seconds")
    parser.add_argument("--worker-kills", type=int, default=300)
    parser.add_argument("--every-s", type=float, default=0.2, help="mean time between kills of workers")
    parser.add_argument("--limit-s", type=float, default=1200.0, help="a run that takes longer counts as hanging")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--hold-latencies", action="store_true", help="fail if latencies are above their limits")
    parser.add_argument("--json", type=Path, help="a file for the gates")
    options = parser.parse_args()
    started_s = time.time()
    with tempfile.TemporaryDirectory(prefix="chaos-") as directory:
        chaos = Chaos(options, Path(directory))
        try:
            gates = check(chaos, chaos.run())
        except RuntimeError as error:
            print(error)
            return 1
    workers = "reused" if options.reuse else "fresh"
    print(
        f"seed {options.seed}, {options.trials} trials, {options.scheduler}, {workers} workers, "
        f"{time.time() - started_s:.0f} s"
    )
    for gate in gates:
        print(f"{'ok  ' if gate.passes else 'FAIL'}  {gate.name:<52} {gate.value}")
    if options.json:
        options.json.write_text(json.dumps([vars(gate) for gate in gates], indent=2) + "\n")
    return 0 if all(gate.passes for gate in gates) else 1


if __name__ == "__main__":
    sys.exit(main())
