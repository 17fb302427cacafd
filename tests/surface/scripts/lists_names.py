"""Looks at the public names of the packages that the arguments name, before and after these are loaded."""

import importlib
import sys
import types

packages = [importlib.import_module(f"minitune.{name}") for name in sys.argv[1:]]
for package in packages:
    known = {*package.__all__, *vars(package).get("HOMES", ())}
    assert dir(package) == sorted(known), (package, dir(package))
for package, name in [(each, name) for each in packages for name in dir(each)]:
    try:
        value = getattr(package, name)
    except ModuleNotFoundError:  # of the library that it is named after
        assert package.__name__ == "minitune.integration"
        continue
    is_module = isinstance(value, types.ModuleType)
    home = value.__name__ if is_module else getattr(value, "__module__", "minitune")
    assert home.startswith("minitune"), (package, name, home)
