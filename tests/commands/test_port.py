"""`minitune port` changes the imports of scripts and notebooks, and lists the names that minitune lacks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from command_runs import Minitune

from minitune.commands import unported

GOOD = """\
import os, ray
\f
UNUSUAL = "\u2028"
import ray.tune
from ray import (
    train,
    tune as t,
)
from  ray.tune.suggest.basic_variant import BasicVariantGenerator  # ray stays in comments
from ray.tune import grid_search

text = "from ray import tune"
ray.init(num_cpus=1)
trials = ray.tune.run(lambda config: 1, num_samples=1, repeat=1, verbose=0).trials
print(trials[0].status, BasicVariantGenerator.__name__)
"""

PORTED = """\
import os, minitune.ray as ray
\f
UNUSUAL = "\u2028"
from minitune import (
    train,
    tune as t,
)
from  minitune.tune.suggest.basic_variant import BasicVariantGenerator  # ray stays in comments
from minitune.tune import grid_search

text = "from ray import tune"
"""


def test_a_script_is_changed_in_its_imports_alone_and_runs(minitune: Minitune, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(GOOD)
    status, out, err = minitune("port", script)
    assert (status, err) == (0, "")
    assert "+import os, minitune.ray as ray\n" in out
    assert script.read_text() == GOOD

    assert minitune("port", script, "--write") == (0, f"{script}: changed 5 lines\n", "")
    assert script.read_text().startswith(PORTED)
    env = {**os.environ, "MINITUNE_STORAGE_PATH": str(tmp_path / "runs"), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, str(script)], env=env, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (0, "TERMINATED BasicVariantGenerator\n"), done.stderr


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (
            "from ray.rllib.algorithms.ppo import PPO",
            "'minitune.rllib': minitune has no reinforcement learning",
        ),
        ("from ray import serve", "minitune does not serve models"),
        ("from ray.train.horovod import HorovodTrainer", "minitune has no distributed training"),
        ("from ray.tune import nothing", "no attribute 'nothing'"),
        (
            "import ray\n@ray.remote\ndef f(): pass",
            "has no attribute 'remote': minitune has no tasks and actors",
        ),
        ("import ray, minitune.tune.search\nminitune.tune.nothing", "2: module 'minitune' has no attribute 'nothing'"),
        ("from ray import tune\ntune.Checkpoint.from_uri('x')", "Checkpoint.from_uri is gone: mount the storage"),
        ("if True: import ray", "1: this import of ray stays, because it does not begin a line: change it yourself"),
        ("from \\\n    ray import tune", "1: this import of ray stays"),
    ],
)
def test_missing_names_are_listed_with_their_lines(minitune: Minitune, tmp_path: Path, lines: str, text: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(lines)
    status, _, err = minitune("port", script)
    assert status == 1
    assert err.startswith(f"{script}:")
    assert text in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "line",
    ["from ray.tune.integration.xgboost import TuneReportCallback", "from ray.tune.integration import xgboost"],
)
def test_a_package_that_is_not_installed_is_no_missing_feature(
    minitune: Minitune, tmp_path: Path, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    monkeypatch.delitem(sys.modules, "minitune.integration.xgboost", raising=False)
    script = tmp_path / "script.py"
    script.write_text(f"{line}\n")
    status, _, err = minitune("port", script)
    assert (status, err.count("\n")) == (0, 1)
    assert err.startswith(f"{script}:1: this needs the package xgboost, which cannot be imported here: ")


def test_a_package_that_is_broken_does_not_end_the_command(
    minitune: Minitune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "packages" / "xgboost"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise OSError('libxgb.so: cannot open\\n shared object file')\n")
    monkeypatch.syspath_prepend(package.parent)
    for name in ("xgboost", "minitune.integration.xgboost"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    script = tmp_path / "script.py"
    script.write_text(
        "from ray import tune\nfrom ray.tune.integration.xgboost import TuneReportCallback\ntune.nothing\n"
    )
    status, out, err = minitune("port", script)
    assert (status, "+from minitune.tune.integration.xgboost import" in out) == (1, True)
    first, second = err.splitlines()
    assert first == (
        f"{script}:2: this needs a package that is installed but cannot be imported here: "
        "OSError: libxgb.so: cannot open shared object file"
    )
    assert second.startswith(f"{script}:3: module 'minitune' has no attribute 'nothing'")


def test_a_version_below_ray_is_that_of_its_module(minitune: Minitune, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("from ray.train import __version__\n")
    assert "+from minitune.train import __version__\n" in minitune("port", script)[1]


def test_the_module_for_ray_has_the_version_of_ray(minitune: Minitune, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import ray as r, ray.tune as t\nfrom ray import __version__, tune\nimport ray\n"
        "assert ray.__version__ == r.__version__ == __version__\n"
        "assert tuple(map(int, __version__.split('.'))) >= (2, 40)\n"
        "assert ray.tune is tune is t\nprint(ray.tune.schedulers.ASHAScheduler.__module__)\n"
    )
    assert minitune("port", script, "--write")[::2] == (0, "")
    assert script.read_text().startswith(
        "import minitune.ray as r, minitune.tune as t\nfrom minitune.ray import __version__, tune\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (0, "minitune.schedulers.async_hyperband\n"), done.stderr


MAGICS = """\
%%capture
!pip install -q "ray[tune]" \\
    optuna
%matplotlib inline
?tune.run
files = !ls *.csv
if files:
    %cd data
from ray import tune
text = \'\'\'
!from ray import tune
\'\'\'
tune.nothing
%%time
from ray.tune import grid_search
import ray
"""


def test_lines_for_ipython_stay_in_a_script(minitune: Minitune, tmp_path: Path) -> None:
    script = tmp_path / "exported.py"
    script.write_text(MAGICS)
    status, out, err = minitune("port", script, "--write")
    assert (status, out) == (1, f"{script}: changed 3 lines\n")
    ported = MAGICS.replace("\nfrom ray", "\nfrom minitune").replace("\nimport ray", "\nimport minitune.ray as ray")
    assert script.read_text() == ported
    first, second = err.splitlines()
    assert first == (
        f"{script}:1: this line and others are for IPython, so Python cannot run the file: run it with ipython"
    )
    assert second.startswith(f"{script}:13: module 'minitune' has no attribute 'nothing'")


def test_a_script_with_one_line_for_the_shell_is_no_python(minitune: Minitune, tmp_path: Path) -> None:
    script = tmp_path / "exported.py"
    script.write_text("import math\n!pip install -q ray\nfrom ray import tune\n")
    status, out, err = minitune("port", script, "--write")
    assert (status, out) == (1, f"{script}: changed 1 line\n")
    assert err == f"{script}:2: this line is for IPython, so Python cannot run the file: run it with ipython\n"


REPEATED = """\
import ray, ray.tune, ray.train.torch  # the first one
import ray.tune
if True:
    import ray.tune
    import ray.tune  # stays, for the sake of its comment
    import ray.air.session
else:
    import ray.tune
def fit():
    import ray.tune; import ray
import ray.tune.nothing as nothing
ray.tune.nothing
"""

ONCE = """\
import minitune.ray as ray  # the first one
if True:
    import minitune.ray as ray
    import minitune.ray as ray  # stays, for the sake of its comment
else:
    import minitune.ray as ray
def fit():
    import minitune.ray as ray; import minitune.ray as ray
import minitune.tune.nothing as nothing
ray.tune.nothing
"""


def test_an_import_that_repeats_another_is_left_out(minitune: Minitune, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(REPEATED)
    status, out, err = minitune("port", script)
    assert (status, "-import ray.tune\n" in out) == (1, True)
    assert [line.partition(": ")[0] for line in err.splitlines()] == [f"{script}:11", f"{script}:12"]
    status, out, err = minitune("port", script, "--write")
    assert out == f"{script}: changed 8 lines\n"
    assert script.read_text() == ONCE
    # The numbers are those of the lines in the file as it is now.
    assert [line.partition(": ")[0] for line in err.splitlines()] == [f"{script}:9", f"{script}:10"]


@pytest.mark.parametrize(
    ("line", "text", "status"),
    [
        (
            'importlib.import_module("ray.tune.search.optuna")',
            "the text 'ray.tune.search.optuna' stays: write 'minitune.tune.search.optuna'",
            1,
        ),
        ('SEARCH = "ray.tune.schedulers:ASHAScheduler"', "write 'minitune.tune.schedulers:ASHAScheduler'", 1),
        ('TRAINER = {"path": "ray.train.torch.accelerate"}', "has no attribute 'accelerate': use torch.autocast", 1),
        ("importlib.util.find_spec('ray')", "the text 'ray' stays: write 'minitune.ray'", 1),
        ('trainer.hyperparameter_search(backend="ray")', "backend='ray' makes a library use Ray itself", 1),
        ("model.tune(use_ray=True)", "use_ray=True makes a library use Ray itself", 1),
        ("tuner._local_tuner.get_run_config()", "_local_tuner is private in Ray Tune", 0),
        ("from transformers import Trainer", "transformers can import Ray itself", 0),
        ("import uses_ray.trainer", "uses_ray can import Ray itself", 0),
        ('logging.getLogger("ray.tune")', "", 0),
        ('"ray.png", "x ray.tune.run", "ray.tune.run is old", "ray"', "", 0),
        ("self._local_tuner = grid._experiment_analysis", "", 0),
        ("import tests_ray, json", "", 0),
    ],
)
def test_uses_that_are_no_imports_are_listed(
    minitune: Minitune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, text: str, status: int
) -> None:
    for name, requirement in (("uses_ray", 'Ray[tune]>=2; extra == "hpo"'), ("tests_ray", 'ray; extra == "testing"')):
        data = tmp_path / "packages" / f"{name}-1.dist-info"
        data.mkdir(parents=True)
        (data / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\nRequires-Dist: {requirement}\n"
        )
        (data / "top_level.txt").write_text(name)
    monkeypatch.syspath_prepend(tmp_path / "packages")
    unported._distributions.cache_clear()
    unported._requires_ray.cache_clear()
    script = tmp_path / "script.py"
    script.write_text(f"from ray import tune\n{line}\n")
    found, _, err = minitune("port", script)
    assert (found, err.count("\n")) == (status, 1 if text else 0), err
    assert err.startswith(f"{script}:2: " if text else "")
    assert text in err


def test_a_library_is_not_mentioned_where_ray_is_not_used(minitune: Minitune, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import transformers\n")
    assert minitune("port", script) == (0, "", f"{script} imports nothing of Ray: nothing to change\n")


def test_files_and_directories_are_changed_together(minitune: Minitune, tmp_path: Path) -> None:
    project = tmp_path / "project"
    files = {
        "a.py": "from ray import tune\n",
        "deep/b.ipynb": json.dumps(notebook("import ray\nray.tune.nothing")),
        "deep/c.py": "print 1\nfrom ray import tune\n",
        "deep/plain.py": "print('no ray')\n",
        "old.py": "print 2\n",
        "settings.yaml": "search:\n  - ray.tune.search.optuna.OptunaSearch\n",
        "data.json": json.dumps(["x" * 1_000_000, "ray.tune.run.x"]),
        ".hidden/a.py": "from ray import tune\n",
        "venv/lib/x.py": "from ray import tune\n",
        "venv/pyvenv.cfg": "",
        "node_modules/a.py": "from ray import tune\n",
    }
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    single = tmp_path / "single.py"
    single.write_text("import ray\n")
    status, out, err = minitune("port", project, single, tmp_path / "none.py")
    assert status == 1
    assert [line[4:] for line in out.splitlines() if line.startswith("---")] == [
        f"{project}/a.py",
        f"{project}/deep/b.ipynb:cell 1",
        f"{single}",
    ]
    first, second, third, fourth = err.splitlines()
    assert first == (
        f"{project}/settings.yaml:2: the text 'ray.tune.search.optuna.OptunaSearch' stays: "
        "write 'minitune.tune.search.optuna.OptunaSearch'"
    )
    assert second.startswith(f"{project}/deep/b.ipynb:cell 1:2: module 'minitune' has no attribute 'nothing'")
    assert third.startswith(f"{project}/deep/c.py: line 1: Missing parentheses")
    assert fourth == f"{tmp_path}/none.py: No such file or directory"

    _, out, _ = minitune("port", project, single, "--write")
    assert out == "".join(
        f"{path}: changed 1 line\n" for path in (f"{project}/a.py", f"{project}/deep/b.ipynb", single)
    )
    for name, text in files.items():
        assert ((project / name).read_text() == text) is (name not in ("a.py", "deep/b.ipynb"))
    (project / "deep" / "b.ipynb").unlink()
    (project / "deep" / "c.py").unlink()
    (project / "settings.yaml").unlink()
    assert minitune("port", project) == (0, "", f"{project} imports nothing of Ray: nothing to change\n")


def test_a_text_with_a_wrong_escape_is_not_mentioned(minitune: Minitune, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("from ray import tune\ntext = '\\d'\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert minitune("port", script)[::2] == (0, "")


def test_a_file_in_another_encoding_is_named(minitune: Minitune, tmp_path: Path) -> None:
    good = tmp_path / "good.py"
    good.write_text("from ray import tune\n")
    for name, content in (("text.py", b"from ray import tune\n# \xe9\n"), ("cookie.py", b"# coding: nonsense\n")):
        script = tmp_path / name
        script.write_bytes(content)
        status, out, err = minitune("port", script, good)
        assert (status, err.count("\n"), "+from minitune" in out) == (1, 1, True)
        assert err.startswith(f"{script}: ")


def test_a_script_whose_magics_hide_an_error_is_refused(minitune: Minitune, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("!ls\nfrom ray import tune\nprint(\n")
    status, out, err = minitune("port", script)
    assert (status, out) == (1, "")
    assert "line 3: '(' was never closed; the file must be a Python script or a notebook" in err


def notebook(*cells: str | list[str], **more: object) -> dict[str, object]:
    found: list[object] = [{"cell_type": "markdown", "metadata": {}, "source": ["from ray import tune: é"]}]
    for source in cells:
        found.append({"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source})
    return {"cells": found, "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **more}


def test_a_notebook_is_changed_in_its_cells(minitune: Minitune, tmp_path: Path) -> None:
    file = tmp_path / "tune.ipynb"
    before = notebook(
        ["%%capture\n", "!pip install ray[tune]\n", "import ray"],
        "from ray import tune\ntune.Tuner(print)",
        [],
        ["%%bash\n", "ls -l\n"],
        ["tune.nothing\n", "ray.get_actor('x')"],
        ["print 'Python 2'\n"],
    )
    file.write_text(json.dumps(before, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    text = file.read_text(encoding="utf-8")
    status, out, err = minitune("port", file)
    assert status == 1
    assert f"--- {file}:cell 2\n" in out
    assert "\n-from ray import tune\n+from minitune import tune\n tune.Tuner(print)\n" in out
    lines = err.splitlines()
    assert lines[0].startswith(f"{file}:cell 5:1: module 'minitune' has no attribute 'nothing'")
    assert lines[1].startswith(f"{file}:cell 5:2: module 'minitune' has no attribute 'get_actor': minitune has no")
    assert lines[2].startswith(f"{file}:cell 6:1: ")
    assert lines[2].endswith(": the cell is not Python, so its names are not looked up")
    assert len(lines) == 3
    assert file.read_text(encoding="utf-8") == text

    assert minitune("port", file, "--write")[1] == f"{file}: changed 2 lines\n"
    ported = text.replace('"import ray"', '"import minitune.ray as ray"').replace(
        '"from ray import', '"from minitune import'
    )
    assert file.read_text(encoding="utf-8") == ported.replace("from minitune import tune: é", "from ray import tune: é")


def test_a_module_that_needs_a_package_is_no_missing_attribute(
    minitune: Minitune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "keras", None)
    monkeypatch.delitem(sys.modules, "minitune.integration.keras", raising=False)
    script = tmp_path / "script.py"
    script.write_text("import ray.tune.integration.keras\nray.tune.integration.keras.TuneReportCheckpointCallback\n")
    status, _, err = minitune("port", script)
    assert (status, err.count("\n")) == (0, 1)
    assert err.startswith(f"{script}:2: this needs the package keras, which cannot be imported here: ")


def test_broken_notebook_is_an_error(minitune: Minitune, tmp_path: Path) -> None:
    file = tmp_path / "tune.ipynb"
    for found in (notebook("print(1)"), notebook([]), notebook(), {"cells": []}):
        file.write_text(json.dumps(found))
        assert minitune("port", file) == (0, "", f"{file} imports nothing of Ray: nothing to change\n")
    file.write_text("import ray")
    status, _, err = minitune("port", file)
    assert (status, "a notebook must be JSON" in err) == (1, True)
    file.write_text('{"worksheets": [], "nbformat": 3}')
    status, _, err = minitune("port", file)
    assert (status, "must be a notebook of format 4" in err) == (1, True)


def test_script_without_ray_stays_unchanged(minitune: Minitune, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("print(1)\n")
    assert minitune("port", script) == (0, "", f"{script} imports nothing of Ray: nothing to change\n")
    before = script.stat().st_mtime_ns
    assert minitune("port", script, "--write") == (0, "", f"{script} imports nothing of Ray: nothing to change\n")
    assert script.stat().st_mtime_ns == before
    script.write_text("print(\n")
    status, _, err = minitune("port", script)
    assert (status, "the file must be a Python script" in err) == (1, True)
    status, _, err = minitune("port", tmp_path / "none.py")
    assert (status, "none.py" in err) == (1, True)


LINES = {
    "import ray": "import minitune.ray as ray",
    "    import ray": "    import minitune.ray as ray",
    "import ray as r": "import minitune.ray as r",
    "import ray.tune": "import minitune.ray as ray",
    "import ray.tune as t": "import minitune.tune as t",
    "import ray.tune.schedulers as s": "import minitune.tune.schedulers as s",
    "import ray, ray.tune": "import minitune.ray as ray",
    "import ray.tune, os": "import minitune.ray as ray, os",
    "import os, ray.train, ray": "import os, minitune.ray as ray",
    "import ray as r, ray.tune": "import minitune.ray as r, minitune.ray as ray",
    "import ray  # import ray": "import minitune.ray as ray  # import ray",
    "import ray; x = 1": "import minitune.ray as ray; x = 1",
    "from ray import tune": "from minitune import tune",
    "from ray import (tune, __version__)": "from minitune.ray import (tune, __version__)",
    "from   ray.tune import run": "from   minitune.tune import run",
    "from ray.train import __version__": "from minitune.train import __version__",
    # Lines that import nothing of Ray.
    "import raymond": "import raymond",
    "import my.ray": "import my.ray",
    "import x_ray as ray": "import x_ray as ray",
    "from rays import tune": "from rays import tune",
    "from my.ray import tune": "from my.ray import tune",
    "from .ray import tune": "from .ray import tune",
    "# import ray": "# import ray",
    "x = 'import ray'": "x = 'import ray'",
    "ray = 1": "ray = 1",
}


def test_each_form_of_an_import_is_changed(minitune: Minitune, tmp_path: Path) -> None:
    files = [tmp_path / f"{number:02}.py" for number in range(len(LINES))]
    for file, line in zip(files, LINES, strict=True):
        file.write_text(f"if True:\n{line}\n" if line.startswith(" ") else f"{line}\n")
    minitune("port", "--write", *files)
    assert [file.read_text().removeprefix("if True:\n").removesuffix("\n") for file in files] == list(LINES.values())


def test_each_thing_that_is_left_is_told_at_its_line_in_order(minitune: Minitune, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "x = 1; import ray\n"
        "import flaml, flaml\n"
        "from ray import tune\n"
        "analysis._retrieve_rows()\n"
        "self._retrieve_rows()\n"
        "fit(backend='ray', use_ray=True)\n"
        "fit(backend='dask', use_ray=False)\n"
        "import_module('ray')\n"
        "logging.getLogger('ray.tune')\n"
        "print('ray', 'ray.tune.schedulers:ASHAScheduler')\n"
        "print('ray.tune.Tuner')\n"
    )
    status, _, err = minitune("port", script)
    assert status == 1
    told = [line.removeprefix(f"{script}:") for line in err.splitlines()]
    assert told == [
        "1: this import of ray stays, because it does not begin a line: change it yourself",
        "2: flaml can import Ray itself: to tune on minitune, import minitune.as_ray before it",
        "4: _retrieve_rows is private in Ray Tune, and minitune has no such attribute: use a public one",
        "6: backend='ray' makes a library use Ray itself: import minitune.as_ray before it",
        "6: use_ray=True makes a library use Ray itself: import minitune.as_ray before it",
        "8: the text 'ray' stays: write 'minitune.ray'",
        "10: the text 'ray.tune.schedulers:ASHAScheduler' stays: write 'minitune.tune.schedulers:ASHAScheduler'",
        "11: the text 'ray.tune.Tuner' stays: write 'minitune.tune.Tuner'",
    ]


def test_messages_that_need_no_change_leave_the_status_at_0(minitune: Minitune, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import flaml\nfrom ray import tune\nanalysis._retrieve_rows()\n")
    status, _, err = minitune("port", script)
    assert (status, len(err.splitlines())) == (0, 2)


def test_a_directory_is_searched_for_what_uses_ray_but_not_among_the_code_of_others(
    minitune: Minitune, tmp_path: Path
) -> None:
    uses = "from ray import tune\n"
    for name in ("a.py", "B.PY", "src/c.py", "src/deep/d.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(uses)
    for name in (".hidden.py", ".git/a.py", "node_modules/a.py", "site-packages/a.py", "__pycache__/a.py", "env/a.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(uses)
    (tmp_path / "env" / "pyvenv.cfg").touch()
    (tmp_path / "notes.txt").write_text(uses)
    (tmp_path / "small.yaml").write_text("a: ray.tune.schedulers.ASHAScheduler\n")
    (tmp_path / "large.yaml").write_text("a: ray.tune.schedulers.ASHAScheduler\n" + "#" * 1_000_000)
    status, out, err = minitune("port", "--write", tmp_path)
    assert status == 1, "the file of settings is left to change"
    assert [line.partition(": ")[0] for line in out.splitlines()] == [
        str(tmp_path / name) for name in ("B.PY", "a.py", "src/c.py", "src/deep/d.py")
    ]
    assert err == (
        f"{tmp_path}/small.yaml:1: the text 'ray.tune.schedulers.ASHAScheduler' stays: write "
        "'minitune.tune.schedulers.ASHAScheduler'\n"
    )


def test_names_of_an_import_of_all_are_known(minitune: Minitune, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("from ray.tune.schedulers import *\nASHAScheduler.nothing\nNothing.nothing\n")
    status, _, err = minitune("port", script)
    assert (status, err.count("\n")) == (1, 1)
    assert err.startswith(f"{script}:2: ")
    assert "'nothing'" in err


@pytest.mark.parametrize(
    ("is_terminal", "line"), [(True, "+from minitune import tune  # \n"), (False, "  # \x1b[2J\n")]
)
def test_a_diff_on_a_terminal_has_no_codes_of_the_script(
    minitune: Minitune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_terminal: bool, line: str
) -> None:
    script = tmp_path / "script.py"
    script.write_text("from ray import tune  # \x1b[2J\n")
    monkeypatch.setattr("minitune.commands.port.is_terminal", lambda stream: is_terminal)
    assert minitune("port", script)[1].endswith(line)
