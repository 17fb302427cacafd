"""What `import minitune` loads, and what it offers."""

import ast
import configparser
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

import minitune
from minitune.tune_config import ExecutorName

SCRIPTS = Path(__file__).with_name("scripts")

ROOT = Path(__file__).resolve().parent.parent.parent


def environment(**changes):
    """The environment of a script that imports the package from here."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **changes}


def test_import_loads_neither_dependencies_nor_processes():
    code = (
        "import sys, minitune; print([name for name in ('cloudpickle', 'psutil', 'multiprocessing', 'numpy', 'pandas') "
        "if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "[]\n"


def test_a_run_can_be_imported_where_there_is_no_zygote():
    """Modules that need Linux refuse to be imported elsewhere, so no other module may import them at its top."""
    load = "import minitune.executors.local, minitune.trainable.trial_actor"
    # Python's own modules are loaded before, as those of the platform that they are on
    code = (
        f"{load}, sys\nfor name in list(sys.modules):\n    if name.split('.')[0] == 'minitune': del sys.modules[name]\n"
        f"sys.platform = 'darwin'\n{load}"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


WINDOWS = SCRIPTS / "like_windows.py"


def test_windows_can_import_and_a_run_names_wsl_at_once(tmp_path):
    """The script removes what Windows does not have."""
    command = [sys.executable, str(WINDOWS)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=environment(MINITUNE_STORAGE_PATH=str(tmp_path / "results")),
    )
    local, inline = done.stdout.splitlines()
    assert local.startswith("minitune cannot run trials on Windows: it needs Linux or macOS. WSL is")
    assert inline == local
    assert not list(tmp_path.iterdir())


def test_the_search_for_scikit_learn_tells_how_to_install_it():
    command = [sys.executable, SCRIPTS / "wants_scikit_learn.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment())
    assert done.stdout.startswith("minitune.sklearn needs scikit-learn 1.6 or newer (")
    assert done.stdout.endswith("install it with: pip install 'scikit-learn>=1.6' sklearn\n")


def test_modules_are_loaded_when_they_are_needed(tmp_path):
    """The zygote comes up while the driver loads; what neither needs would hold up the first trial."""
    command = [sys.executable, SCRIPTS / "quiet_run.py", tmp_path / "storage"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, env=environment())
    first, second, *_, last = done.stdout.splitlines()
    assert (first, second, last) == ("[]", "[]", "[]")


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="other Pythons import other modules of their own")
def test_a_first_result_needs_few_modules(tmp_path):
    """Each module costs half a millisecond, before the first result and in each command that ends at once."""
    program = SCRIPTS / "first_result.py"
    done = subprocess.run([sys.executable, "-P", program, tmp_path], capture_output=True, text=True, check=True)
    driver, trial = map(int, done.stdout.split())
    assert 150 < driver <= 228, "what a first trial does not need is imported where it is used"
    assert 80 < trial <= 144, "what a trial does not need is imported where it is used"


def test_type_checkers_see_the_same_names_as_users():
    tree = ast.parse((ROOT / "minitune" / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {alias.asname for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert typed == set(minitune.__all__) - {"__version__"}


PACKAGES = (
    "analysis experiment integration logger schedulers search space stopper testing trainable utils visualization"
)


def test_a_package_lists_its_public_names_only_and_has_them_all():
    """Editors and IPython complete from `dir`, before any of the lazy names is loaded."""
    command = [sys.executable, SCRIPTS / "lists_names.py", *PACKAGES.split()]
    subprocess.run(command, check=True, env=environment())


def test_completion_shows_the_names_of_a_package():
    assert {"ASHAScheduler", "PopulationBasedTraining"} <= set(dir(minitune.schedulers))
    assert {"Any", "importlib", "made_with"}.isdisjoint(dir(minitune.schedulers))
    assert {"OptunaSearch", "TPESearch", "TuneBOHB"} <= set(dir(minitune.search))
    assert {"Tuner", "schedulers", "search", "stopper"} <= set(dir(minitune))
    assert {"actor", "base", "driver", "executors", "record"}.isdisjoint(dir(minitune))


def test_the_type_of_executors_lists_the_names_that_are_known():
    for name in get_args(ExecutorName):
        minitune.TuneConfig(executor=name)


def test_advice_to_install_a_library_is_a_requirement_of_setup_cfg():
    """There may be no release that an extra could be installed from, so messages name the requirement itself."""
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg")
    known = {line for extra in settings["options.extras_require"].values() for line in extra.splitlines() if line}
    names = {re.split("[<>=;]", line)[0].strip() for line in known}
    advised = {
        requirement
        for path in (ROOT / "minitune").rglob("*.py")
        for requirement in re.findall(r"pip install '?([A-Za-z][\w.>=-]*)'?[\"; ]", path.read_text(encoding="utf-8"))
    }
    assert {"tensorboardX", "PyYAML", "ray>=2.40"} <= advised
    assert advised - {"minitune"} <= known | names
    pages = [*(ROOT / "minitune").rglob("*.py"), *(ROOT / "minitune" / "docs").glob("*.md")]
    assert [path.name for path in pages if "minitune[" in path.read_text(encoding="utf-8")] == []


@pytest.mark.parametrize("module", ["minitune", "minitune.schedulers", "minitune.search"])
def test_names_and_modules_that_are_not_there_stay_absent(module):
    assert not hasattr(sys.modules[module], "zzz")
    with pytest.raises(ImportError, match="cannot import name 'zzz'"):
        exec(f"from {module} import zzz")
    for path in (f"{module}.zzz", "minitune_plugins.Tuner"):
        with pytest.raises(ModuleNotFoundError) as caught:
            importlib.import_module(path)
        assert path.startswith(caught.value.name)
