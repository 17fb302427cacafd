"""A trial that prints without end: the middle of its output is left out, with a line that says so."""

from __future__ import annotations

import logging
import os
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from kit import fit, make_trial

from minitune import report
from minitune.output import trial_output
from minitune.output.trial_output import OutputLimit, cut_middle

NOTE = re.compile(rb"\[minitune: (\S+) MB of output are left out here\]\n")


def lines(first: int, last: int) -> bytes:
    return b"".join(b"line %06d\n" % number for number in range(first, last))


def test_the_beginning_and_the_end_are_kept_however_often_it_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "stdout"
    written = 0
    left_out = 0
    for _ in range(3):
        with open(path, "ab") as file:
            file.write(lines(written, written + 100_000))
        written += 100_000
        left_out = cut_middle(str(path), 30_000, 12_000, left_out)
        head, megabytes, tail = NOTE.split(path.read_bytes())

        assert head == lines(0, 2500) + b"\n"
        assert tail == lines(written - 1000, written)
        assert abs(float(megabytes) * 1e6 - (12 * written - len(head) - len(tail))) < 0.01 * 12 * written


def test_appending_writer_continues_at_the_new_end(tmp_path: Path) -> None:
    path = tmp_path / "stdout"
    path.write_bytes(lines(0, 100_000))
    with open(path, "ab", buffering=0) as writer:
        writer.write(lines(100_000, 100_001))
        cut_middle(str(path), 30_000, 20_000)
        writer.write(b"the end\n")
    assert path.read_bytes().endswith(b"line 100000\nthe end\n")
    assert path.stat().st_size < 50_100


def flood(config: dict[str, Any]) -> None:
    line = b"y" * 999 + b"\n"
    for _ in range(3000):
        os.write(1, line)
    report({"pid": os.getpid()})


def test_flooding_output_is_limited_with_one_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(trial_output, "OUTPUT_LIMIT_BYTES", 1_000_000)
    before = set(threading.enumerate())
    with caplog.at_level(logging.WARNING, logger="minitune"):
        (result,) = fit(flood, executor="local")
    data = Path(result.path, "stdout").read_bytes()

    assert result.error is None
    assert len(data) <= 1_000_000
    assert NOTE.search(data)
    assert caplog.text.count("prints more than 1 MB to ") == 1
    assert set(threading.enumerate()) <= before


def test_the_line_of_a_file_that_is_cut_again_counts_all_that_was_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial_output, "OUTPUT_LIMIT_BYTES", 100_000)
    trial = make_trial(experiment_path=str(tmp_path))
    path = Path(trial.local_path, "stdout")
    path.parent.mkdir()
    limit = OutputLimit(("stdout", "stderr"))
    for _ in range(2):
        with open(path, "ab") as file:
            file.write(bytes(1_050_000))
        limit.on_trial_start(0, [trial], trial)
        limit.on_trial_complete(0, [trial], trial)
        limit.on_experiment_end([trial])
    assert NOTE.findall(path.read_bytes()) == [b"2.05"]


def test_without_workers_a_file_of_that_name_is_not_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials inside the driver write no output file, so a file with this name belongs to the user."""
    monkeypatch.setattr(trial_output, "OUTPUT_LIMIT_BYTES", 1_000)
    own = tmp_path / "own"
    own.write_bytes(lines(0, 1000))
    fit(lambda config: report({"loss": 1}), executor="inline", log_to_file=str(own))

    assert own.read_bytes() == lines(0, 1000)


def test_only_files_that_are_larger_than_the_limit_are_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(trial_output, "OUTPUT_LIMIT_BYTES", 100_000)
    trials = [make_trial(number, experiment_path=str(tmp_path)) for number in range(3)]
    for trial, name, size in zip(trials, ("stdout", "stderr", "stderr"), (100_000, 100_001, 200_000), strict=True):
        path = Path(trial.local_path, name)
        path.parent.mkdir()
        path.write_bytes(bytes(size))
    limit = OutputLimit(("stdout", "stderr"))
    for trial in trials[:2]:
        limit.on_trial_start(0, trials, trial)
    limit.on_trial_complete(0, trials, trials[0])
    limit.on_trial_error(0, trials, trials[1])
    limit.on_trial_error(0, trials, trials[2])  # it had no worker, so the file is not its own
    limit.on_experiment_end(trials)
    sizes = [sum(path.stat().st_size for path in Path(trial.local_path).iterdir()) for trial in trials]
    assert (sizes[0], sizes[2]) == (100_000, 200_000)
    assert 50_500 < sizes[1] < 50_600, "a half of the limit, and its last 0.5 %"
    assert len(caplog.messages) == 1
    assert f"trial {trials[1].name} prints more than 0.1 MB to {trials[1].local_path}/stderr" in caplog.text


def test_a_file_that_grows_is_looked_at_soon_again_and_others_ever_later(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    news = iter([True, False, False, False, True, *[False] * 9])

    class Over:
        def wait(self, delay_s: float) -> bool:
            waited.append(delay_s)
            return len(waited) == 15

    limit = OutputLimit(("stdout", "stderr"))
    monkeypatch.setattr(limit, "_is_over", Over())
    monkeypatch.setattr(limit, "_look", lambda: next(news))
    limit._watch()
    assert waited == [0.5, 0.5, 1, 2, 4, 0.5, 1, 2, 4, 8, 16, 30, 30, 30, 30]


def test_news_is_what_has_been_printed_since_the_last_look(tmp_path: Path) -> None:
    trial = make_trial(experiment_path=str(tmp_path))
    path = Path(trial.local_path, "stdout")
    path.parent.mkdir()
    path.touch()
    limit = OutputLimit(("stdout", "stderr"))
    limit.on_trial_start(0, [trial], trial)
    assert not limit._look()
    path.write_text("a")
    assert [limit._look(), limit._look()] == [True, False]
    limit.on_experiment_end([trial])
