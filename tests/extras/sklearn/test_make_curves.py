"""The program that makes the tables of learning curves: its tables can be made again, and the simulations use them."""

from __future__ import annotations

import gzip
import importlib
import json
import math
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], Any]:
    """Loads a module of the benchmarks, which then finds its tables in a directory of the test, for a few curves."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # the program sets both for all that follow
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")

    def load(name: str) -> Any:
        module = importlib.import_module(name)
        monkeypatch.setattr(module, "__file__", str(tmp_path / f"{name}.py"))
        if hasattr(module, "CONFIGURATIONS"):
            monkeypatch.setattr(module, "CONFIGURATIONS", 3)
        return module

    return load


def shipped(table: str) -> Any:
    return json.loads(gzip.decompress((BENCHMARKS / f"{table}_curves.json.gz").read_bytes()))


@pytest.mark.parametrize("table", ["digits", "diabetes", "cancer"])
def test_the_first_curves_of_the_table_are_reproduced(benchmark: Callable[[str], Any], table: str) -> None:
    program = benchmark("make_curves")

    made, known = program.make(table), shipped(table)

    assert made["names"] == known["names"]
    assert len(known["rows"]) == 1_000
    for new, old in zip(made["rows"], known["rows"][:3], strict=True):
        assert new[:-2] == old[:-2]  # the configuration
        assert len(new[-1]) == len(old[-1]) == program.EPOCHS
    # versions of numpy and scikit-learn differ in rounding, and a network may take another way for it
    assert sum(program._are_close(new[-1], old[-1]) for new, old in zip(made["rows"], known["rows"], strict=False)) >= 2


def test_a_table_that_was_written_is_compared_and_simulated(
    benchmark: Callable[[str], Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    losses = [[1.0, 0.5, math.nan, 0.25], [3.0, 2.0], [math.inf]]
    program, schedulers = benchmark("make_curves"), benchmark("schedulers")

    def train(config: dict[str, Any], seed: int) -> Iterator[float]:
        assert 0 <= config["x"] <= 1
        yield from losses[seed]

    def command(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["make_curves.py", *arguments])
        return program.main(), capsys.readouterr().out

    monkeypatch.setitem(program.TABLES, "digits", ({"x": random.Random.random}, train))

    status, text = command("digits", "--write")
    assert status == 0
    assert text.startswith(f"{tmp_path / 'digits_curves.json.gz'}: 3 curves, ")
    curves = schedulers.read_curves("digits")
    shown = [[metrics["loss"] for metrics, _ in curve] for curve in curves]
    assert repr(shown) == repr([[1.0, 0.5, math.nan, 0.25], [3.0, 2.0], [math.nan]])
    assert command("digits") == (0, "digits_curves.json.gz: of 3 curves 3 are the same, and 3 differ by 1 % at most\n")

    losses[1][1] = 2.01
    assert command("digits") == (0, "digits_curves.json.gz: of 3 curves 2 are the same, and 3 differ by 1 % at most\n")
    losses[0][1] = 0.6
    assert command("digits") == (1, "digits_curves.json.gz: of 3 curves 1 are the same, and 2 differ by 1 % at most\n")
    losses[0][1], losses[2][0] = 0.5, 7.0
    assert command("digits") == (1, "digits_curves.json.gz: of 3 curves 1 are the same, and 2 differ by 1 % at most\n")
