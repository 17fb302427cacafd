"""Links that somebody has planted in a run's directory: nothing outside changes, the link is named, the run goes on.

Users' own links, on the way to a run or in what their trials write, are none of that.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kit
import pytest
from kit import RUN, SavedCounter, Spy, report_state, run_path, tree

from minitune import (
    Callback,
    Checkpoint,
    ResultGrid,
    Trial,
    TuneError,
    get_checkpoint,
    get_context,
    grid_search,
    report,
)
from minitune.error import UntrustedStateError
from minitune.schedulers.pbt import PERTURBED, Step, policy_path, write_step

pytestmark = pytest.mark.usefixtures("hurried")

CHOSEN = 1
"""The value of `x` of the trial in whose directory a link is planted; there are one before and one after it."""


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory that must not change, with a file and with a directory that looks like one of ours."""
    directory = tmp_path / "outside"
    (directory / "checkpoint_000000").mkdir(parents=True)
    for name in ("file", "checkpoint_000000/file", "result.json", "error.pkl"):
        (directory / name).write_text("precious\n" * 100)
    return directory


def plant(link: Path, target: Path) -> None:
    """Replace a file or directory, if there is one, by a link."""
    if link.is_dir() and not link.is_symlink():
        shutil.rmtree(link)
    link.unlink(missing_ok=True)
    link.symlink_to(target)


class Planter(Callback):
    """Plants a link when the chosen trial starts, or when it has reported twice. It comes before the loggers."""

    def __init__(self, link: Callable[[Trial], Path], target: Path, after: int = 0):
        self._link = link
        self._target = target
        self._after = after

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        if self._after == 0:
            self._plant(trial)

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        if trial.report_count + 1 == self._after:
            self._plant(trial)

    def _plant(self, trial: Trial) -> None:
        if trial.config["x"] == CHOSEN and trial.num_failures == 0:
            plant(self._link(trial), self._target)


def in_trial(name: str) -> Callable[[Trial], Path]:
    return lambda trial: Path(trial.local_path) / name


def function(config: dict[str, Any]) -> None:
    """Reports five times with a checkpoint; a late column makes the table to be written anew."""
    for n in range(1, 6):
        report_state(n, {"n": n, **({"late": n} if n == 4 else {})})
    if config.get("fails") and config["x"] == CHOSEN:
        raise RuntimeError("as it should")


def fit(trainable: Any, callbacks: list[Callback], *, fails: bool = False, max_failures: int = 0) -> ResultGrid:
    return kit.fit(
        trainable,
        {"x": grid_search([0, CHOSEN, 2]), "fails": fails, "end": 5},
        max_concurrent_trials=2,
        callbacks=callbacks,
        max_failures=max_failures,
        num_to_keep=1,
        checkpoint_frequency=int(trainable is SavedCounter),
    )


def others_ended_well(grid: ResultGrid) -> bool:
    return all(result.error is None and result.metrics["n"] == 5 for result in (grid[0], grid[2]))


FILES = ("params.json", "params.pkl", "result.json", "progress.csv", "error.txt", "error.pkl")
LINKS = [
    # a link in the trial's directory, where it leads, after how many reports, and what becomes of the trial
    *((name, target, 0, "told") for name in FILES for target in ("file", ".")),
    *(("progress.csv", target, 4, "told") for target in ("file", ".")),  # when it is written anew
    *((f"{name}.tmp", "file", 0, "not touched") for name in ("params.json", "params.pkl", "progress.csv")),
    *(("", ".", after, "ended") for after in (0, 2)),
    *((name, target, 2, "ended") for name in (".tmp-000002-1", "checkpoint_000002") for target in ("file", ".")),
    ("checkpoint_000002", ".", 2, "tried again"),
    ("checkpoint_000000", "checkpoint_000000", 2, "told"),  # when it is to be removed
]


@pytest.mark.parametrize(
    ("name", "target", "after", "outcome", "trainable"),
    [
        (*link, trainable)
        for link in LINKS
        for trainable in ([function] if "." in link[0][1:] else [function, SavedCounter])  # logs are the same for both
    ],
)
def test_nothing_goes_through_a_link_in_a_trials_directory(
    name: str, target: str, after: int, outcome: str, trainable: Any, outside: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = tree(outside)
    fails = name.startswith("error")

    grid = fit(
        trainable,
        [Planter(in_trial(name), outside / target, after)],
        fails=fails,
        max_failures=1 if outcome == "tried again" else 0,
    )

    assert tree(outside) == before
    assert others_ended_well(grid)
    error = str(grid[1].error)
    if outcome == "ended":
        assert f"{name or grid[1].path} is a symbolic link" in error
    else:
        assert "as it should" in error if fails else error == "None", "what cannot be written ends no trial"
        assert (f"{name} is a symbolic link" in caplog.text) == (outcome == "told") or outcome == "tried again"
    if outcome == "not touched":
        assert json.loads(Path(grid[1].path, "params.json").read_text()) == {"x": CHOSEN, "fails": False, "end": 5}


@pytest.mark.parametrize(("name", "executor"), [("lock", "inline"), ("lock", "local"), ("objects", "inline")])
def test_a_run_does_not_begin_through_links_in_its_directory(name: str, executor: str, outside: Path) -> None:
    before = tree(outside)
    run_path().mkdir(parents=True)
    (run_path() / name).symlink_to(outside)
    with pytest.raises((TuneError, OSError), match=f"{run_path()}/{name} is a symbolic link"):
        kit.fit(function, executor=executor)
    assert tree(outside) == before


def test_space_is_not_set_aside_through_a_link(outside: Path) -> None:
    before = tree(outside)
    run_path().mkdir(parents=True)
    (run_path() / "reserve").symlink_to(outside / "file")
    grid = fit(function, [Planter(lambda trial: run_path() / "reserve", outside / "file", after=1)])

    assert tree(outside) == before
    assert grid.num_terminated == 3


def test_population_based_training_writes_its_files_through_no_link(outside: Path, tmp_path: Path) -> None:
    before = tree(outside)
    run = tmp_path / "population"
    run.mkdir()
    tag = f"0_x=1{PERTURBED}x=2]"
    for planted in (run / "pbt_global.txt", Path(policy_path(str(run), "a")), Path(policy_path(str(run), "b"))):
        plant(planted, outside / "file")
        with pytest.raises(OSError, match=f"{planted} is a symbolic link"):
            write_step(str(run), "a", "b", Step(tag, tag, 1, 1, {}, {}))
        planted.unlink()
    assert tree(outside) == before


@pytest.mark.parametrize("name", ["result.json", "progress.csv", "."])
def test_a_resume_mends_no_file_through_a_link(name: str, outside: Path, caplog: pytest.LogCaptureFixture) -> None:
    def end(trial: Trial, result: dict[str, Any]) -> None:
        if trial.config["x"] == 2 and result["n"] == 4:
            raise OSError("the driver ends")

    with pytest.raises(OSError, match="the driver ends"):
        fit(function, [Spy(end)])
    chosen = next(path for path in run_path().iterdir() if f"x={CHOSEN}_" in path.name)
    other = next(path for path in run_path().iterdir() if "x=2_" in path.name)
    for directory in (chosen, other):
        plant(directory if name == "." else directory / name, outside if name == "." else outside / "file")
    before = tree(outside)

    grid = kit.resume(function, callbacks=())

    assert tree(outside) == before
    assert grid[0].error is grid[1].error is None
    if name == ".":
        assert f"{other} is a symbolic link" in str(grid[2].error)
    else:
        assert grid.num_terminated == 3
        assert f"{other / name} is a symbolic link" in caplog.text


@pytest.mark.parametrize(("name", "kind"), [("stdout", "a symbolic link"), ("stderr", "a FIFO")])
def test_a_workers_output_goes_through_no_link_and_waits_for_no_one(outside: Path, name: str, kind: str) -> None:
    def trainable(config: dict[str, Any]) -> None:
        print("printed")
        path = Path(get_context().get_trial_dir(), name)
        if config["x"] == CHOSEN:
            path.unlink()
            if kind == "a FIFO":
                os.mkfifo(path)
            else:
                path.symlink_to(outside / "file")
            os._exit(1)
        report({"n": 5})

    before = tree(outside)
    space = {"x": grid_search([0, CHOSEN, 2])}
    grid = kit.fit(trainable, space, executor="local", max_concurrent_trials=2, max_failures=1)
    assert tree(outside) == before
    assert others_ended_well(grid)
    assert f"/{name} is {kind}" in str(grid[1].error)


def test_links_of_the_users_own_are_followed_and_kept(tmp_path: Path, outside: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    os.symlink(real, os.environ["MINITUNE_STORAGE_PATH"])

    def trainable(config: dict[str, Any]) -> None:
        own = Path(get_context().get_trial_dir())
        if not (own / "latest").is_symlink():
            (own / "latest").symlink_to(outside / "file")
            (own / "data").symlink_to(outside)
        for n in range(5):
            with tempfile.TemporaryDirectory() as directory:
                Path(directory, "weights").write_text(str(n))
                Path(directory, "last").symlink_to("weights")
                Path(directory, "data").symlink_to(outside)
                report({"n": n}, checkpoint=Checkpoint.from_directory(directory))
        report({"n": 5}, checkpoint=Checkpoint.from_directory(own))
        kept = get_checkpoint()
        assert kept is not None
        assert os.readlink(Path(kept.path, "data")) == str(outside)

    before = tree(outside)
    grid = fit(trainable, [])
    assert grid.num_terminated == 3, grid.errors
    assert kit.resume(trainable).num_terminated == 3
    assert tree(outside) == before
    (real / RUN).rename(tmp_path / "elsewhere")
    (real / RUN).symlink_to(tmp_path / "elsewhere")
    whole = tree(tmp_path / "elsewhere")
    with pytest.raises(UntrustedStateError, match=f"{RUN} cannot be the directory of a run: it is a link"):
        kit.resume(trainable)
    assert tree(tmp_path / "elsewhere") == whole
