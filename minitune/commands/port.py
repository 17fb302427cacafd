"""`minitune port` changes the imports of a script that uses Ray Tune, and lists the names that minitune lacks.

The command reads the script and does not run it. It looks up each name of Ray that the script imports or reaches by
attributes. It uses Python's own import system, so the list agrees with a run of the script. It compares the keywords of
calls with signatures. It does not see names that the script creates while it runs.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import importlib
import inspect
import io
import os
import sys
import tokenize
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from minitune.base.files import atomic_write
from minitune.commands import Commands

_OLD, _NEW = "ray", "minitune"

Place = tuple[int, str]
"""A line number of the script, and the message about it."""


def add_parser(commands: Commands) -> None:
    """Add the parser of `minitune port`."""
    parser = commands.add_parser(
        "port",
        description="Change the imports of a Ray Tune script to minitune: show the changes as a diff, and list the "
        "names that minitune does not have, with what to use instead. The script is not run.",
        epilog="The exit status is 0 if minitune has every name, 1 if some are missing. A package that a name needs "
        "and that is not installed here is listed, too, but does not count as missing.",
    )
    parser.add_argument("script", metavar="SCRIPT.py")
    parser.add_argument("--write", action="store_true", help="change the file instead of showing the diff")
    parser.set_defaults(command=port)


def port(options: argparse.Namespace) -> int:
    """Run `minitune port`: the diff goes to stdout, the list to stderr."""
    with tokenize.open(options.script) as file:
        source, encoding = file.read(), file.encoding
    try:
        tree = ast.parse(source, options.script)
    except SyntaxError as error:
        raise ValueError(f"{options.script}, line {error.lineno}: {error.msg}; it must be a Python script") from None
    changed, count = _with_new_imports(source, tree)
    found = sorted(set(_missing(ast.parse(changed))))  # before the file is changed, because this checks its syntax
    if options.write and count:
        with open(options.script, "rb") as raw:
            ends_lines_with = "\r\n" if b"\r\n" in raw.read() else "\n"
        atomic_write(os.path.realpath(options.script), changed.replace("\n", ends_lines_with).encode(encoding))
        print(f"{options.script}: changed {count} import{'s' if count > 1 else ''}")
    else:
        before, after = (io.StringIO(text).readlines() for text in (source, changed))
        sys.stdout.writelines(difflib.unified_diff(before, after, options.script, options.script))
    for line, text in found:
        print(f"{options.script}:{line}: {text}", file=sys.stderr)
    if not count:
        print(f"{options.script} imports nothing of Ray: nothing to change", file=sys.stderr)
    return 0 if all(isinstance(text, _Uninstalled) for _, text in found) else 1


def _with_new_imports(source: str, tree: ast.Module) -> tuple[str, int]:
    """The script with `minitune` in place of `ray` in its import statements, and the number of changes."""
    lines = io.StringIO(source).readlines()  # as `ast` counts them: splitlines() also splits at form feeds
    edits: list[tuple[int, int, int, str]] = []  # line, begin and end in bytes, new text
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                head, dot, rest = alias.name.partition(".")
                if head != _OLD:
                    continue
                new = f"{_NEW}{dot}{rest}" if alias.asname else f"{_NEW} as {_OLD}"
                edits.append((alias.lineno, alias.col_offset, alias.col_offset + len(alias.name), new))
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").split(".")[0] == _OLD:
            start = node.col_offset + len("from")
            for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                begin = lines[number - 1].encode().find(_OLD.encode(), start)
                if begin >= 0:
                    edits.append((number, begin, begin + len(_OLD), _NEW))
                    break
                start = 0  # this line ends in a backslash, or the name has letters that Python reads as these
    for number, begin, end, new in sorted(edits, reverse=True):
        line = lines[number - 1].encode()
        lines[number - 1] = (line[:begin] + new.encode() + line[end:]).decode()
    return "".join(lines), len(edits)


def _missing(tree: ast.Module) -> Iterator[Place]:
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
            name = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
            if isinstance(name, str) and name not in registered and _last_name(node.func) in ("run", "Tuner") and value:
                yield node.lineno, f"no trainable is registered as {name!r}; minitune does not have RLlib"


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _imported(path: str) -> tuple[Any, str]:
    """The module, or the reason why it does not exist."""
    try:
        return importlib.import_module(path), ""
    except ImportError as error:
        return None, _reason(error)


def _attribute(owner: Any, name: str) -> tuple[Any, str]:
    try:
        return getattr(owner, name), ""
    except (AttributeError, ImportError) as error:
        return None, _reason(error)


class _Uninstalled(str):
    """The message about a package that minitune needs for a name. The name itself is not missing."""


def _reason(error: AttributeError | ImportError) -> str:
    """Why minitune does not have a name, or which package the name needs."""
    package = (error.name or "").partition(".")[0] if isinstance(error, ImportError) else ""
    if package in ("", _NEW):
        return str(error)
    return _Uninstalled(f"this needs the package {package}, which cannot be imported here: {error}")


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


def _bad_keywords(call: ast.Call, function: Any) -> Iterator[Place]:
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
