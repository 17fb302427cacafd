"""The contract of executors, on a real cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from executor_contract import TrialExecutorContract

from minitune.executors import ray
from minitune.executors.ray import RayTrialExecutor
from minitune.executors.trial_executor import TrialExecutor


@pytest.mark.usefixtures("connection")
class TestRay(TrialExecutorContract):
    bound_s = 120.0
    owns_processes = False  # Ray does

    @pytest.fixture(autouse=True)
    def patience(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A parked process must not end while a slow machine starts others."""
        monkeypatch.setattr(ray, "_PARKED_S", self.bound_s)

    def make_executor(self, totals: dict[str, float], gpu_ids: tuple[str, ...], directory: Path) -> TrialExecutor:
        return _OfOneNode(totals, directory=lambda: str(directory))


class _OfOneNode(RayTrialExecutor):
    """Uses so much of the cluster."""

    def __init__(self, totals: dict[str, float], directory: Callable[[], str]):
        self._totals = totals
        super().__init__(directory=directory)

    def nodes(self) -> list[Mapping[str, Any]]:
        return [{**node, "Resources": self._totals} for node in super().nodes()]
