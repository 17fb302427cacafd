"""Imports what needs scikit-learn, where that is missing, or has the version that the argument says."""

import sys
import types

sys.modules["sklearn"] = types.SimpleNamespace(__version__=sys.argv[1]) if sys.argv[1:] else None
try:
    import minitune.sklearn  # noqa: F401
except ImportError as error:
    print(error, error.name)
