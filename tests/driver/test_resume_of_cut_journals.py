"""A run whose driver was killed at any record, or at any byte, ends with the same table as one that was not."""

import os
import shutil
from pathlib import Path

import pytest
from kit import Counter, Learner, PauseOnce, SavedCounter, counting, fit, journal_of, newest_state, resume, run_path

from minitune import TPESearch, Tuner, choice, grid_search, report, uniform
from minitune.schedulers import HyperBandForBOHB
from minitune.search import AutoSearch
from minitune.search.bohb import TuneBOHB


def fails_once(config):
    """Fails in its first attempt, which leaves a mark beside the run."""
    mark = Path(config["marks"], str(config["i"]))
    report({"n": 1})
    if config["i"] == 1 and not mark.exists():
        mark.touch()
        raise ValueError("for once")
    report({"n": 2})


def bowl(config):
    for n in (1, 2):
        report({"n": n, "loss": (config["x"] - 0.3) ** 2 / n})


pytestmark = pytest.mark.usefixtures("inline")

SPACE = {"i": grid_search([0, 1, 2]), "x": uniform(0, 1)}
LINE = {"x": uniform(0, 1)}
MINIMISE = {"num_samples": 5, "metric": "loss", "mode": "min", "max_concurrent_trials": 1}
CASES = {
    "search": (counting(2), None, {"search_alg": Learner(3), "num_samples": 3, "max_concurrent_trials": 1}),
    "two at a time": (counting(2), SPACE, {"max_concurrent_trials": 2}),
    "class": (SavedCounter, {**SPACE, "end": 3}, {"max_concurrent_trials": 2}),
    "pauses": (
        SavedCounter,
        {"i": grid_search([0, 1]), "end": 3},
        {"scheduler": PauseOnce(2), "checkpoint_frequency": 1},
    ),
    "tpe": (bowl, LINE, {"search_alg": TPESearch(n_initial_points=2), **MINIMISE}),
    "auto": (bowl, LINE, {"search_alg": AutoSearch(n_initial_points=2), **MINIMISE}),
    "resampled": (bowl, {"x": choice([0, 1, 2])}, {"search_alg": "tpe", "on_duplicate": "resample", **MINIMISE}),
    "bands": (
        bowl,
        LINE,
        {"search_alg": TuneBOHB(), "scheduler": HyperBandForBOHB(max_t=2, reduction_factor=2), **MINIMISE},
    ),
    "retries": (fails_once, {"i": grid_search([0, 1])}, {"max_failures": 1}),
}


def table(grid):
    """The part of the results that does not depend on time and place."""
    return [
        (
            {name: value for name, value in result.config.items() if name != "marks"},
            result.metrics["n"],
            result.metrics["training_iteration"],
            result.metrics["done"],
            None if result.error is None else str(result.error),
        )
        for result in grid
    ]


def restore_copy(tmp_path, name, length, trainable):
    """A copy of the run whose journal has only so many bytes."""
    copy = tmp_path / name
    shutil.copytree(run_path(), copy)
    os.truncate(copy / "journal", length)
    return copy, Tuner.restore(copy, trainable, run_config=None)


@pytest.mark.parametrize(
    ("case", "saves"),
    [("search", "0"), ("auto", "0"), ("bands", "0"), *((case, "3600") for case in CASES)],
)
def test_a_run_that_was_cut_at_any_record_ends_with_the_same_table(case, saves, tmp_path, monkeypatch):
    """States are saved at every turn, or only at the end."""
    monkeypatch.setenv("MINITUNE_GLOBAL_CHECKPOINT_S", saves)
    trainable, space, settings = CASES[case]
    if case == "retries":
        space = {**space, "marks": str(tmp_path)}
    whole = fit(trainable, space, seed=11, **settings)
    ids = [result.metrics["trial_id"] for result in whole]
    lines = (run_path() / "journal").read_bytes().splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines) if b'{"type":"open"' in line) + 1
    length = sum(map(len, lines[:first]))
    for number, line in enumerate(lines[first:]):
        length += len(line)
        if saves == "0" and number % 3:
            continue
        copy, tuner = restore_copy(tmp_path, f"cut-{number}", length - len(line), trainable)
        grid = tuner.fit()
        assert table(grid) == table(whole), number
        assert len({result.metrics["trial_id"] for result in grid}) == len(ids)
        for result in grid:
            assert [row["training_iteration"] for row in result.get_rows() or ()][-1:] == [
                result.metrics["training_iteration"]
            ]
        if case == "search":
            heard = newest_state("searcher", copy)["heard"]
            assert len(set(heard)) == len(heard), "nothing is told twice"
            assert heard == newest_state("searcher")["heard"]
        shutil.rmtree(copy)


def test_a_trial_whose_last_result_is_on_record_does_not_run_again(tmp_path):
    """A class that is to be saved at its end would: it was not saved."""
    steps = []

    class Kind(Counter):
        def step(self):
            steps.append(self.n)
            return super().step()

    fit(Kind, {"end": 2})
    kinds = [record["type"] for record in journal_of()]
    lines = (run_path() / "journal").read_bytes().splitlines(keepends=True)
    last = len(kinds) - kinds[::-1].index("result")
    steps.clear()
    _, tuner = restore_copy(tmp_path, "cut", sum(map(len, lines[:last])), Kind)
    assert table(tuner.fit())[0][1] == 2
    assert steps == []


@pytest.mark.parametrize(("cut_after", "steps"), [("result", [2]), ("checkpoint", [])])
def test_a_trial_whose_last_result_is_on_record_is_saved_at_its_end(cut_after, steps, tmp_path):
    """It goes on from its checkpoint before, unless that of its end is on record, too."""
    seen = []

    class Kind(SavedCounter):
        def step(self):
            seen.append(self.n)
            return super().step()

    fit(Kind, {"end": 3}, checkpoint_frequency=2, checkpoint_at_end=True)
    kinds = [record["type"] for record in journal_of()]
    lines = (run_path() / "journal").read_bytes().splitlines(keepends=True)
    last = len(kinds) - kinds[::-1].index(cut_after)
    seen.clear()
    _, tuner = restore_copy(tmp_path, "cut", sum(map(len, lines[:last])), Kind)
    (result,) = tuner.fit()
    assert seen == steps
    assert (result.checkpoint.to_dict()["n"], result.metrics["training_iteration"]) == (3, 3)


def test_a_run_that_was_cut_at_any_byte_of_its_last_records_ends_with_the_same_table(tmp_path):
    whole = fit(counting(2), {"i": grid_search([1, 2])}, seed=1, max_concurrent_trials=1)
    lines = (run_path() / "journal").read_bytes().splitlines(keepends=True)
    results = [number for number, record in enumerate(journal_of()) if record["type"] == "result"]
    begin = sum(map(len, lines[: results[-1]]))
    end = begin + sum(map(len, lines[results[-1] : results[-1] + 3]))
    for length in range(begin, end + 1, 37):
        copy, tuner = restore_copy(tmp_path, f"cut-{length}", length, counting(2))
        assert table(tuner.fit()) == table(whole)
        shutil.rmtree(copy)


def test_resumed_run_is_cut_again(tmp_path):
    """The records that a resume itself writes are cut too."""
    whole = fit(counting(3), SPACE, seed=5, max_concurrent_trials=1)
    lines = (run_path() / "journal").read_bytes().splitlines(keepends=True)
    os.truncate(run_path() / "journal", sum(map(len, lines[: len(lines) // 2])))
    resumed = resume(counting(3), callbacks=())
    assert table(resumed) == table(whole)
    lines = (run_path() / "journal").read_bytes().splitlines(keepends=True)
    for number in range(len(lines) // 3, len(lines), 3):
        copy, tuner = restore_copy(tmp_path, f"cut-{number}", sum(map(len, lines[:number])), counting(3))
        assert table(tuner.fit()) == table(whole), number
        shutil.rmtree(copy)
