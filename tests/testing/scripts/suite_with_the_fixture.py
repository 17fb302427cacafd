"""Tests of a user's that use the fixture."""

import sys

from minitune_user import train


def test_the_testing_package_is_not_loaded_before_it_is_used():
    assert "minitune.tuner" not in sys.modules
    assert "psutil" not in sys.modules


def test_good(minitune_smoke, tmp_path):
    grid = minitune_smoke(train, {"lr": 0.1})
    assert grid.experiment_path.startswith(str(tmp_path))


def test_bad(minitune_smoke):
    minitune_smoke(train, {"lr": 0.9}, seed=3)
