"""Which part may import which: read from the source, so that type-only and function-local imports count too.

The layers, from the bottom: `base` knows nothing of minitune but its errors, settings and clock, and all may know it;
values know nothing else; plugins, workers and actors know values (actors only the errors); executors know actors; the
record of a run knows values only; a run knows its record, the executor protocol and the plugins; readers show and
analyse runs; the API knows what it puts together. There is no import cycle at all, and no two folders
import each other.
"""

from __future__ import annotations

import ast
import functools
import sys
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "minitune"
ROOT = Path(__file__).resolve().parent.parent / PACKAGE

LAYERS = {
    "base": "base.* error",
    "values": """
        space.* result checkpoint resources config
        experiment.*
    """,
    "plugins": "search.* schedulers.* stopper.* logger.*",
    "worker": """
        trainable.*
    """,
    "contrib": "contrib.*",
    "actor": "actor.*",
    "executors": "executors.* ray.cluster.*",
    "record": "record.*",
    "run": """
        driver driver.tune_controller driver.events driver.launching driver.outcomes driver.hooks driver.failure
        driver.limits driver.state driver.replay driver.snapshot driver.transitions driver.open_run
        driver.experiment_spec tune_config
    """,
    "readers": "view.* output.* analysis.* result_grid visualization.*",
    "API": """
        <top> ray.* as_ray tuner study driver.* runtime simulation commands.* __main__
        integration.* examples.* sklearn.* testing.* utils.*
    """,
}
"""Modules by layer, without the leading package name. `x.*` is package x and all below it, a bare package name its
`__init__` only, `<top>` the package itself. The first layer that fits counts: what puts a run together (`driver.plan`,
`parts`, `driver`, `resume`) belongs to the API, as it chooses an executor."""

ALLOWED = {
    "base": {"base"},
    "values": {"base", "values"},
    "plugins": {"base", "values"},
    "contrib": {"base", "values", "plugins"},
    "worker": {"base", "values", "worker"},
    "actor": {"base", "actor"},
    "executors": {"base", "values", "actor", "executors"},
    "record": {"base", "values", "record"},
    "run": {"base", "values", "plugins", "record", "run"},
    "readers": {"base", "values", "plugins", "executors", "record", "run", "readers"},
    "API": {"base", "values", "plugins", "worker", "executors", "record", "run", "readers", "API"},
}
ALSO = {
    "contrib": {"integration._tracking", "contrib._library"},
    "plugins": {"search.surface"},
    "record": {"tune_config"},
    "run": {
        "driver.plan",
        "executors.trial_executor",
        "trainable.trainable",
        "trainable.trial_actor",
        "trainable.util",
        "trainable.registry",
        "ray.legacy.keywords",
    },
    "API": {"actor.launcher", "actor.zygote_process"},
}
"""Single modules that a layer may import besides: the thread of trackers; the Gaussian process, for PB2; the settings
that are recorded for a resume; the plan of the run; the executor protocol, what makes the worker's factory, and what
it is sent by name; Ray's old keywords of `Experiment`; the zygote of a run."""

NEEDED_AT_RUN_TIME = {"cloudpickle", "psutil"}
MAY_NEED_MORE = ("integration.", "sklearn.", "testing.", "search.surface", "ray.in_trial", "ray.lightning")
"""What exists for another library and is only imported by those who have it."""


@dataclass(frozen=True)
class Import:
    """Who imports whom, where, whether within the package, and whether as soon as the module is imported."""

    importer: str
    target: str
    line: int
    is_inner: bool
    is_immediate: bool


def layer_of(module):
    """The layer of a module (named without the package), or None if the map does not have it."""
    for layer, names in LAYERS.items():
        for pattern in names.split():
            if pattern.endswith(".*"):
                found = module == pattern[:-2] or module.startswith(pattern[:-1])
            else:
                found = module == pattern
            if found:
                return layer
    return None


@functools.cache
def sources(root):
    """Source and whether it is a package, by module name below `root`; the root package itself is `<top>`."""
    found = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts) or "<top>"
        found[name] = (path.read_text(encoding="utf-8"), is_package)
    return found


@functools.cache
def read_imports(root):
    """All imports in the package at `root`, inner ones (targets without the package name) and others alike."""
    modules = sources(root)
    return [
        found for name, (text, is_package) in modules.items() for found in _of_module(name, text, is_package, modules)
    ]


def _of_module(name, text, is_package, modules):
    for node, is_immediate in _statements(ast.parse(text)):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(name, is_package, node)
            # `from package import x` is the module package.x if there is one, else a name within the package
            targets = [
                f"{base}.{alias.name}" if _inner(f"{base}.{alias.name}") in modules else base for alias in node.names
            ]
        else:
            continue
        for target in dict.fromkeys(targets):
            inner = _inner(target)
            yield Import(name, inner or target, node.lineno, inner is not None, is_immediate)


def _statements(parent, is_immediate=True):
    """All that stands below a node but expressions, and whether it runs when the module is imported.

    What stands in a function or under TYPE_CHECKING does not.
    """
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.expr):
            continue
        is_later = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or (
            isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        )
        yield node, is_immediate
        yield from _statements(node, is_immediate and not is_later)


def _absolute(name, is_package, node):
    if not node.level:
        return node.module or ""
    parts = [PACKAGE, *([] if name == "<top>" else name.split("."))]
    drop = node.level - is_package
    return ".".join([*(parts[:-drop] if drop else parts), *([node.module] if node.module else [])])


def _inner(target):
    """The module's name without the package, `<top>` for the package, None for other packages."""
    if target == PACKAGE:
        return "<top>"
    return target[len(PACKAGE) + 1 :] if target.startswith(PACKAGE + ".") else None


def unmapped(root):
    """Modules that no layer claims."""
    return [
        f"{name} has no layer: add it to LAYERS in {Path(__file__).name}, in the lowest layer that its imports allow"
        for name in sources(root)
        if layer_of(name) is None
    ]


def violations(root):
    """Imports that the table forbids, in words."""
    modules = sources(root)
    found = []
    for one in read_imports(root):
        importer, target = layer_of(one.importer), layer_of(one.target)
        if one.is_inner and one.target not in modules:
            found.append(f"{one.importer}:{one.line} imports {one.target}, which does not exist")
        if not one.is_inner or one.target not in modules or importer is None or target is None:
            continue
        fine = target in ALLOWED[importer] or one.target in ALSO.get(importer, ())
        if importer == target == "plugins":
            fine = fine or one.importer.partition(".")[0] == one.target.partition(".")[0]  # of one family
        if not fine:
            found.append(f"{one.importer}:{one.line} ({importer}) must not import {one.target} ({target})")
    return found


def cycle(root):
    """The first import cycle that is found, as the modules along it, or None."""
    modules = sources(root)
    graph = {name: [] for name in modules}
    for one in read_imports(root):
        if one.is_inner and one.target in modules and one.target != one.importer:
            graph[one.importer].append(one.target)
    done = set()

    def visit(name, path):
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return None
        for target in graph[name]:
            if found := visit(target, [*path, name]):
                return found
        done.add(name)
        return None

    return next((found for name in graph if (found := visit(name, []))), None)


def mutual(root):
    """The pairs of folders that import each other."""
    modules = sources(root)
    folders = {name.partition(".")[0] for name in modules if "." in name}
    arrows = set()
    for one in read_imports(root):
        ends = (one.importer.partition(".")[0], one.target.partition(".")[0])
        if one.is_inner and one.target in modules and folders.issuperset(ends):
            arrows.add(ends)
    return {(one, other) for one, other in arrows if one < other and (other, one) in arrows}


def foreign(root):
    """Imports of optional packages that happen unasked, in words."""
    return [
        f"{one.importer}:{one.line} imports {one.target} as soon as it is imported: do it where it is used"
        for one in read_imports(root)
        if one.is_immediate
        and not one.is_inner
        and one.target.partition(".")[0] not in sys.stdlib_module_names | NEEDED_AT_RUN_TIME | {"__future__"}
        and not one.importer.startswith(MAY_NEED_MORE)
    ]


def test_every_module_has_a_layer():
    assert not unmapped(ROOT)


def test_no_module_imports_from_a_layer_that_it_must_not_know():
    assert not violations(ROOT)


def test_there_is_no_import_cycle():
    assert cycle(ROOT) is None


def test_no_two_folders_import_each_other():
    assert not mutual(ROOT)


def test_optional_packages_are_imported_only_when_used():
    assert not foreign(ROOT)


def _package(directory, files):
    for name, text in files.items():
        path = directory / PACKAGE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return directory / PACKAGE


def test_forbidden_imports_are_found_wherever_they_stand(tmp_path):
    root = _package(
        tmp_path,
        {
            "__init__.py": "",
            "error.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from minitune.tuner import Tuner\n",
            "tuner.py": "import minitune.actor.channel\nimport minitune.gone\n",
            "resources.py": "",
            "actor/__init__.py": "",
            "actor/channel.py": "from minitune import error, resources\n",
            "trainable/__init__.py": "",
            "trainable/util.py": "",
            "trainable/session.py": "def f():\n    from ..schedulers import fifo\n",
            "schedulers/__init__.py": "from .fifo import x\n",
            "schedulers/fifo.py": "import minitune.resources\nfrom minitune.search import basic\n",
            "search/__init__.py": "",
            "search/basic.py": "import minitune.schedulers.fifo\n",
            "executors/__init__.py": "",
            "executors/local.py": "from minitune.actor.channel import x\n",
            "executors/trial_executor.py": "",
            "driver/failure.py": (
                "from minitune.executors import local, trial_executor\n"
                "from minitune.trainable.session import report\n"
                "from minitune.trainable.util import wrap\n"
                "from minitune import Tuner\n"
            ),
        },
    )

    assert violations(root) == [
        "actor.channel:1 (actor) must not import resources (values)",
        "driver.failure:1 (run) must not import executors.local (executors)",
        "driver.failure:2 (run) must not import trainable.session (worker)",
        "driver.failure:4 (run) must not import <top> (API)",
        "error:3 (base) must not import tuner (API)",
        "schedulers.fifo:2 (plugins) must not import search.basic (plugins)",
        "search.basic:1 (plugins) must not import schedulers.fifo (plugins)",
        "trainable.session:2 (worker) must not import schedulers.fifo (plugins)",
        "tuner:1 (API) must not import actor.channel (actor)",
        "tuner:2 imports gone, which does not exist",
    ]
    assert mutual(root) == {("schedulers", "search")}
