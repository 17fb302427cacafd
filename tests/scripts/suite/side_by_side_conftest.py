"""Runs each file of a session side by side with the others."""

import side_by_side

side_by_side.MANY = 1
from side_by_side import pytest_runtestloop  # noqa: F401
