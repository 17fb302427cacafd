"""Lets tests hang for a short time only."""

import time_limit

time_limit.LIMIT_S = 0.3
time_limit.LONG_S = 60.0
time_limit.AGAIN_S = 0.1
from time_limit import pytest_runtest_call, pytest_runtest_setup, pytest_runtest_teardown  # noqa: F401
