"""Every run of these tests takes place in this process, on a machine of four CPUs."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def small_machine(storage_of_its_own: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINITUNE_NUM_CPUS", "4")
    monkeypatch.setenv("MINITUNE_NUM_GPUS", "0")


@pytest.fixture
def one_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with room for one trial: the others wait in the queue."""
    monkeypatch.setenv("MINITUNE_NUM_CPUS", "1")
