"""Ray's import paths: names of the same modules."""

import importlib
import importlib.util
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import minitune

SCRIPTS = Path(__file__).with_name("scripts")

ROOT = Path(__file__).resolve().parent.parent.parent

LISTED = [
    line
    for line in (Path(__file__).parent / "imports_in_use.txt").read_text("utf-8").replace("\n    ", " ").splitlines()
    if line and line[0] != "#"
]
IMPORTED = dict(line.split(": ") for line in LISTED if " | " not in line)
REFUSED = {path: line.split(" | ")[0] for line in LISTED if " | " in line for path in line.split(" | ")[1].split()}

# Each of them needs a package that may not be installed here.
NEED_PACKAGES = {
    "ray.air.integrations.keras": "keras",
    "ray.train.huggingface.transformers": "transformers",
    "ray.train.lightgbm": "lightgbm",
    "ray.train.lightning": "pytorch_lightning",
    "ray.train.tensorflow.keras": "keras",
    "ray.train.xgboost": "xgboost",
    **{f"ray.tune.integration.{name}": name for name in ("keras", "lightgbm", "pytorch_lightning", "xgboost")},
}


def here(path):
    """The path in a ported script."""
    return f"minitune{path.removeprefix('ray')}" if path != "ray" else "minitune.ray"


@pytest.mark.parametrize("path", IMPORTED)
def test_paths_have_the_names_that_users_import(path):
    missing = ""
    try:
        for name in IMPORTED[path].split():
            exec(f"from {here(path)} import {name}", {})
    except ModuleNotFoundError as error:
        missing = str(error.name).partition(".")[0]
    assert missing in ("", NEED_PACKAGES.get(path, ""))


def test_a_module_that_users_import_is_an_attribute_without_an_import():
    # Here `air` is the package itself, so `air.result` is the same as `tune.result`, and `tune.util` as `util`.
    wanted = [
        f"{path}.{name}"
        for path, names in IMPORTED.items()
        for name in names.split()
        if path not in (*NEED_PACKAGES, "ray.air.result", "ray.tune.util")
    ]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", SCRIPTS / "takes_attributes.py", *wanted],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_an_alias_is_the_module_itself():
    import minitune.schedulers
    import minitune.stopper.stopper
    import minitune.tune.schedulers
    import minitune.tune.stopper.noop
    from minitune import air, train, tune
    from minitune.tune.schedulers import ASHAScheduler

    assert tune is train is air is minitune
    assert minitune.tune.schedulers is minitune.schedulers
    assert sys.modules["minitune.tune.stopper.noop"] is minitune.stopper.noop
    assert ASHAScheduler is minitune.ASHAScheduler
    assert ASHAScheduler.__module__ == "minitune.schedulers.async_hyperband"


def test_an_import_by_alias_leaves_the_module_what_it_is():
    import cloudpickle

    import minitune.cloudpickle
    import minitune.train.session

    assert minitune.cloudpickle is cloudpickle
    assert cloudpickle.__spec__.name == "cloudpickle"
    assert minitune.train.session.__spec__.name == minitune.train.session.__name__ == "minitune.trainable.context"
    assert minitune.__spec__.name == "minitune"


def test_the_import_system_knows_what_is_there_and_what_is_not():
    for name in ("stopper.timeout", "integration.keras"):  # the second one needs keras, so it is not imported here
        assert importlib.util.find_spec(f"minitune.tune.{name}") is not None
    assert importlib.util.find_spec("minitune.tune.nonsense") is None
    for name in ("minitune.tune.nonsense", "minitune.air.nonsense.deeper"):
        with pytest.raises(ModuleNotFoundError, match="nonsense"):
            importlib.import_module(name)
    found = [module.name for module in pkgutil.iter_modules(minitune.__path__)]
    assert "schedulers" in found
    assert "tune" not in found


def test_names_that_are_missing_on_purpose_say_what_to_do_instead():
    with pytest.raises(AttributeError, match=r"concurrent\.futures"):
        _ = minitune.remote
    with pytest.raises(AttributeError, match="no attribute 'serve': minitune does not serve models"):
        _ = minitune.serve
    assert not hasattr(minitune, "wait")


def test_a_script_may_use_all_import_paths_at_once(tmp_path):
    done = subprocess.run(
        [sys.executable, SCRIPTS / "all_import_paths.py", str(tmp_path)],
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("4 True\n", 0), done.stderr


@pytest.mark.parametrize("path", REFUSED)
def test_an_import_of_something_left_out_says_what_to_do(path):
    parent, _, name = here(path).rpartition(".")
    statements = [f"from {parent} import {name}"]
    if name.islower():  # it is a module
        statements.append(f"import {parent}.{name}")
    for statement in statements:
        with pytest.raises(ModuleNotFoundError, match=f"': {re.escape(REFUSED[path])}$"):
            exec(statement, {})


def test_an_attribute_that_a_module_lacks_says_what_to_do():
    module = importlib.import_module("minitune.tune.registry")
    with pytest.raises(AttributeError, match="register_input': minitune has no reinforcement learning"):
        _ = module.register_input
    assert getattr(module, "register_input", 5) == 5


def test_a_name_that_ray_does_not_have_is_missing():
    for path in ("search.hyperopt", "tune.search.ax", "tune.registry", "driver", "air.integrations"):
        with pytest.raises(ImportError, match="cannot import name 'nonsense'"):
            exec(f"from minitune.{path} import nonsense", {})
        assert not hasattr(importlib.import_module(f"minitune.{path}"), "nonsense")
