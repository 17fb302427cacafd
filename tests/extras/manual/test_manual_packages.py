"""The examples of the manual that need another package."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from manual_pages import Block, Home, needing, where

PACKAGES = ("scikit-learn", "pandas", "optuna", "tensorboardX", "matplotlib", "xgboost", "lightgbm", "hydra-core")


@pytest.mark.parametrize(("block", "shown"), needing(*PACKAGES), ids=lambda block: where(block) if block else "")
def test_the_example_prints_the_output_on_the_page(
    block: Block, shown: Block | None, tmp_path: Path, bound_s: Callable[[float], float]
) -> None:
    printed = Home(tmp_path, bound_s(120)).run_alone(block, shown)
    assert printed.agrees, printed.actual
