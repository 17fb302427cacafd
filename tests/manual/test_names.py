"""The arguments, commands and options that the texts name in backticks exist."""

import importlib
import inspect
import re

import pytest
from manual_pages import pages

from minitune.commands import cli

MODULES = ("minitune", "minitune.schedulers", "minitune.search", "minitune.stopper", "minitune.testing")
CALL = re.compile(r"(?<!\w)(\w+)\(([^()]*)")
by_page = pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)


def spans(page):
    """The texts in backticks of a page, outside of blocks."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"`([^`]+)`", text)


def public(name):
    """The public class or function of that name, or None."""
    for module in map(importlib.import_module, MODULES):
        if name in module.__all__:
            return getattr(module, name)
    return None


def test_arguments_are_those_of_the_signature():
    for page in pages():
        for span in spans(page):
            for name, arguments in CALL.findall(span):
                named = public(name)
                parameters = inspect.signature(named).parameters if callable(named) else {}
                if parameters and not any(entry.kind is entry.VAR_KEYWORD for entry in parameters.values()):
                    unknown = set(re.findall(r"(?<![\w\"])(\w+)=(?!=)", arguments)) - set(parameters)
                    assert not unknown, f"{page.name}: {span}: {name} does not take {unknown}"


def test_commands_have_the_options_that_are_named(capsys):
    for page in pages():
        for span in spans(page):
            if not span.startswith("minitune "):
                continue
            command = span.split()[1]
            if command.isupper() or command == "COMMAND":
                continue
            assert command in cli.COMMANDS, f"{page.name}: {span}"
            options = set(re.findall(r"(?<!\S)--?[a-z][\w-]*", span.partition(" -- ")[0]))
            if options:
                with pytest.raises(SystemExit):
                    cli.main([command, "--help"])
                text = capsys.readouterr().out
                assert options <= set(re.findall(r"--?[a-z][\w-]*", text)), f"{page.name}: {span}"
