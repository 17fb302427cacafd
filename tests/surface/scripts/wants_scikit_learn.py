"""Imports what needs scikit-learn, where that is missing."""

import sys

sys.modules["sklearn"] = None
try:
    import minitune.sklearn  # noqa: F401
except ImportError as error:
    print(error, error.name)
