from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def small_machine(storage_of_its_own: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINITUNE_NUM_CPUS", "4")
    monkeypatch.setenv("MINITUNE_NUM_GPUS", "0")
