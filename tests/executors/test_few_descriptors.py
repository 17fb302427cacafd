"""A process that may have few files open: fewer workers at a time, whole logs, and no trial is to blame."""

from __future__ import annotations

import errno
import itertools
import json
import logging
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kit import fit

from minitune import TuneError, grid_search, report
from minitune.base import descriptors
from minitune.base.files import AppendFiles
from minitune.driver import limits
from minitune.executors.devices import Machine
from minitune.executors.local import LocalTrialExecutor
from minitune.executors.trial_executor import ActorSpec, Exited, Started
from minitune.experiment.trial import Trial
from minitune.logger.csv import CSVLoggerCallback
from minitune.logger.json import JsonLoggerCallback
from minitune.record.trial_directories import TrialDirectories
from minitune.resources import Resources
from minitune.search import BasicVariantGenerator

SCRIPTS = Path(__file__).with_name("scripts")

RUN = SCRIPTS / "few_descriptors.py"


@pytest.mark.parametrize(
    ("at_once", "worker", "start_method"), [(16, "reused", "zygote"), (12, "fresh", "interpreter")]
)
def test_fewer_trials_run_at_a_time_and_none_fails(script, at_once, worker, start_method):
    driver = script.start(
        RUN, "40", str(at_once), worker, MINITUNE_NUM_CPUS=str(at_once), MINITUNE_START_METHOD=start_method
    )
    stdout, stderr = script.finish(driver)
    assert stdout == f"{at_once} 0\n", stderr
    [warning] = stderr.splitlines()
    at_a_time = re.match(r"at most (\d+) trial\(s\) run at a time for now: .*ulimit -n", warning)
    assert at_a_time is not None, warning
    assert 2 <= int(at_a_time[1]) < at_once
    assert "40 files" in warning


def test_where_not_even_one_worker_fits_in_the_error_names_the_limit(script):
    driver = script.start(
        "from minitune.driver import limits\nlimits.BACKOFF_S = (0.01,)\n" + RUN.read_text(encoding="utf-8"),
        "14",
        "2",
        "fresh",
        MINITUNE_NUM_CPUS="2",
    )
    _, stderr = script.finish(driver)
    assert driver.returncode == 1
    last = stderr.splitlines()[-1]
    assert "Too many open files" in last
    assert "ulimit -u, -v and -n" in last


# -- the parts ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def few_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """A limit of so many descriptors more than there are now; the list takes some that the test's end closes."""
    used = len(os.listdir("/dev/fd"))
    monkeypatch.setattr(descriptors, "limit", lambda: used + 60)
    opened: list[int] = []
    yield opened
    for descriptor in opened:
        os.close(descriptor)


def test_workers_start_until_only_the_drivers_descriptors_are_left(few_left: list[int]) -> None:
    rooms = []
    for _ in range(60):
        rooms.append(descriptors.has_room_for_worker())
        few_left += [os.open("/", os.O_RDONLY)]
    assert rooms[0]
    assert not rooms[-1]
    assert rooms == sorted(rooms, reverse=True), "once there is none, there is none"
    for descriptor in few_left[:50]:  # free numbers below those that are used count as well
        os.close(descriptor)
    del few_left[:50]
    assert descriptors.has_room_for_worker()


def test_a_parked_worker_gives_way_to_one_that_cannot_use_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = LocalTrialExecutor(Machine({"CPU": 3}, ()), directory=str(tmp_path))
    try:
        executor.start(ActorSpec("a#1", _make_idler, Resources([{"CPU": 1}]), reuse_key="one"))
        assert isinstance(_next(executor), Started)
        executor.stop("a#1", 10.0, keep=True)
        assert _next(executor).kind == "parked"
        parked = set(executor._processes)
        monkeypatch.setattr(descriptors, "has_room_for_worker", lambda: False)
        assert executor.can_start(Resources([{"CPU": 1}])), "nothing runs"
        executor.start(ActorSpec("b#1", _make_idler, Resources([{"CPU": 1}]), reuse_key="other"))
        assert isinstance(_next(executor), Started)
        while parked & executor._processes:
            executor.wait(1.0)
        assert not executor.can_start(Resources([{"CPU": 1}])), "one runs, and there is no room for another"
        executor.stop("b#1", 10.0)
        assert isinstance(_next(executor), Exited)
        assert executor.can_start(Resources([{"CPU": 1}]))
    finally:
        executor.shutdown()


class _Idler:
    def stop(self) -> None:
        pass


def _make_idler(host: Any, allocation: Any = None) -> _Idler:
    return _Idler()


def _next(executor: LocalTrialExecutor) -> Any:
    while not (events := executor.wait(10.0)):
        pass
    [event] = events
    return event


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE], ids=errno.errorcode.get)
def test_a_trial_whose_directory_cannot_be_opened_now_waits(
    number: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(limits, "BACKOFF_S", (0.0,))
    prepare, calls = TrialDirectories.prepare, itertools.count()

    def fail_at_first(self: TrialDirectories, trial: Trial, **more: Any) -> str:
        if next(calls) in (1, 2):
            raise OSError(number, os.strerror(number))
        return prepare(self, trial)

    monkeypatch.setattr(TrialDirectories, "prepare", fail_at_first)
    results = _fit_inline()
    assert [result.metrics["n"] for result in results] == [1, 1]
    [record] = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert os.strerror(number) in record.getMessage()


def test_directories_that_can_never_be_opened_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BACKOFF_S", (0.0,))

    def fail(self: TrialDirectories, trial: Trial, **more: Any) -> str:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(TrialDirectories, "prepare", fail)
    with pytest.raises(TuneError, match="ulimit"):
        _fit_inline()


def test_a_state_that_cannot_be_saved_now_is_saved_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MINITUNE_GLOBAL_CHECKPOINT_S", "0")
    saves: list[int] = []

    class Saves(BasicVariantGenerator):
        def save_to_dir(self, *args: Any, **kwargs: Any) -> None:
            saves.append(len(saves))
            if saves == [0]:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            super().save_to_dir(*args, **kwargs)

    results = _fit_inline(search_alg=Saves())
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert list(Path(results.experiment_path).glob("plugins-*"))


def _fit_inline(**options: Any) -> Any:
    def trainable(config: dict[str, Any]) -> None:
        report({"n": 1})

    return fit(trainable, {"x": grid_search([0, 1])}, **options)


@pytest.fixture
def scarce(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """All files that are open at once; `os.open` refuses more of them than the first number says."""
    most = [3]  # a file, and on the way to the next one two directories at a time
    really_open, really_close = os.open, os.close
    are_open: set[int] = set()

    def is_open(descriptor: int) -> bool:  # a file object closes its own without `os.close`
        try:
            os.fstat(descriptor)
        except OSError:
            return False
        return True

    def open_one(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        are_open.intersection_update(list(filter(is_open, are_open)))
        if len(are_open) >= most[0]:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)
        descriptor = really_open(path, flags, *args, **kwargs)
        are_open.add(descriptor)
        return descriptor

    def close_one(descriptor: int) -> None:
        are_open.discard(descriptor)
        really_close(descriptor)

    monkeypatch.setattr(os, "open", open_one)
    monkeypatch.setattr(os, "close", close_one)
    return most


def test_loggers_make_room_for_each_file_by_closing_others(
    scarce: list[int], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trials = [Trial("t", config={"x": i}, trial_id=f"{i}", experiment_path=str(tmp_path)) for i in range(3)]
    for trial in trials:
        trial.set_directory(str(tmp_path), trial.trial_id)
        (tmp_path / trial.trial_id).mkdir()
    for logger in (JsonLoggerCallback(), CSVLoggerCallback()):
        for n in range(3):
            for trial in trials:
                logger.log_trial_result(n, trial, {"n": n, **({"late": n} if n else {})})
        for trial in trials:
            logger.log_trial_end(trial)
    for trial in trials:
        lines = (tmp_path / trial.trial_id / "result.json").read_text().splitlines()
        assert [json.loads(line)["n"] for line in lines] == [0, 1, 2]
        assert (tmp_path / trial.trial_id / "params.json").exists()
        assert (tmp_path / trial.trial_id / "progress.csv").read_text() == "n,late\n0,\n1,1\n2,2\n"
    assert not caplog.records


def test_append_files_keep_few_open_where_few_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptors, "limit", lambda: 48)
    before = len(os.listdir("/dev/fd"))
    files = AppendFiles()
    for name in "abcdef":
        files.open(name, str(tmp_path / name))
        files.append(name, b"line\n")
    assert len(os.listdir("/dev/fd")) - before == 3
    files.close_all()


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="this is of Linux")
def test_a_packet_goes_without_a_descriptor_where_too_many_are_on_their_way() -> None:
    from minitune.actor.packets import receive_packet, send_packet

    class Full:
        """A socket that takes no descriptor now."""

        def __init__(self, end: socket.socket):
            self._end = end

        def sendmsg(self, data: Any, rights: Any, flags: int) -> None:
            if rights:
                raise OSError(errno.ETOOMANYREFS, os.strerror(errno.ETOOMANYREFS))
            self._end.sendmsg(data, rights, flags)

    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        send_packet(Full(ours), ("fork", 1), [theirs.fileno()])  # type: ignore[arg-type]  # all that is used of one
        assert receive_packet(theirs) == (("fork", 1), [])
