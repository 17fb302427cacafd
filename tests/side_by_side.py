"""A whole session in three processes: tests wait for processes of their own a third of the time.

A selection of many tests is shared out file by file, to whichever of three copies of this process is free. Their
reports come back here and are told in the order of the files, so that output, exit code and reports are those of a
session in one process. `MINITUNE_TEST_PROCESSES=1` has everything in one; so has whatever needs to see the tests as
they run: a debugger, `-s`, `-x` and `--stepwise`, `pytest-cov`, `pytest-xdist`.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from itertools import groupby, pairwise
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any

import pytest

PROCESSES = int(os.environ.get("MINITUNE_TEST_PROCESSES", "3"))
MANY = 1000
_NUMBER_BYTES = 2
_Seen = tuple[list[dict[str, Any]], list[tuple[Any, ...]]]


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests in several processes; None leaves it to pytest."""
    if PROCESSES < 2 or len(session.items) < MANY or _must_stay_in_one(session):
        return None
    files = [list(items) for _, items in groupby(session.items, key=lambda item: item.path)]
    queue, queue_end = os.pipe()  # several processes may read from a pipe, and each number is read once
    os.write(queue_end, b"".join(number.to_bytes(_NUMBER_BYTES, "big") for number in range(len(files))))
    os.close(queue_end)
    session.config._tmp_path_factory.getbasetemp()  # makes the directory that all have in common
    readers: dict[Connection, int] = {}
    try:
        for _ in range(PROCESSES):
            reader, writer = Pipe(duplex=False)
            pid = os.fork()
            if not pid:
                _run_files(session, files, queue, writer)
            writer.close()
            readers[reader] = pid
        _tell(session, files, list(readers))
    finally:
        _end(list(readers.values()))
    return True


def _must_stay_in_one(session: pytest.Session) -> bool:
    config, option = session.config, session.config.option
    is_watched = option.usepdb or option.trace or option.capture == "no" or option.maxfail or option.collectonly
    others = ("_cov", "dsession", "stepwiseplugin")
    return bool(
        session.testsfailed  # to be collected
        or is_watched
        or hasattr(config, "workerinput")  # a process of pytest-xdist's
        or any(config.pluginmanager.hasplugin(name) for name in others)
    )


# -- in the copies -----------------------------------------------------------------------------------------------------


class _Witness:
    """Notes what a process of its own has to be told."""

    def __init__(self, config: pytest.Config):
        self._config = config
        self._seen: _Seen = ([], [])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seen[0].append(self._config.hook.pytest_report_to_serializable(config=self._config, report=report))

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: Any
    ) -> None:
        one = warning_message
        self._seen[1].append((str(one.message), one.category, one.filename, one.lineno, when, nodeid, location))

    def taken(self) -> _Seen:
        """What was noted since the last call."""
        seen, self._seen = self._seen, ([], [])
        return seen


def _run_files(session: pytest.Session, files: list[list[pytest.Item]], queue: int, writer: Connection) -> None:
    """Run files until none is left, and end this process."""
    status = 1
    try:
        config = session.config
        config.pluginmanager.unregister(name="terminalreporter")
        capture: Any = config.pluginmanager.getplugin("capturemanager")
        capture.stop_global_capturing()  # its files are those of all processes
        capture.start_global_capturing()
        witness = _Witness(config)
        config.pluginmanager.register(witness)
        number = _next(queue)
        while number is not None:
            for item, nextitem in pairwise(files[number]):
                config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
            following = _next(queue)  # not sooner: another process may be free first
            nextitem = None if following is None else files[following][0]
            config.hook.pytest_runtest_protocol(item=files[number][-1], nextitem=nextitem)
            writer.send((number, witness.taken()))
            number = following
        status = 0
    except BaseException as error:  # also what ends a session; the process that was started sees it by the end of this
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # one is enough
        if not isinstance(error, KeyboardInterrupt):
            sys.excepthook(*sys.exc_info())
        session._setupstate.teardown_exact(None)  # as at the end of any session
    finally:
        os._exit(status)


def _next(queue: int) -> int | None:
    number = os.read(queue, _NUMBER_BYTES)
    return int.from_bytes(number, "big") if number else None


# -- in the process that was started -----------------------------------------------------------------------------------


def _tell(session: pytest.Session, files: list[list[pytest.Item]], readers: list[Any]) -> None:
    """Tell pytest what the copies have seen, file after file. Blocks until they have ended."""
    seen: dict[int, _Seen] = {}
    told = 0
    while readers:
        for reader in wait(readers):
            try:
                number, of_file = reader.recv()
            except EOFError:
                readers.remove(reader)
                continue
            seen[number] = of_file
        while told in seen:
            _tell_file(session.config, files[told], *seen.pop(told))
            told += 1
    for number in sorted(seen):
        _tell_file(session.config, files[number], *seen[number])
    if told < len(files):
        raise RuntimeError(f"a process ended before it had run {files[told][0].path}")


def _tell_file(
    config: pytest.Config, items: list[pytest.Item], reports: list[dict[str, Any]], warned: list[tuple[Any, ...]]
) -> None:
    hook = config.hook
    of_item: dict[str, list[Any]] = {item.nodeid: [] for item in items}
    for data in reports:
        report = hook.pytest_report_from_serializable(config=config, data=data)
        of_item[report.nodeid].append(report)
    for item in items:
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in of_item[item.nodeid]:
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    for message, category, filename, lineno, when, nodeid, location in warned:
        one = warnings.WarningMessage(message, category, filename, lineno)
        hook.pytest_warning_recorded.call_historic(
            kwargs={"warning_message": one, "when": when, "nodeid": nodeid, "location": location}
        )


def _end(pids: list[int]) -> None:
    """Wait for the copies. Where this process was interrupted, so are they."""
    for pid in pids:
        if sys.exc_info()[0] is not None:
            os.kill(pid, signal.SIGINT)
        os.waitpid(pid, 0)
