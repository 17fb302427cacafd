"""What is tried here ends drivers in the middle, so their scripts print at once."""

import pytest


@pytest.fixture(autouse=True)
def unbuffered(storage_of_its_own, monkeypatch):
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")


@pytest.fixture
def short_grace(storage_of_its_own, monkeypatch):
    monkeypatch.setenv("MINITUNE_FORCE_TRIAL_CLEANUP_S", "0.3")
