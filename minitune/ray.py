"""The module for scripts that name `ray` itself: `import minitune.ray as ray`.

It has the names of `minitune`, but as `__version__`, which scripts compare, that of Ray whose interface this package
follows.
"""

from __future__ import annotations

from typing import Any

import minitune

__version__ = "2.60.0"
"""The version of Ray whose interface this package follows."""


def __getattr__(name: str) -> Any:
    return getattr(minitune, name)


def __dir__() -> list[str]:
    return dir(minitune)
