"""A command line with parameters in it: `python train.py --lr '{lr: loguniform(1e-4, 1e-1)}'`.

In a word, `{name: domain}` stands for a value of that domain, and `{name}` for the same value again. Other braces are
plain text, so JSON arrives as it is; `{{name}}` is the text `{name}`. A domain is a call of a function of this package
with literal arguments, such as `choice(["relu", "tanh"])`. It is read with Python's parser and never evaluated.
"""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from minitune.base.checks import did_you_mean, shown
from minitune.space import domains

DOMAINS = (
    "uniform",
    "quniform",
    "loguniform",
    "qloguniform",
    "randn",
    "qrandn",
    "randint",
    "qrandint",
    "lograndint",
    "qlograndint",
    "choice",
    "grid_search",
)
"""The functions that a domain may call."""
OF_THE_TRIAL = ("trial_dir", "seed")
"""Names that every command line may use: the trial's directory, and its seed. Parameters come first."""
_NAME = r"[A-Za-z_][\w.-]*"
_IN_BRACES = re.compile(rf"\{{\{{(?P<plain>{_NAME}\s*(?::[^{{}}]*)?)\}}\}}|\{{(?P<name>{_NAME})\s*(?P<sign>[:}}])")
_NO_EXPRESSION = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What Python's parser raises for a text that is no expression."""


class ParameterSlot(NamedTuple):
    """Where a parameter's value stands in a word."""

    name: str


Word: TypeAlias = "tuple[str | ParameterSlot, ...]"
"""The parts of a word in their order."""


@dataclass(frozen=True)
class CommandLine:
    """The words of a command, with slots for values."""

    words: tuple[Word, ...]

    def filled(self, config: Mapping[str, Any], trial_dir: str, seed: object) -> list[str]:
        """The words with values in their slots, for a new process."""
        values = {"trial_dir": trial_dir, "seed": seed, **config}
        return [
            "".join(part if isinstance(part, str) else argument_of(values[part.name]) for part in word)
            for word in self.words
        ]

    @property
    def name(self) -> str:
        """A short name: that of the script or of Python's module, if there is one, else that of the program."""
        words = [word[0] for word in self.words[:3] if isinstance(word[0], str)]
        if len(words) > 2 and words[1] == "-m":  # of Python
            return words[2].replace(".", "_")
        scripts = [word for word in words if re.search(r"\.[a-z]+$", word)]  # not python3.13
        chosen = [*scripts, *words, ""][0]
        return re.sub(r"[^\w-]+", "_", os.path.splitext(os.path.basename(chosen))[0]) or "program"


def argument_of(value: Any) -> str:
    """A value as an argument: a text as it is, a list or a dict as JSON, everything else as Python prints it."""
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple, dict)):
        return json.dumps(value)
    return str(value)


def read_command(words: Sequence[str]) -> tuple[CommandLine, dict[str, Any]]:
    """Read the words of a command with parameters; return the command line, and the search space.

    Raises:
        ValueError: If a domain cannot be read, or a parameter has none or two.
    """
    if not words:
        raise ValueError("a command is needed: minitune run -- python train.py --lr '{lr: loguniform(1e-4, 1e-1)}'")
    space: dict[str, Any] = {}
    read = []
    for word in words:
        parts: list[str | ParameterSlot] = []
        for part, domain in _parts(word):
            if domain is not None and isinstance(part, ParameterSlot):
                if part.name in space:
                    raise ValueError(
                        f"parameter {part.name} has two domains; write {{{part.name}}} in the second place"
                    )
                space[part.name] = domain
            parts.append(part)
        read.append(tuple(parts))
    slots = {part.name for parts in read for part in parts if isinstance(part, ParameterSlot)}
    for name in sorted(slots - set(OF_THE_TRIAL)):
        if name not in space:
            raise ValueError(
                f"parameter {name} has no domain{did_you_mean(name, [*space, *OF_THE_TRIAL])}: write "
                f"{{{name}: uniform(0, 1)}}; {{{{{name}}}}} is the plain text {{{name}}}"
            )
    return CommandLine(tuple(read)), space


def _parts(word: str) -> Iterator[tuple[str | ParameterSlot, Any]]:
    """The parts of a word, in order, each with its domain; None without one."""
    position = 0
    while found := _IN_BRACES.search(word, position):
        if found.start() > position:
            yield word[position : found.start()], None
        position = found.end()
        if found["plain"]:
            yield f"{{{found['plain']}}}", None
        elif found["sign"] == "}":
            yield ParameterSlot(found["name"]), None
        else:
            end = _end_of_domain(word, position)
            if end < 0:
                raise ValueError(f"parameter {found['name']}: the brace is not closed in {word!r}")
            text = word[position:end]
            yield ParameterSlot(found["name"]), _read_domain(text, found["name"])
            position = end + 1
    if position < len(word) or not word:
        yield word[position:], None


def _end_of_domain(word: str, start: int) -> int:
    """The position of the brace that closes a domain: the first one before which there is a whole expression."""
    end = word.find("}", start)
    first = end
    while end >= 0:
        try:
            ast.parse(word[start:end].strip(), mode="eval")
            return end
        except _NO_EXPRESSION:  # the brace is inside a text or a dict
            end = word.find("}", end + 1)
    return first


def _read_domain(text: str, name: str) -> Any:
    """Read a domain, such as `loguniform(1e-4, 1e-1)`.

    Raises:
        ValueError: If the text is anything else, or the function refuses the arguments.
    """
    text = text.strip()
    start = f"parameter {name}: expected a domain such as loguniform(1e-4, 1e-1) or choice([1, 2])"
    try:
        call = ast.parse(text, mode="eval").body
    except _NO_EXPRESSION:
        raise ValueError(f"{start}, but got {shown(text)}") from None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise ValueError(f"{start}, but got {text!r}; {{{{{name}: ...}}}} is plain text")
    function = call.func.id
    if function not in DOMAINS:
        raise ValueError(
            f"parameter {name}: there is no domain {function!r}{did_you_mean(function, DOMAINS)}; "
            f"there are {', '.join(DOMAINS)}"
        )
    args = [_literal(part, name) for part in call.args]
    named = {part.arg or "**": _literal(part.value, name) for part in call.keywords}
    try:
        return getattr(domains, function)(*args, **named)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"parameter {name}: {text}: {error}") from None


def _literal(node: ast.expr, name: str) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise ValueError(
            f"parameter {name}: arguments of a domain are literals, such as 0.1, True, 'relu' or [1, 2], but got "
            f"{ast.unparse(node)}"
        ) from None
