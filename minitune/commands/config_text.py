"""A configuration as the text of a file or of a command line: YAML, JSON, or options."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from minitune.base import json_text
from minitune.result import flatten
from minitune.trainable.command_line import argument_of

CONFIG_FORMS = ("yaml", "json", "args")

_PLAIN_KEY = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
_WORDS_OF_YAML = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))
"""Texts that YAML 1.1 reads as something else."""


def config_text(config: Mapping[str, Any], form: str) -> str:
    """A configuration in one of `CONFIG_FORMS`, without a newline at the end. Values that are no plain data are texts.

    As options, a parameter within a dict has a name such as `--optimizer.lr`.
    """
    if form == "json":
        return json_text.dumps_pretty(config)
    if form == "args":
        words = []
        for name, value in flatten(config, delimiter=".").items():
            words += [f"--{name}", argument_of(value)]
        return shlex.join(words)
    # Through JSON, so that numbers of numpy and other values have the same texts as there.
    return "\n".join(_yaml_lines(json.loads(json_text.dumps(config)), "")) or "{}"


def _yaml_lines(values: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, value in values.items():
        name = _yaml_key(key)
        if isinstance(value, dict) and value:
            yield f"{indent}{name}:"
            yield from _yaml_lines(value, indent + "  ")
        else:
            yield f"{indent}{name}: {_yaml_value(value)}"


def _yaml_key(key: str) -> str:
    if _PLAIN_KEY.fullmatch(key) and key.lower() not in _WORDS_OF_YAML:
        return key
    return json.dumps(key)


def _yaml_value(value: Any) -> str:
    """A value on one line. JSON is YAML, except for floats: YAML 1.1 reads 1e-05 as a text."""
    if isinstance(value, list):
        return f"[{', '.join(map(_yaml_value, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_yaml_key(key)}: {_yaml_value(part)}' for key, part in value.items())}}}"
    if not isinstance(value, float):
        return json.dumps(value)
    text = repr(value)
    if "e" in text and "." not in text:
        return text.replace("e", ".0e")
    return text
