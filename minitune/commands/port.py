"""`minitune port` changes the imports of a script or notebook that uses Ray Tune, and lists what minitune lacks.

The command reads the code and does not run it. It looks up each name of Ray that the code imports or reaches by
attributes. It uses Python's own import system, so the list agrees with a run of the script. It compares the keywords of
calls with signatures, and checks addresses and paths that the code has as texts. It does not see names that the script
creates while it runs.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import importlib
import inspect
import re
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

from minitune.base.files import local_path
from minitune.base.text import echo, is_terminal, one_line, printable
from minitune.commands import Commands
from minitune.commands.cells import LineMessage, read_document
from minitune.config import refuse_out_of_scope
from minitune.runtime import ON_THIS_MACHINE, check_address

_OLD = "ray"
_NEW = "minitune"
_NEW_RAY = "minitune.ray"

_IMPORT = re.compile(rf"\b(import|from)\s+{_OLD}\b")

_PATHS = frozenset({"experiment_checkpoint_path", "experiment_dir", "local_dir", "path", "restore", "storage_path"})
"""Parameters that are paths on this machine."""


def add_parser(commands: Commands) -> None:
    """Add the parser of `minitune port`."""
    parser = commands.add_parser(
        "port",
        description="Change the imports of a Ray Tune script or Jupyter notebook to minitune: show the changes as a "
        "diff, and list the names that minitune does not have, with what to use instead, and the calls that would "
        "fail. The script is not run. Lines for IPython, such as !pip and %matplotlib, stay as they are.",
        epilog="The exit status is 0 if minitune has every name, 1 if some are missing. These are listed, too, but do "
        "not count as missing: a package that a name needs and that cannot be imported here, and an argument that has "
        "no effect. A position in a notebook is the number of the code cell and of the line in it.",
    )
    parser.add_argument("script", metavar="SCRIPT", help="a file that ends with .py or .ipynb")
    parser.add_argument("--write", action="store_true", help="change the file instead of showing the diff")
    parser.set_defaults(command=port)


def port(options: argparse.Namespace) -> int:
    """Run `minitune port`: the diff goes to stdout, the list to stderr."""
    document = read_document(options.script)
    tree, left_out, found = document.parse()
    lines, count = _with_new_imports(document.lines, tree)
    changed = document.with_lines(lines)
    for number, line in left_out:
        if _IMPORT.search(line):
            found.append((number, "this is not Python code, so the import of ray stays: change it yourself"))
    # The names are looked up in the changed script, as they would be in a run.
    found += _missing(changed.parse()[0])  # before the file is changed, because this checks its syntax
    if options.write and count:
        changed.write()
        echo(f"{options.script}: changed {count} import{'s' if count > 1 else ''}")
    else:
        has_terminal = is_terminal(sys.stdout)  # elsewhere `patch` may read it, so it stays as it is
        for before, after in zip(document.cells, changed.cells, strict=True):
            for line in difflib.unified_diff(before.lines, after.lines, before.name, after.name):
                shown = line
                if has_terminal:
                    shown = printable(line)
                sys.stdout.write(shown.removesuffix("\n") + "\n")
    for number, text in sorted(set(found)):
        echo(f"{document.position(number)}: {text}", file=sys.stderr)
    if not count:
        echo(f"{options.script} imports nothing of Ray: nothing to change", file=sys.stderr)
    if all(isinstance(text, _Remark) for _, text in found):
        return 0
    return 1


def _with_new_imports(lines: Sequence[str], tree: ast.Module) -> tuple[list[str], int]:
    """The lines with `minitune` in place of `ray` in their import statements, and the number of changes."""
    edits: list[tuple[int, int, int, str]] = []  # line, begin and end in bytes, new text
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                head, dot, rest = alias.name.partition(".")
                if head != _OLD:
                    continue
                if not alias.asname:
                    new = f"{_NEW_RAY} as {_OLD}"
                elif rest:
                    new = f"{_NEW}{dot}{rest}"
                else:
                    new = _NEW_RAY
                edits.append((alias.lineno, alias.col_offset, alias.col_offset + len(alias.name), new))
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").split(".")[0] == _OLD:
            asks_version = any(alias.name == "__version__" for alias in node.names)
            new = _NEW
            if node.module == _OLD and asks_version:
                new = _NEW_RAY
            start = node.col_offset + len("from")
            for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                begin = lines[number - 1].encode().find(_OLD.encode(), start)
                if begin >= 0:
                    edits.append((number, begin, begin + len(_OLD), new))
                    break
                start = 0  # this line ends in a backslash, or the name has letters that Python reads as these
    changed = list(lines)
    # From the end of each line, so that the positions of the other edits stay valid. They count bytes, as `ast` does.
    for number, begin, end, new in sorted(edits, reverse=True):
        line = changed[number - 1].encode()
        changed[number - 1] = (line[:begin] + new.encode() + line[end:]).decode()
    return changed, len(edits)


def _missing(tree: ast.Module) -> Iterator[LineMessage]:
    """The names and keywords of the changed script that this package lacks."""
    known: dict[str, Any] = {}  # the objects of the script's names
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == _NEW:
                    value, problem = _imported(alias.name)
                    if problem:
                        yield node.lineno, problem
                    elif alias.asname:
                        known[alias.asname] = value
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").split(".")[0] == _NEW:
            module, problem = _imported(str(node.module))
            if problem:
                yield node.lineno, problem
                continue
            for alias in node.names:
                if alias.name == "*":
                    known.update({name: getattr(module, name) for name in getattr(module, "__all__", ())})
                    continue
                value, problem = _attribute(module, alias.name)
                if problem:
                    value, problem_of_module = _imported(f"{node.module}.{alias.name}")
                    if problem_of_module:
                        yield node.lineno, problem_of_module if ": " in problem_of_module else problem
                        continue
                known[alias.asname or alias.name] = value
    # A name that the script registers is no algorithm of RLlib.
    registered = {
        node.args[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and _last_name(node.func) == "register_trainable"
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            value, problem = _resolve(node, known)
            if problem:
                yield node.lineno, problem
        elif isinstance(node, ast.Call):
            value, _ = _resolve(node.func, known)
            yield from _bad_keywords(node, value)
            yield from _bad_values(node, value)
            name = None
            if node.args and isinstance(node.args[0], ast.Constant):
                name = node.args[0].value
            if isinstance(name, str) and name not in registered and _last_name(node.func) in ("run", "Tuner") and value:
                yield node.lineno, f"no trainable is registered as {name!r}; minitune does not have RLlib"


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _imported(path: str) -> tuple[Any, str]:
    """The module, or the reason why it does not exist."""
    try:
        return importlib.import_module(path), ""
    except Exception as error:
        return None, _reason(error)


def _attribute(owner: Any, name: str) -> tuple[Any, str]:
    try:
        return getattr(owner, name), ""
    except Exception as error:
        problem = _reason(error)
    if isinstance(owner, ModuleType):
        _, problem_of_module = _imported(f"{owner.__name__}.{name}")
        # An attribute may also be a submodule that was not imported yet.
        if isinstance(problem_of_module, _Remark):  # the module exists, but needs a package
            return None, problem_of_module
    return None, problem


class _Remark(str):
    """A message about something that minitune does have, or that it can do without."""


def _reason(error: Exception) -> str:
    """Why minitune does not have a name, or why the package that the name needs cannot be imported."""
    if not isinstance(error, (AttributeError, ImportError)):
        what = one_line(f"{type(error).__name__}: {error}")
        return _Remark(f"this needs a package that is installed but cannot be imported here: {what}")
    package = ""
    if isinstance(error, ImportError):
        package = (error.name or "").partition(".")[0]
    if package in ("", _NEW):
        return str(error)
    return _Remark(f"this needs the package {package}, which cannot be imported here: {one_line(str(error))}")


def _resolve(node: ast.expr, known: dict[str, Any]) -> tuple[Any, str]:
    """Resolve an expression such as `tune.schedulers.ASHAScheduler` to a module, class or function.

    The second value names a missing attribute. For an unknown expression, the result is `(None, "")`.
    """
    if isinstance(node, ast.Name):
        return known.get(node.id), ""
    if not isinstance(node, ast.Attribute):
        return None, ""
    owner, _ = _resolve(node.value, known)
    if not isinstance(owner, ModuleType) and not (isinstance(owner, type) and owner.__module__.startswith(_NEW)):
        return None, ""
    return _attribute(owner, node.attr)


def _bad_keywords(call: ast.Call, function: Any) -> Iterator[LineMessage]:
    """The keywords of a call that its function does not take."""
    if not (inspect.isclass(function) or inspect.isfunction(function)) or not function.__module__.startswith(_NEW):
        return
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return
    open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    for keyword in call.keywords:
        name = keyword.arg
        if name is None or name in parameters:
            continue
        if not open_ended:
            yield keyword.value.lineno, f"{function.__name__}() takes no {name}; it takes {', '.join(parameters)}"
        elif "old" in parameters:
            from minitune.legacy.keywords import OLD_KEYWORDS

            if name not in getattr(function, "OLD_KEYWORDS", OLD_KEYWORDS):
                yield keyword.value.lineno, f"{function.__name__}() takes no {name}"


def _bad_values(call: ast.Call, function: Any) -> Iterator[LineMessage]:
    """The texts and lists in a call of minitune that will raise an error when the call runs, or have no effect."""
    if not (inspect.isroutine(function) or inspect.isclass(function)):
        return
    if not str(getattr(function, "__module__", "")).startswith(_NEW):
        return
    for name, node in _arguments(call, function):
        try:
            value = ast.literal_eval(node)
        except ValueError:  # it is known only at run time
            continue
        try:
            if name == "address" or name == "redis_address":
                if check_address(value) is not None:
                    yield node.lineno, _Remark(ON_THIS_MACHINE)
            elif name in _PATHS and isinstance(value, str):
                local_path(value)
            elif name == "storage_filesystem":
                refuse_out_of_scope(value)
            elif name == "export_formats" and value:
                yield node.lineno, _Remark("export_formats has no effect: write what you need into a checkpoint")
        except ValueError as error:
            yield node.lineno, f"{function.__name__}() will fail: {one_line(str(error))}"


def _arguments(call: ast.Call, function: Any) -> Iterator[tuple[str, ast.expr]]:
    """The arguments of a call, each with the name of its parameter."""
    try:
        positional = [name for name in inspect.signature(function).parameters if name != "self"]
    except (TypeError, ValueError):
        positional = []
    for name, node in zip(positional, call.args, strict=False):
        if isinstance(node, ast.Starred):
            break
        yield name, node
    for keyword in call.keywords:
        if keyword.arg is not None:
            yield keyword.arg, keyword.value
