from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kit import FakeDriver


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[FakeDriver]:
    """Starts trials; stops them and ends their threads after the test."""
    fake = FakeDriver(tmp_path)
    yield fake
    fake.close()
