"""When trials are saved, and which checkpoints are kept."""

import os
from pathlib import Path

import pytest
from kit import (
    Counter,
    Log,
    LoggingCallback,
    SavedCounter,
    Spy,
    fit,
    report_n,
    report_state,
    restored_state,
)

from minitune import CheckpointConfig


def kept(result):
    """The numbers of the checkpoints on disk."""
    return sorted(int(name[-6:]) for name in os.listdir(result.path) if name.startswith("checkpoint_"))


@pytest.mark.parametrize(
    ("frequency", "at_end", "saved_at"),
    [
        (0, None, [7]),
        (0, False, []),
        (0, True, [7]),
        (2, False, [2, 4, 6]),
        (2, None, [2, 4, 6, 7]),
        (7, True, [7]),
        (1, None, [1, 2, 3, 4, 5, 6, 7]),
    ],
)
def test_a_class_is_saved_at_a_frequency_and_at_its_end(frequency, at_end, saved_at):
    log = Log()
    grid = fit(
        SavedCounter,
        {"end": 7},
        checkpoint_frequency=frequency,
        checkpoint_at_end=at_end,
        callbacks=[LoggingCallback(log)],
    )
    assert [metrics["n"] for _, metrics in grid[0].best_checkpoints] == saved_at
    assert kept(grid[0]) == list(range(len(saved_at)))
    assert len(log.of("callback.on_trial_save")) == len(saved_at)
    if saved_at:
        assert Path(grid[0].checkpoint.path, "_dict_checkpoint.pkl").exists()


def test_a_class_without_save_checkpoint_has_none():
    grid = fit(Counter, {"end": 3})
    assert grid.num_errors == 0
    assert grid[0].checkpoint is None
    assert kept(grid[0]) == []


@pytest.mark.parametrize("config", [CheckpointConfig(checkpoint_frequency=1), CheckpointConfig(checkpoint_at_end=True)])
@pytest.mark.parametrize("trainable", [report_n(1), Counter])
def test_checkpoint_config_is_refused_without_saves(config, trainable):
    with pytest.raises(ValueError, match=r"checkpoint_frequency and checkpoint_at_end must not be set"):
        fit(trainable, checkpoint_config=config)


def test_a_class_whose_step_ends_it_is_saved_at_the_end():
    class Ending(SavedCounter):
        def step(self):
            if self.n == 2:
                raise StopIteration
            return super().step()

    grid = fit(Ending)
    assert grid[0].error is None
    assert [metrics["n"] for _, metrics in grid[0].best_checkpoints] == [2]


def test_should_checkpoint_comes_from_the_trial_or_from_a_callback():
    class Asking(SavedCounter):
        def step(self):
            return {**super().step(), "should_checkpoint": self.n == 2}

    def ask(trial, result):
        if result["n"] == 4:
            result["should_checkpoint"] = True

    grid = fit(Asking, {"end": 5}, checkpoint_at_end=False, callbacks=[Spy(at_result=ask)])
    assert [metrics["n"] for _, metrics in grid[0].best_checkpoints] == [2, 4]


SCORES = [3, 9, 1, 7, 5, 2]


def scoring(config):
    for n, score in enumerate(SCORES):
        report_state(n, {"eval": {"score": score}})


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (CheckpointConfig(), [0, 1, 2, 3, 4, 5]),
        (CheckpointConfig(num_to_keep=2), [4, 5]),
        (
            CheckpointConfig(num_to_keep=1, checkpoint_score_attribute="eval/score", checkpoint_score_order="min"),
            [2, 5],
        ),
    ],
)
def test_the_latest_and_the_best_are_kept(config, expected):
    grid = fit(scoring, checkpoint_config=config)
    assert kept(grid[0]) == expected
    assert grid[0].checkpoint.path.endswith("checkpoint_000005")
    best = sorted(int(Path(checkpoint.path, "state").read_text()) for checkpoint, _ in grid[0].best_checkpoints)
    assert best == expected[: config.num_to_keep], "the latest is kept besides, where it is not among the best"


@pytest.mark.parametrize(
    ("metric", "mode", "name", "order", "is_told"),
    [
        ("eval/score", "min", "eval/score", "max", True),
        (["eval/score", "n"], ["min", "max"], "eval/score", "max", True),
        ("eval/score", "min", "eval/score", "min", False),
        ("eval/score", "min", "n", "max", False),
        (None, None, "eval/score", "max", False),
    ],
)
def test_an_order_against_the_mode_of_the_run_is_told(metric, mode, name, order, is_told, caplog):
    config = CheckpointConfig(checkpoint_score_attribute=name, checkpoint_score_order=order)
    fit(lambda config: {"eval": {"score": 1}, "n": 1}, checkpoint_config=config, metric=metric, mode=mode)
    assert ("pass checkpoint_score_order='min'" in caplog.text) == is_told


def test_a_retry_finds_its_checkpoint_although_few_are_kept():
    failed = []

    def trainable(config):
        for n in range(restored_state() + 1, 8):
            if n == 5 and not failed:
                failed.append(n)
                raise RuntimeError("once")
            report_state(n, {"score": -n})

    grid = fit(
        trainable,
        max_failures=1,
        num_to_keep=1,
        checkpoint_score_attribute="score",
    )
    assert [row["training_iteration"] for row in grid[0].get_rows()] == [1, 2, 3, 4, 5, 6, 7]
    assert kept(grid[0]) == [0, 6], "the best, and the latest"
