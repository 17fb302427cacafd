"""The switch after which `import ray` means minitune, in programs of their own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import minitune.ray

SCRIPTS = Path(__file__).with_name("scripts")


def python(*arguments, cwd, env=None, status=0):
    root = str(Path(minitune.__file__).parent.parent)
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([root, *sys.path[1:]]), **(env or {})}
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == status, done.stderr
    return done


def lines(text, path):
    path.write_text(text)
    return path


VERSIONS = f"{' '.join([minitune.ray.__version__] * 3)}\n"


@pytest.mark.parametrize("start_method", ["zygote", "interpreter"])
def test_a_script_runs_as_it_is(tmp_path, start_method):
    env = {"MINITUNE_START_METHOD": start_method}
    done = python("-m", "minitune.as_ray", SCRIPTS / "tunes.py", tmp_path, cwd=tmp_path, env=env)
    assert (done.stdout, done.stderr) == (VERSIONS, "")


def test_an_import_and_a_variable_are_the_same_switch(tmp_path):
    tunes = (SCRIPTS / "tunes.py").read_text("utf-8")
    by_import = lines(f"import minitune.as_ray\n{tunes}", tmp_path / "by_import.py")
    assert python(by_import, tmp_path, cwd=tmp_path).stdout == VERSIONS
    by_variable = lines(f"import minitune\n{tunes}", tmp_path / "by_variable.py")
    assert python(by_variable, tmp_path, cwd=tmp_path, env={"MINITUNE_AS_RAY": "1"}).stdout == VERSIONS


def test_options_modules_and_arguments_of_python_pass_through(tmp_path):
    code = "import ray, sys; print(sys.argv, sys.flags.optimize, sys.flags.utf8_mode, ray.__name__)"
    lines(code, tmp_path / "shows.py")
    for before in (["-OOm", "minitune.as_ray"], ["-OO", "-mminitune.as_ray"], ["-OO", "-m", "minitune.as_ray"]):
        done = python("-Xutf8", *before, "-m", "shows", "-m", "minitune.as_ray", cwd=tmp_path)
        assert done.stdout == f"['{tmp_path}/shows.py', '-m', 'minitune.as_ray'] 2 1 minitune.ray\n"
    done = python("-m", "minitune.as_ray", "-c", code, "x", cwd=tmp_path)
    assert done.stdout == f"['-c', 'x'] 0 {sys.flags.utf8_mode} minitune.ray\n"


def test_without_the_switch_nothing_happens(tmp_path):
    code = "import minitune, minitune.tune, sys; print([p for p in sys.path if 'stand_in' in p], 'ray' in sys.modules)"
    for env in ({}, {"MINITUNE_AS_RAY": "0"}, {"MINITUNE_AS_RAY": "off"}):
        assert python("-c", code, cwd=tmp_path, env=env).stdout == "[] False\n"


def test_the_switch_is_undone_by_one_call_and_can_be_turned_on_again(tmp_path):
    done = python(SCRIPTS / "undoes_it.py", cwd=tmp_path)
    assert done.stdout == "No module named 'ray'\nNo module named 'ray'\nno distribution\nTrue\n"


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        (
            "import ray.rllib",
            "No module named 'ray.rllib': minitune has no reinforcement learning",
        ),
        ("import ray.data", "No module named 'ray.data': minitune has no data sets"),
        ("from ray import data", "'minitune.data': minitune has no data sets"),
        ("from ray.train.huggingface import TransformersTrainer", "'TransformersTrainer' from 'minitune.ray.trainers'"),
        ("from ray.train.horovod import HorovodTrainer", "minitune has no distributed training"),
        ("import ray; ray.remote", "'remote': minitune has no tasks and actors"),
        ("import ray.nonsense", "ModuleNotFoundError: No module named 'ray.nonsense'"),
    ],
)
def test_a_missing_part_is_named(tmp_path, statement, text):
    done = python("-m", "minitune.as_ray", "-c", statement, cwd=tmp_path, status=1)
    assert text in done.stderr.splitlines()[-1]


def real_ray(directory):
    """A directory with something that looks like Ray."""
    (directory / "ray").mkdir(parents=True)
    lines("__version__ = '1.2'\n", directory / "ray" / "__init__.py")
    return directory


def test_ray_that_is_installed_is_named_and_not_used(tmp_path):
    site = real_ray(tmp_path / "site")
    path = os.pathsep.join([str(Path(minitune.__file__).parent.parent), *sys.path[1:], str(site)])
    code = "import minitune.as_ray as s, ray as a; s.undo(); import ray as b; print(a.__version__, b.__version__)"
    done = python("-c", code, cwd=tmp_path, env={"PYTHONPATH": path})
    assert done.stdout == f"{minitune.ray.__version__} 1.2\n"
    assert done.stderr == f"Ray is installed ({site}/ray), but minitune.as_ray is on: `import ray` means minitune\n"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("import ray, minitune.as_ray", "import minitune.as_ray before the first import of ray"),
        ("import minitune.as_ray", "ray/__init__.py takes the place of ray: rename it to use minitune.as_ray"),
    ],
)
def test_ray_that_is_in_the_way_is_named(tmp_path, code, text):
    real_ray(tmp_path)  # in the script's directory, which comes first
    script = lines(code, tmp_path / "script.py")
    assert text in python(script, cwd=tmp_path, status=1).stderr.splitlines()[-1]


def test_options_that_hide_the_environment_are_refused(tmp_path):
    paths = [str(Path(minitune.__file__).parent.parent), *sys.path[1:]]
    code = f"import runpy, sys; sys.path[:0] = {paths!r}; runpy.run_module('minitune.as_ray', run_name='__main__')"
    done = python("-E", "-c", code, cwd=tmp_path, status=1)
    assert done.stderr == "minitune.as_ray needs PYTHONPATH, which Python ignores with the options -E and -I\n"


def test_a_run_on_a_cluster_wants_ray_itself(tmp_path):
    done = python(SCRIPTS / "runs_on_a_cluster.py", cwd=tmp_path, status=1)
    assert "executor='ray' needs Ray itself, but minitune.as_ray is on" in done.stderr.splitlines()[-1]


def test_the_metadata_and_the_module_have_one_version():
    directory = Path(minitune.__file__).parent / "ray" / "stand_in"
    assert [path.name for path in directory.glob("*.dist-info")] == [f"ray-{minitune.ray.__version__}.dist-info"]
    text = (directory / f"ray-{minitune.ray.__version__}.dist-info" / "METADATA").read_text()
    assert f"\nVersion: {minitune.ray.__version__}\n" in text


def test_without_the_folder_of_ray_minitune_tunes(tmp_path):
    package = Path(minitune.__file__).parent
    shutil.copytree(package, tmp_path / package.name, ignore=shutil.ignore_patterns("ray", "as_ray.py", "docs"))
    done = python(SCRIPTS / "tunes_without.py", cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)})
    assert done.stdout.splitlines() == [
        "{'x': 1}",
        "2",
        "False AsyncHyperBandScheduler",
        "No module named 'minitune.tune'",
        "address must be None, 'local', 'auto' or",
    ]


def test_domains_have_the_types_of_their_values_as_objects():
    import inspect

    from minitune.tune.search import sample

    def type_of(domain):
        return inspect.signature(domain.is_valid).parameters["value"].annotation

    assert type_of(sample.Float(0, 1)) is float
    assert type_of(sample.Integer(0, 2)) is int
    assert type_of(sample.Categorical([1])) is Any
