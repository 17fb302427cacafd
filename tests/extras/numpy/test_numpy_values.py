"""numpy's scalars and arrays as metrics and as configuration: the same after a resume, numbers or text in the files."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit import fit

from minitune import (
    ASHAScheduler,
    CheckpointConfig,
    ResultGrid,
    Study,
    Tuner,
    choice,
    grid_search,
    report,
    uniform,
)
from minitune.base.text import plain_number
from minitune.search import AutoSearch, TPESearch, TuneBOHB
from minitune.space.parameters import config_key
from minitune.trainable.printed import print_report, report_in

SCALARS = {
    "f16": np.float16(0.5),
    "f32": np.float32(0.1),
    "f64": np.float64(0.1),
    "i8": np.int8(-3),
    "u64": np.uint64(2**64 - 1),
    "bool": np.bool_(True),
    "nan": np.float32("nan"),
    "inf": np.float64("-inf"),
    "zero": np.array(2.5),
    "complex": np.complex64(1j),
    "text": np.str_("text"),
    "day": np.datetime64("2024-02-29"),
    "span": np.timedelta64(3, "s"),
}
ARRAYS = {
    "vector": np.arange(3),
    "large": np.zeros((100, 1000)),
    "empty": np.array([]),
    "mixed": np.array([1, "a", None], dtype=object),
    "record": np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
}


def trainable(config: dict[str, Any]) -> None:
    for _ in range(2):
        report({**SCALARS, **ARRAYS, "loss": config["x"]})


def fit_arrays(tmp_path: Path, executor: str, **tune: Any) -> ResultGrid:
    values = [np.float64(1.0), np.float32("nan"), np.float64(0.5), np.float64("inf")]
    space = {"x": grid_search(values), "n": np.int64(3), "eye": np.eye(2)}
    return fit(trainable, space, metric="loss", mode="min", executor=executor, storage_path=tmp_path, **tune)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("executor", ["inline", "local"])
def test_values_keep_their_types_and_the_best_is_a_number(tmp_path: Path, executor: str) -> None:
    fresh = fit_arrays(tmp_path, executor)
    resumed = Tuner.restore(str(tmp_path / "run"), trainable).fit()
    for grid in (fresh, resumed):
        assert not grid.errors
        for result in grid:
            for key, value in {**SCALARS, **ARRAYS}.items():
                found = result.metrics[key]
                assert type(found) is type(value)
                assert getattr(found, "dtype", None) == value.dtype
                np.testing.assert_array_equal(found, value)
            assert isinstance(result.config["eye"], np.ndarray)
            assert type(result.config["n"]) is np.int64
        assert grid.get_best_result().config["x"] == 0.5
        assert grid.get_best_result(metric="loss", mode="max").config["x"] == 1.0
        assert math.isinf(grid.get_best_result(mode="max", metric="loss", filter_nan_and_inf=False).config["x"])


def test_event_files_hold_numbers_and_short_text(tmp_path: Path) -> None:
    [result, *_] = fit_arrays(tmp_path, "inline")
    [row, _] = [json.loads(line) for line in (Path(result.path) / "result.json").read_text().splitlines()]
    numbers = {"f16": 0.5, "f64": 0.1, "i8": -3, "u64": 2**64 - 1, "bool": True, "zero": 2.5}
    assert {key: row[key] for key in numbers} == numbers
    assert (row["nan"], row["inf"]) == (None, "-Infinity")
    assert all(isinstance(row[key], str) and len(row[key]) <= 200 for key in ("large", "day", "complex"))
    assert (row["vector"], row["mixed"]) == ([0, 1, 2], [1, "a", None])
    config = json.loads((Path(result.path) / "params.json").read_text())
    assert (config["x"], config["n"]) == (1.0, 3)
    assert config["eye"] == [[1.0, 0.0], [0.0, 1.0]]
    read = type(result).from_path(result.path)
    assert read.metrics["f64"] == 0.1


def test_asha_and_retention_accept_numpy_numbers(tmp_path: Path) -> None:
    scheduler = ASHAScheduler(max_t=2, grace_period=1, reduction_factor=2)
    grid = fit_arrays(tmp_path, "inline", scheduler=scheduler)
    assert not grid.errors
    assert grid.get_best_result().config["x"] == 0.5
    assert CheckpointConfig(num_to_keep=np.int64(1)).num_to_keep == 1


@pytest.mark.parametrize("kind", [np.uint8, np.uint64, np.int8, np.int64, np.float16, np.array])
def test_a_study_compares_values_of_numpy_like_plain_ones(kind: Any) -> None:
    study = Study({"x": choice([1])}, "tpe", metric="loss", mode="min", seed=0)
    for value in (0, 5, 127, 0):
        study.tell(study.ask(), kind(value))
    assert study.best is study.history[0]
    assert type(study.best.metrics["loss"]) in (int, float)


def test_the_smallest_int_of_numpy_is_the_least() -> None:
    study = Study({"x": choice([1])}, metric="loss", mode="min")
    for value in (5, -128, 127):
        study.tell(study.ask(), np.int8(value))
    assert study.best is study.history[1]


OBJECTIVES: dict[str, tuple[Any, float | None]] = {
    "int64": (np.int64(3), 3),
    "scalar array": (np.array(0.5), 0.5),
    "array of one": (np.array([[0.5]]), 0.5),
    "object": (np.array(Decimal("0.5"), dtype=object), 0.5),
    "masked": (np.ma.masked, math.nan),
    "array of one masked": (np.ma.array([3.0], mask=True), math.nan),
    "bool": (np.bool_(True), None),
    "bool array": (np.array([True]), None),
    "array of two": (np.array([1.0, 2.0]), None),
    "timedelta": (np.timedelta64(3, "ns"), None),
    "bare timedelta": (np.timedelta64(3), None),
    "timedelta array": (np.array(3, dtype="m8[ns]"), None),
    "datetime": (np.datetime64("2024-02-29"), None),
    "text": (np.str_("0.5"), None),
    "text array": (np.array("0.5"), None),
    "complex": (np.complex64(1), None),
}
"""Objectives, and the numbers that they become; None if they are no numbers."""


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", OBJECTIVES)
def test_an_objective_becomes_a_plain_number_or_fails_its_trial(name: str) -> None:
    value, number = OBJECTIVES[name]
    values = {"odd": value, "plain": 9.0}
    scheduler = ASHAScheduler(max_t=4, grace_period=1, reduction_factor=2)
    space = {"which": grid_search(["odd", "plain"])}
    grid = fit(lambda config: {"loss": values[config["which"]]}, space, metric="loss", mode="min", scheduler=scheduler)

    odd, plain = grid
    assert plain.error is None
    if number is None:
        assert "the metric 'loss' must be a number, but got" in str(odd.error)
        return
    assert odd.error is None
    assert type(odd.metrics["loss"]) in (int, float)
    assert repr(odd.metrics["loss"]) == repr(number)
    assert grid.get_best_result() is (plain if math.isnan(number) else odd)


def test_a_masked_value_is_never_the_number_below_the_mask(capfd: pytest.CaptureFixture[str]) -> None:
    masked = np.ma.array([3.0, 4.0], mask=True).mean()
    [result] = fit(lambda config: {"loss": 1, "valid": masked, "all": np.ma.array(3.0, mask=True)})

    [line] = Path(result.path, "result.json").read_text().splitlines()
    row = json.loads(line)
    assert (row["valid"], row["all"]) == (None, None)
    assert "0.0" not in Path(result.path, "progress.csv").read_text().splitlines()[1].split(",")[1:3]
    assert plain_number(masked) != 0
    print_report({"valid": masked, "loss": Decimal("0.5"), "span": np.timedelta64(3, "ns")})
    assert report_in(capfd.readouterr().out)["span"] == "3 nanoseconds"


def test_steps_of_numpy_are_summed_up_without_an_overflow() -> None:
    def steps(config: dict[str, Any]) -> None:
        for _ in range(3):
            report({"timesteps_this_iter": np.int8(100)})

    [result] = fit(steps)
    assert result.metrics["timesteps_total"] == 300


def test_a_report_of_large_arrays_is_refused_by_size() -> None:
    def large(config: dict[str, Any]) -> None:
        try:
            report({"y": np.zeros(10_000_000)})
        except ValueError as error:
            report({"caught": str(error)})

    [result] = fit(large)
    assert "80.0 MB" in result.metrics["caught"]


def test_configurations_of_numpy_values_are_equal_by_value() -> None:
    pairs = [
        (np.float64(1), 1),
        (np.int64(2), 2.0),
        (np.bool_(True), True),
        (np.float32("nan"), math.nan),
        (np.str_("a"), "a"),
        (np.array([1, 2]), [1, 2]),
        (np.array([[0.5], [np.nan]]), [[0.5], [math.nan]]),
    ]
    for one, other in pairs:
        assert config_key({"x": one}) == config_key({"x": other})
    assert config_key({"x": np.array([1, 2])}) != config_key({"x": np.array([1, 3])})
    assert config_key({"x": np.bool_(True)}) != config_key({"x": 1})


def test_a_constraint_may_return_a_numpy_bool() -> None:
    grid = fit(
        lambda config: {"x": float(config["x"])},
        {"x": choice(np.array([1.0, 2.0, 3.0]))},
        num_samples=20,
        on_duplicate="resample",
        constraints=[lambda config: np.bool_(config["x"] > 1)],
    )
    assert sorted(result.metrics["x"] for result in grid) == [2.0, 3.0]


@pytest.mark.parametrize("kind", [TPESearch, AutoSearch, TuneBOHB])
def test_a_seed_of_a_numpy_type_is_the_integer_that_it_is(kind: Any) -> None:
    drawn = []
    for seed in (3, np.int64(3)):
        searcher = kind(metric="loss", mode="min", seed=seed)
        searcher.set_search_properties("loss", "min", {"x": uniform(0, 1)})
        drawn.append(searcher.suggest("a"))
    assert drawn[0] == drawn[1]
