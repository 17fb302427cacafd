"""Names that are loaded when they are first used, and the one door to the names of Ray.

`minitune.tune`, `minitune.schedulers.pbt.explore` and other names that only Ray has are the matter of `minitune.ray`.
This module asks it only about names that Python does not find, so a script without them never loads its tables. Without
the folder `ray`, these names are missing, and with them Ray's paths of modules in `contrib`, old keywords of `run`,
`run_experiments`, and `executor="ray"`.

Every `import minitune` loads this module.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

PACKAGE = "minitune"

_PREFIX = f"{PACKAGE}."
_RAY = "ray"
"""The name of Ray itself, which is this package while `minitune.as_ray` is on."""
_NAMES = f"{_PREFIX}{_RAY}.names"


class LeftOutError(ModuleNotFoundError):
    """This package has no such name here. The text has the way out.

    `name` is None: else `from minitune import rllib` would replace this text by Python's own.
    """

    def __init__(self, text: str, instead: str = ""):
        super().__init__(text)
        self.instead = instead


class BelowAlias:
    """Finds what is below a module that has been imported under another name. It must be the first finder.

    `minitune.tune` is this package, so Python's own finder would load `minitune.tune.schedulers` a second time.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module; see `importlib.abc.MetaPathFinder`.

        Raises:
            LeftOutError: If Ray has the module, and this package has something else.
        """
        if not name.startswith((_PREFIX, f"{_RAY}.")):
            return None
        parent = name.rpartition(".")[0]
        module = sys.modules.get(parent)
        if module is None or module.__name__ == parent or not module.__name__.startswith(PACKAGE):
            return None
        return _found_by_ray(name)


class Missing:
    """Finds modules under the names of Ray. It must be the last finder."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module; see `importlib.abc.MetaPathFinder`.

        Raises:
            LeftOutError: If this package has something else.
        """
        return _found_by_ray(name) if name.startswith(_PREFIX) else None


def _names_of_ray() -> Any:
    """The module `minitune.ray.names`, or None in a copy of this package without the folder."""
    try:
        return importlib.import_module(_NAMES)
    except ModuleNotFoundError as error:
        if error.name is None or not _NAMES.startswith(error.name):
            raise
        return None


def _found_by_ray(name: str) -> ModuleSpec | None:
    if _NAMES.startswith(name):  # the folder is missing
        return None
    names = _names_of_ray()
    found: ModuleSpec | None = None
    if names is not None:
        found = names.find(name)
    return found


def submodules(package: str, homes: Mapping[str, str] | None = None) -> Callable[[str], Any]:
    """A `__getattr__` for a package: a name is looked for in its home, among the modules of the package, and in Ray's
    older versions.
    """

    def load(name: str) -> Any:
        if name.startswith("__"):  # Python asks a file for `__path__`
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if homes and name in homes:
            home = homes[name]
            return getattr(importlib.import_module(home if "." in home else f"{package}.{home}"), name)
        path = f"{package}.{name}"
        if not name.startswith("_"):
            try:
                return importlib.import_module(path)
            except LeftOutError as error:
                raise AttributeError(f"module {package!r} has no attribute {name!r}: {error.instead}") from None
            except ModuleNotFoundError as error:
                if error.name != path:
                    raise
        names = _names_of_ray()
        if names is not None and name in names.OLD_NAMES.get(package, {}):
            return names.old(package, name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load


def listing(names: Sequence[str]) -> Callable[[], list[str]]:
    """A `__dir__` for a package: its public names, also those that are not loaded yet."""
    return lambda: sorted(names)


def install() -> None:
    """Install the finders, once."""
    if not any(isinstance(finder, Missing) for finder in sys.meta_path):
        sys.meta_path.insert(0, BelowAlias())
        sys.meta_path.append(Missing())
