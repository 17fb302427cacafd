import pytest
from kit import FakeDriver


@pytest.fixture
def driver(tmp_path):
    """Starts trials; stops them and ends their threads after the test."""
    fake = FakeDriver(tmp_path)
    yield fake
    fake.close()
