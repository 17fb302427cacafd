"""Names that a module or an object of this package lacks: what its user may have meant.

The text is made when the error is shown, so a `hasattr` pays nothing.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

_PACKAGE = "minitune"
_PUBLIC = ("", "schedulers", "search", "stopper", "logger", "integration")
"""The modules whose names users need. The first one that has a name counts."""
_IN_LIBRARIES = {
    "AimLoggerCallback": "integration.aim",
    "CometLoggerCallback": "integration.comet",
    "MLflowLoggerCallback": "integration.mlflow",
    "TuneSearchCV": "sklearn",
    "WandbLoggerCallback": "integration.wandb",
    "setup_mlflow": "integration.mlflow",
    "setup_wandb": "integration.wandb",
}
"""Names in modules that import other libraries, so that the modules cannot be asked."""

_CALLED_HERE = {
    "create_study": "Study",
    "fmin": "Tuner(...).fit()",
    "minimize": "Tuner(...).fit()",
    "suggest_categorical": "choice",
    "suggest_float": "uniform or loguniform",
    "suggest_int": "randint or lograndint",
}
"""What functions of another library are called here."""


class MissingNameError(AttributeError):
    """A module of this package lacks a name. The text says where it is."""

    def __init__(self, module: str, missing: str):
        super().__init__(module, missing)

    def __str__(self) -> str:
        module, missing = self.args
        return f"module {module!r} has no attribute {missing!r}{hint(module, missing)}"


def hint(module: str, missing: str) -> str:
    """What may be meant by a name that a module lacks; empty if nothing is known."""
    from minitune.base.checks import did_you_mean

    if place := place_of(missing) or _CALLED_HERE.get(missing):
        return f": it is {place}"
    public = [name for name in dir(importlib.import_module(module)) if not name.startswith("_")]
    return did_you_mean(missing, public)


def place_of(name: str) -> str:
    """The path of a public name of this package; empty if there is none."""
    home = dict(_homes()).get(name)
    return f"{home}.{name}" if home else ""


def _homes() -> Iterator[tuple[str, str]]:
    """The public names of the package, each with its module; what comes later counts."""
    for name, module in _IN_LIBRARIES.items():
        yield name, f"{_PACKAGE}.{module}"
    for name in importlib.import_module(f"{_PACKAGE}.search.by_name").HOMES:
        yield name, f"{_PACKAGE}.search"
    for module in reversed(_PUBLIC):
        path = f"{_PACKAGE}.{module}".rstrip(".")
        for name in importlib.import_module(path).__all__:
            yield name, path


def missing_attribute(owner: object, missing: str, instead: Mapping[str, str]) -> AttributeError:
    """The error of an object that lacks an attribute."""
    kind = type(owner)
    if hasattr(kind, missing):  # it is a property, which has raised this error
        object.__getattribute__(owner, missing)
    text = f"{kind.__name__!r} object has no attribute {missing!r}"
    if missing.startswith("_"):
        return AttributeError(text)
    if missing in instead:
        return AttributeError(f"{text}: write {instead[missing]}")
    from minitune.base.checks import did_you_mean

    public: list[Any] = [name for name in (*dir(kind), *vars(owner)) if not name.startswith("_")]
    # With another object than the owner, so that Python does not add the same name once more.
    return AttributeError(text + did_you_mean(missing, public), name=missing, obj=None)
