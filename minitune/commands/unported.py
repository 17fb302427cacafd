"""What `minitune port` leaves to the user: names that minitune lacks, and uses of Ray that are no import lines.

The changed code is parsed and not run. Each name of Ray that it imports or reaches by attributes is looked up with
Python's own import system, so the list agrees with a run of the script.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.metadata
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from minitune._alias import LeftOutError
from minitune.base.text import one_line

OLD = "ray"
NEW = "minitune"

_FOR_IPYTHON = re.compile(
    r"""\s*(?:
        [%!?]                         # a magic, a command of the shell, help
        | [\w.*]+\?{1,2}\s*$          # help: run?
        | [\w.,\s*\[\]'"]+=\s*[%!]    # files = !ls
    )""",
    re.VERBOSE,
)
_CELL_MAGIC = "%%"
_STAYS = "this import of ray stays, because it does not begin a line: change it yourself"

PATH = re.compile(rf"\b{OLD}\.(?:tune|train|air|util|rllib|data|serve)(?:\.\w+)+")
"""A path of something in Ray, in a text."""
_WHOLE_PATH = re.compile(rf"{OLD}(\.(?:tune|train|air|util|rllib|data|serve)(?:\.\w+)*(?::\w+)?)")
_IMPORTERS = {"__import__", "find_spec", "import_module", "importorskip"}

_PRIVATE = {
    "_default_result_or_future",
    "_experiment_fs_path",
    "_experiment_json_fs_path",
    "_fetch_trial_dataframe",
    "_fetch_trial_dataframes",
    "_get_trial_checkpoints_with_metric",
    "_load_trials",
    "_local_tuner",
    "_populate_exception",
    "_remote_tuner",
    "_retrieve_rows",
    "_storage_filesystem",
    "_trial_dataframes",
    "_trial_to_result",
}
"""Private attributes of tuners, trials, results and analyses of Ray Tune, which the objects here do not have."""

_USE_RAY = {
    "autogluon",
    "flaml",
    "lightgbm_ray",
    "ludwig",
    "neuralforecast",
    "ray_lightning",
    "scvi",
    "transformers",
    "tune_sklearn",
    "ultralytics",
    "xgboost_ray",
}
"""Libraries that import Ray themselves; others are known by their requirements, if they are installed."""
_FOR_DEVELOPERS = re.compile(r"test|dev|doc|lint|quality|all$")


class Finding(NamedTuple):
    """A message about a line of a cell.

    Attributes:
        is_missing: Whether the user must change something. If not, the code needs a package that cannot be imported
            here, or may need a change.
    """

    line: int
    text: str
    is_missing: bool = True


def findings(lines: Sequence[str], known: dict[str, Any], *, is_notebook: bool) -> Iterator[Finding]:
    """What the changes have left in a cell. `known`, the objects of imported names, grows.

    Raises:
        ValueError: If a script is not Python.
    """
    try:
        tree, for_ipython = parsed(lines)
    except SyntaxError as error:
        if not is_notebook:
            text = f"line {error.lineno or 1}: {error.msg}; the file must be a Python script or a notebook"
            raise ValueError(text) from None
        if not lines[0].startswith(_CELL_MAGIC):  # which may be the head of another language
            yield Finding(error.lineno or 1, f"{error.msg}: the cell is not Python, so its names are not looked up")
        return
    if for_ipython and not is_notebook:
        subject = "this line is" if len(for_ipython) == 1 else "this line and others are"
        yield Finding(for_ipython[0], f"{subject} for IPython, so Python cannot run the file: run it with ipython")
    libraries: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _of_import(node.lineno, alias, known)
                libraries.setdefault(alias.name.partition(".")[0], node.lineno)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from _of_import_from(node, known)
            libraries.setdefault(str(node.module).partition(".")[0], node.lineno)
    if known or OLD in libraries or NEW in libraries:
        yield from _of_libraries(libraries)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield from _of_attribute(node, known)
        elif isinstance(node, ast.Call):
            yield from _of_keywords(node)
    yield from _of_texts(tree)


def parsed(lines: Sequence[str]) -> tuple[ast.Module, list[int]]:
    """The syntax tree of a cell, and the numbers of its lines for IPython, which are not in the tree."""
    try:
        return _parsed("".join(lines)), []
    except SyntaxError:
        kept = []
        left_out = []
        goes_on = False
        for number, line in enumerate(lines, 1):
            is_left_out = goes_on or _FOR_IPYTHON.match(line) is not None
            if goes_on:
                kept.append("\n")
            elif is_left_out:
                kept.append(re.sub(r"\S.*", "pass", line))
                left_out.append(number)
            else:
                kept.append(line)
            goes_on = is_left_out and line.rstrip().endswith("\\")
        return _parsed("".join(kept)), left_out


def _parsed(code: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a warning about a text such as "\\d" names no file, and concerns no import
        return ast.parse(code)


# -- names -------------------------------------------------------------------------------------------------------------
def _of_import(line: int, alias: ast.alias, known: dict[str, Any]) -> Iterator[Finding]:
    root = alias.name.partition(".")[0]
    if root == OLD:
        yield Finding(line, _STAYS)
    elif root == NEW:
        value, error = _imported(alias.name)
        if error is not None:
            yield _told(line, error)
        elif alias.asname:
            known[alias.asname] = value
        else:
            known[root] = sys.modules[root]


def _of_import_from(node: ast.ImportFrom, known: dict[str, Any]) -> Iterator[Finding]:
    path = str(node.module)
    root = path.partition(".")[0]
    if root == OLD:
        yield Finding(node.lineno, _STAYS)
    if root != NEW:
        return
    module, error = _imported(path)
    if error is not None:
        yield _told(node.lineno, error)
        return
    for alias in node.names:
        if alias.name == "*":
            known.update({name: getattr(module, name) for name in getattr(module, "__all__", ())})
            continue
        value, error = _attribute(module, alias.name)
        if error is not None:
            yield _told(node.lineno, error)
        else:
            known[alias.asname or alias.name] = value


def _imported(path: str) -> tuple[Any, Exception | None]:
    """The module, or the error of its import."""
    try:
        return importlib.import_module(path), None
    except Exception as error:  # a package that a module needs may raise anything
        return None, error


def _attribute(owner: Any, name: str) -> tuple[Any, Exception | None]:
    """The attribute of a module or class, or the error that says best why it does not exist."""
    try:
        return getattr(owner, name), None
    except Exception as error:
        missing = error
    if isinstance(owner, ModuleType):
        # It may also be a submodule that was not imported yet.
        value, error_of_module = _imported(f"{owner.__name__}.{name}")
        says_more = isinstance(error_of_module, LeftOutError) and not hasattr(owner, "__getattr__")
        if error_of_module is None or says_more or _needs_package(error_of_module):
            return value, error_of_module
    return None, missing


def _resolve(node: ast.expr, known: dict[str, Any]) -> tuple[Any, Exception | None]:
    """Resolve an expression such as `tune.schedulers.ASHAScheduler` to a module, class or function.

    The second value is the error of a missing attribute.
    """
    if isinstance(node, ast.Name):
        return known.get(node.id), None
    if not isinstance(node, ast.Attribute):
        return None, None
    owner, _ = _resolve(node.value, known)
    if not isinstance(owner, ModuleType) and not (isinstance(owner, type) and owner.__module__.startswith(NEW)):
        return None, None
    return _attribute(owner, node.attr)


def _needs_package(error: Exception) -> bool:
    """Whether an import has failed because of a package of somebody else."""
    if isinstance(error, ImportError):
        return (error.name or "").partition(".")[0] not in ("", NEW)
    return not isinstance(error, AttributeError)


def _told(line: int, error: Exception) -> Finding:
    """The message about a name that cannot be had."""
    if not _needs_package(error):
        return Finding(line, str(error))
    package = "a package that is installed but"
    if isinstance(error, ImportError):
        package = f"the package {error.name}, which"
    what = one_line(f"{type(error).__name__}: {error}")
    return Finding(line, f"this needs {package} cannot be imported here: {what}", is_missing=False)


# -- uses that are no imports ------------------------------------------------------------------------------------------
def _of_attribute(node: ast.Attribute, known: dict[str, Any]) -> Iterator[Finding]:
    _, error = _resolve(node, known)
    if error is not None:
        yield _told(node.lineno, error)
    elif node.attr in _PRIVATE and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
        text = f"{node.attr} is private in Ray Tune, and minitune has no such attribute: use a public one"
        yield Finding(node.lineno, text, is_missing=False)


def _of_libraries(lines: Mapping[str, int]) -> Iterator[Finding]:
    for package, line in lines.items():
        if package in _USE_RAY or (package not in (*sys.stdlib_module_names, OLD, NEW) and _requires_ray(package)):
            text = f"{package} can import Ray itself: to tune on minitune, import minitune.as_ray before it"
            yield Finding(line, text, is_missing=False)


@functools.cache
def _requires_ray(package: str) -> bool:
    """Whether an installed package, or one of its extras for users, requires Ray."""
    for distribution in _distributions().get(package, ()):
        for requirement in importlib.metadata.requires(distribution) or ():
            name = re.match(r"[\w.-]+", requirement)
            extra = re.search(r"""extra\s*==\s*['"]([^'"]+)""", requirement)
            is_for_users = extra is None or _FOR_DEVELOPERS.search(extra[1]) is None
            if name is not None and name[0].lower() == OLD and is_for_users:
                return True
    return False


@functools.cache
def _distributions() -> dict[str, list[str]]:
    return dict(importlib.metadata.packages_distributions())


def _of_keywords(node: ast.Call) -> Iterator[Finding]:
    for keyword in node.keywords:
        value = keyword.value
        if not isinstance(value, ast.Constant):
            continue
        if (keyword.arg, value.value) in (("backend", OLD), ("use_ray", True)):
            text = f"{keyword.arg}={value.value!r} makes a library use Ray itself: import minitune.as_ray before it"
            yield Finding(keyword.value.lineno, text)


def _of_texts(tree: ast.Module) -> Iterator[Finding]:
    """Texts that are the path of something in Ray."""
    loggers = set()
    modules = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args:
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if called == "getLogger":
                loggers.add(node.args[0])
            elif called in _IMPORTERS:
                modules.add(node.args[0])
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or node in loggers:
            continue
        if _WHOLE_PATH.fullmatch(node.value):
            yield of_path(node.lineno, node.value)
        elif node.value == OLD and node in modules:
            yield Finding(node.lineno, f"the text {OLD!r} stays: write {f'{NEW}.{OLD}'!r}")


def of_path(line: int, path: str) -> Finding:
    """The message about a text that is the path of something in Ray, such as `ray.tune.search.optuna:OptunaSearch`."""
    new = NEW + path.removeprefix(OLD)
    value, error = _imported(NEW)
    for part in re.split("[.:]", new)[1:]:
        if error is None:
            value, error = _attribute(value, part)
    if error is not None and not _needs_package(error):
        return Finding(line, f"the text {path!r} stays: {error}")
    return Finding(line, f"the text {path!r} stays: write {new!r}")
