"""HyperBand under random settings: every trial ends, the last rung is max_t, and no more is used than the paper allots.

The settings are those of `benchmarks/schedulers.py --seeds 50`, which tries a thousand of them. ASHA trains on the
benchmark's curves, too. The benchmark's target and interval are held against examples that can be counted by hand.
"""

import importlib.util
import sys
from pathlib import Path

import pytest

PATH = Path(__file__).resolve().parent.parent.parent / "benchmarks" / "schedulers.py"


@pytest.fixture(scope="module")
def gates():
    spec = importlib.util.spec_from_file_location("scheduler_gates", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there for the types of their fields
    spec.loader.exec_module(module)
    return module


def test_a_band_is_that_of_the_paper(gates):
    assert gates.band(81, 3) == (143, 1581)


def test_hyperband_keeps_its_rules_under_random_settings(gates):
    assert [problem for seed in range(10) for problem in gates.run_random_setting(seed)] == []


@pytest.mark.parametrize("table", ["digits", "diabetes", "cancer"])
def test_asha_needs_a_fraction_of_the_epochs(gates, table):
    curves = gates.read_curves(table)

    assert (len(curves), {len(curve) for curve in curves}) == (1000, {27})
    assert gates.epochs_to_target(curves, lambda: gates.ASHAScheduler(max_t=27, reduction_factor=3), 4, seed=1) < 0.6


def test_target_is_the_median_best_of_full_trials(gates):
    curves = [[({"loss": loss}, 1.0), ({"loss": loss + 1}, 1.0)] for loss in (5.0, 3.0, 1.0, 4.0)]
    curves.append([({"loss": float("nan")}, 1.0)])

    targets = [gates.target_of(curves, full_trials) for full_trials in (1, 2, 3, 5)]

    # One trial of five is among the best three in 60 % of the orders. Of three trials one is the best of all in 60 %.
    assert targets == [4.0, 3.0, 1.0, 1.0]


def test_the_interval_of_the_median_is_that_of_order_statistics(gates):
    assert gates.interval_of_median(range(1, 101)) == (40, 61)  # as in tables, for a confidence of 95 %
    assert gates.interval_of_median([3, 1, 2]) == (1, 3)
