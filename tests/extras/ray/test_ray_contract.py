"""The contract of executors, on a real cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from executor_contract import TrialExecutorContract

from minitune.execution.ray import RayTrialExecutor
from minitune.execution.trial_executor import TrialExecutor


@pytest.mark.usefixtures("connection")
class TestRay(TrialExecutorContract):
    bound_s = 120.0

    def make_executor(self, totals: dict[str, float], gpu_ids: tuple[str, ...], directory: Path) -> TrialExecutor:
        executor = RayTrialExecutor(directory=lambda: str(directory))
        (node,) = executor._cluster.nodes()
        executor._cluster.books.update({})
        executor._cluster.books.update({node: totals})  # of what the node has
        return executor
