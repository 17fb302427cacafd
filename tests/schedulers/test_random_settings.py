"""HyperBand under random settings: every trial ends, the last rung is max_t, and no more is used than the paper allots.

The settings are those of `benchmarks/schedulers.py --seeds 50`, which tries a thousand of them. ASHA trains on the
benchmark's curves, too.
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
