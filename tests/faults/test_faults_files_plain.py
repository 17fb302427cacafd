"""Plain files of trials that were lost, cut or scribbled on: they are as before when the run goes on."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minitune import (
    Callback,
    Checkpoint,
    FailureConfig,
    FIFOScheduler,
    RunConfig,
    Trial,
    TuneConfig,
    Tuner,
    get_checkpoint,
    get_context,
    grid_search,
    report,
)
from minitune.decision import Decision

RUN = "run"


def run_path() -> Path:
    return Path(os.environ["MINITUNE_STORAGE_PATH"]) / RUN


def trainable(config: dict[str, Any]) -> None:
    """Reports awkward values and late columns; the second trial fails once, so it has rows of two attempts."""
    for n in range(1, 4):
        report({"n": n, "loss": float("nan"), "nested": {"key": [n, "a\nb"]}, **({"late": n} if n == 3 else {})})
        if config["x"] == 2 and n == 2 and not (Path(get_context().get_trial_dir()) / "failed").exists():
            (Path(get_context().get_trial_dir()) / "failed").touch()
            raise ValueError("once")


def fit(callbacks: list[Callback] | None = None) -> None:
    Tuner(
        trainable,
        param_space={"x": grid_search([1, 2]), "function": len},
        tune_config=TuneConfig(executor="inline"),
        run_config=RunConfig(name=RUN, verbose=0, callbacks=callbacks, failure_config=FailureConfig(max_failures=1)),
    ).fit()


def resume() -> None:
    grid = Tuner.restore(str(run_path()), trainable).fit()
    assert grid.num_terminated == 2


def contents() -> dict[str, bytes]:
    return {
        str(path.relative_to(run_path())): path.read_bytes()
        for pattern in ("*/result.json", "*/progress.csv", "*/params.json")
        for path in run_path().glob(pattern)
    }


def cut_last_line(path: Path) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


def cut_within_a_line(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def add_junk(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"junk\nmore junk")


DAMAGES: list[Callable[[Path], Any]] = [
    Path.unlink,
    lambda path: path.write_bytes(b""),
    cut_last_line,
    cut_within_a_line,
    add_junk,
]


@pytest.mark.parametrize("damage", DAMAGES, ids=["removed", "emptied", "a line less", "half a line less", "junk"])
def test_what_was_damaged_is_rebuilt_byte_by_byte(damage: Callable[[Path], Any]) -> None:
    fit()
    before = contents()
    assert len(before) == 6
    assert sorted(len(data.splitlines()) for name, data in before.items() if "result.json" in name) == [3, 5]
    for pattern in ("*/result.json", "*/progress.csv"):
        for path in run_path().glob(pattern):
            damage(path)
    resume()
    assert contents() == before


def test_only_what_is_damaged_is_written() -> None:
    fit()
    paths = sorted(run_path().glob("*/result.json"))
    paths[0].unlink()
    untouched = os.stat(paths[1])
    resume()
    assert (os.stat(paths[1]).st_ino, os.stat(paths[1]).st_mtime_ns) == (untouched.st_ino, untouched.st_mtime_ns)
    assert len(paths[0].read_bytes().splitlines()) == 3


def test_a_directory_that_was_removed_stays_so() -> None:
    fit()
    gone = sorted(run_path().glob("*/result.json"))[0].parent
    for path in gone.iterdir():
        path.unlink()
    gone.rmdir()
    resume()
    assert not gone.exists()


def test_what_nobody_logs_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
    fit()
    resume()
    assert contents() == {}


def test_rows_have_the_configuration_of_their_time() -> None:
    """A trial that goes on under another configuration has rows of both."""

    class Exploit(FIFOScheduler):
        def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> Any:
            if trial.number == 1 and result["n"] == 2 and trial.config["x"] == "taker":
                return Decision("PAUSE", exploit=(tune_controller.get_trials()[0], {"x": "given"}))
            return self.CONTINUE

    def counter(config: dict[str, Any]) -> None:
        checkpoint = get_checkpoint()
        done = int(Path(checkpoint.path, "n").read_text()) if checkpoint else 0
        for n in range(done + 1, 5):
            with tempfile.TemporaryDirectory() as directory:
                Path(directory, "n").write_text(str(n))
                report({"n": n}, checkpoint=Checkpoint.from_directory(directory))

    Tuner(
        counter,
        param_space={"x": grid_search(["donor", "taker"])},
        tune_config=TuneConfig(executor="inline", scheduler=Exploit()),
        run_config=RunConfig(name=RUN, verbose=0),
    ).fit()
    before = contents()
    taker = next(data for name, data in before.items() if name.endswith("result.json") and b"given" in data)
    assert b"taker" in taker
    for pattern in ("*/result.json", "*/progress.csv"):
        for path in run_path().glob(pattern):
            path.unlink()
    Tuner.restore(str(run_path()), counter).fit()
    assert contents() == before
