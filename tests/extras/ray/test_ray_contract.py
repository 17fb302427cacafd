"""The contract of executors, on a real cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from executor_contract import TrialExecutorContract

from minitune.executors.trial_executor import TrialExecutor
from minitune.ray.cluster import executor as ray_executor
from minitune.ray.cluster.executor import RayTrialExecutor
from minitune.ray.cluster.nodes import ClusterLedger


@pytest.mark.usefixtures("connection")
class TestRay(TrialExecutorContract):
    bound_s = 120.0
    owns_processes = False  # Ray does

    @pytest.fixture(autouse=True)
    def patience(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A parked process must not end while a slow machine starts others."""
        monkeypatch.setattr(ray_executor, "_PARKED_S", self.bound_s)
        self.patched = monkeypatch

    def make_executor(self, totals: dict[str, float], gpu_ids: tuple[str, ...], directory: Path) -> TrialExecutor:
        """It uses so much of the cluster."""
        nodes = ClusterLedger.nodes
        self.patched.setattr(
            ClusterLedger, "nodes", lambda ledger: [{**node, "Resources": totals} for node in nodes(ledger)]
        )
        return RayTrialExecutor()
