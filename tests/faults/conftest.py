"""What is tried here ends drivers in the middle, so their scripts print at once."""

import pytest


@pytest.fixture(autouse=True)
def unbuffered(storage_of_its_own, monkeypatch):
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")
