"""A run of an earlier version, whose journal has only texts for endings, is read and resumed.

`earlier_endings/` has what that run left. Its first driver was interrupted. Its second one was killed when the last
trial had made its second report, and had lost a zygote before.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import kit
import pytest

from minitune import get_checkpoint, report
from minitune.experiment.endings import EndKind, translated
from minitune.record import records
from minitune.record.journal import read
from minitune.record.story import PastRun, read_decisions, read_overview, read_run

OF_TRIALS = [
    EndKind.RETURNED,
    EndKind.DONE,
    EndKind.CRITERION,
    EndKind.SCHEDULER,
    EndKind.MAX_T,
    EndKind.MAX_T,
    EndKind.FAILED,
    EndKind.RETURNED,
    None,
]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(Path(__file__).parent / "earlier_endings", tmp_path / "earlier"))


def kinds_of(path: Path) -> list[EndKind | None]:
    return [None if trial.ending is None else trial.ending.kind for trial in read_run(path).trials]


def test_texts_of_earlier_endings_become_kinds(run: Path) -> None:
    story = read_run(run)

    assert kinds_of(run) == OF_TRIALS
    assert [trial.stopped_by for trial in story.trials if trial.stopped_by] == ["ASHA"]
    assert [trial.num_failures for trial in story.trials] == [0, 0, 0, 0, 0, 1, 2, 0, 0]
    assert (story.trials[-1].status, read_overview(run).trials[-1].status) == ("RUNNING", "RUNNING")
    closes = [records.ending_of(record).kind for record in read(run / "journal") if record["type"] == "close"]
    assert closes == [EndKind.INTERRUPTED]
    assert len(PastRun.read(run).cut) == 2
    decisions = read_decisions(run).by_trial[story.trials[2].trial_id]
    assert str(decisions[-1]) == "after iteration 2: stopped because score >= 100 was reached"


def test_resumed_earlier_run_records_kinds_of_endings(run: Path) -> None:
    begins: dict[int, int] = {}

    def steps(config: dict[str, Any]) -> None:
        checkpoint = get_checkpoint()
        n = 0 if checkpoint is None else int(Path(checkpoint.path, "n").read_text())
        begins[config["i"]] = n
        while n < 9:
            n += 1
            report({"n": n, "loss": 1 / n, "score": 0})

    grid = kit.resume(steps, path=run, callbacks=(), executor="inline")

    assert begins == {6: 2, 8: 0}, "the last trial goes on, and the one that was not drawn yet begins"
    assert len(grid) == 10
    assert kinds_of(run) == [*OF_TRIALS[:-1], EndKind.RETURNED, EndKind.RETURNED]
    story = read_run(run)
    assert story.driver.ending is not None
    assert story.driver.ending.kind is EndKind.FINISHED
    assert not read_overview(run).unfinished

    kit.resume(steps, path=run, callbacks=(), executor="inline")
    assert begins == {6: 2, 8: 0}, "nothing is left to do"


@pytest.mark.parametrize(
    ("text", "status", "kind"),
    [
        ("finished", None, EndKind.FINISHED),
        ("interrupted", None, EndKind.INTERRUPTED),
        ("ended: the stopper has ended the run: TimeoutStopper", None, EndKind.STOPPER),
        ("ended: fail_fast: trial a failed", None, EndKind.FAIL_FAST),
        ("error", None, EndKind.ERROR),
        ("interrupted by SIGINT", "TERMINATED", EndKind.INTERRUPTED),
        ("the stopper has ended the run: TimeoutStopper", "TERMINATED", EndKind.STOPPER),
        ("fail_fast: trial a failed", "TERMINATED", EndKind.FAIL_FAST),
        ("skipped by a resume", "TERMINATED", EndKind.SKIPPED),
        ("", "TERMINATED", EndKind.SCHEDULER),
        ("lost: by a signal that may be meant for the whole run: SIGTERM (15)", "PENDING", EndKind.LOST),
        ("the driver ended", "PENDING", EndKind.DRIVER_ENDED),
        ("ValueError: lost: by the user", "PENDING", EndKind.FAILED),
        ("the trainable has returned", "ERROR", EndKind.FAILED),
    ],
)
def test_each_text_stands_for_a_kind(text: str, status: str | None, kind: EndKind) -> None:
    assert translated(text, status).kind is kind
