"""Sweep files of `minitune run`: a part of the format of the sweeps of Weights & Biases, in YAML.

A key means what it means there. A key that has no meaning here, such as `project`, is ignored with a note. Any other
key or value that minitune does not have is an error that names it.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice, product
from typing import TYPE_CHECKING, Any, Literal

from minitune.base.checks import did_you_mean, is_whole, shown
from minitune.base.files import open_to_read
from minitune.commands.sweep_parameters import SweepParameter, check_keys, number, one_of, read_parameters
from minitune.space.domains import GRID_KEY, is_grid

if TYPE_CHECKING:
    from minitune.trainable.command_line import CommandLine, Word

_IGNORED = ("apiVersion", "kind", "project", "entity", "description", "controller")
"""Keys that concern the service of W&B alone."""
_READ = ("name", "program", "command", "method", "metric", "parameters", "early_terminate", "run_cap")
_SEARCHERS = {"grid": None, "random": None, "bayes": "auto"}
"""The searcher for each `method`."""
_MODES: dict[str, Literal["min", "max"]] = {"minimize": "min", "maximize": "max"}
_DEFAULT_COMMAND = ("${env}", "${interpreter}", "${program}", "${args}")
_MOST_RUNGS = 100
"""The largest number of brackets of `early_terminate`, as there."""
_FOREVER = 10**9
"""The largest number of reports, for `early_terminate` without `max_iter`."""
_ROUNDING = 1e-9
_DEEPEST = 50
_MOST_MEMBERS = 1_000_000
"""How deep a value may be nested, and how many members it may have. An alias counts as often as it is used."""


@dataclass(frozen=True)
class SweepFile:
    """What a sweep file says, in terms of this package.

    Attributes:
        points: The points of the grid that are tried if they are not all, or None. The domains are choices then.
    """

    command: CommandLine | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    metric: str | None = None
    mode: Literal["min", "max"] | None = None
    target: float | None = None
    search: str | None = None
    points: list[dict[str, Any]] | None = None
    stops_early: dict[str, Any] | None = None
    num_samples: int | None = None
    name: str | None = None
    ignored: tuple[str, ...] = ()


def is_sweep_file(path: str) -> bool:
    """Whether this may be the name of a sweep file."""
    return path.endswith((".yaml", ".yml"))


def read_sweep(path: str, num_samples: int | None = None) -> SweepFile:
    """Read a sweep file.

    Raises:
        ImportError: If PyYAML is missing.
        ValueError: If it is no sweep, or has something that minitune lacks. The text names the file and the key.
    """
    content = _load(path)
    try:
        return _sweep(content, num_samples)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from None


def _load(path: str) -> Any:
    try:
        with open_to_read(path) as file:
            data = file.read()
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no sweep file {path}") from None
    try:
        import yaml
    except ImportError:
        raise ImportError("a sweep file needs PyYAML: pip install PyYAML") from None
    try:
        return yaml.safe_load(data.decode("utf-8-sig"))
    except RecursionError:
        raise ValueError(f"{path} cannot be read: it is nested too deeply") from None
    except Exception as error:  # PyYAML raises errors of many classes, such as IndexError for `!!int ""`
        raise ValueError(f"{path} cannot be read: {' '.join(str(error).split())}") from None


def _sweep(content: Any, num_samples: int | None) -> SweepFile:
    check_keys(content, "the file", (*_READ, *_IGNORED))
    _check_extent(content)
    method = content.get("method")
    one_of("method", method, _SEARCHERS)
    parameters = read_parameters(content.get("parameters"), is_grid=method == "grid")
    space = {parameter.name: parameter.domain for parameter in parameters}
    ignored = [key for key in _IGNORED if key in content]
    metric, mode, target = _metric(content.get("metric"))
    cap = content.get("run_cap")
    if cap is not None and not (is_whole(cap) and cap > 0):
        raise ValueError(f"run_cap must be a whole number above 0, but got {shown(cap)}")
    points = None
    if method == "grid":
        if num_samples is None and cap is not None and cap < _grid_size(space):
            space, points = _first_points(space, cap)
        else:
            cap = 1  # each sample covers the grid
    return SweepFile(
        command=_command(content, parameters),
        parameters=space,
        metric=metric,
        mode=mode,
        target=target,
        search=_SEARCHERS[method],
        points=points,
        stops_early=_early_terminate(content.get("early_terminate")),
        num_samples=cap if num_samples is None else num_samples,
        name=_name(content.get("name"), ignored),
        ignored=tuple(ignored),
    )


def _check_extent(content: Any) -> None:
    """Refuse what takes no end to read, such as a list that contains itself or aliases of aliases."""
    members = 0
    waiting = [(content, 1)]
    while waiting:
        one, depth = waiting.pop()
        if isinstance(one, Mapping):
            one = list(one.values())
        if not isinstance(one, list):
            continue
        members += len(one)
        if depth > _DEEPEST:
            raise ValueError(f"the file is nested too deeply: {_DEEPEST} levels are possible")
        if members > _MOST_MEMBERS:
            raise ValueError(f"the file has too many values: {_MOST_MEMBERS} are possible, counted with aliases")
        waiting += [(member, depth + 1) for member in one]


def _name(given: Any, ignored: list[str]) -> str | None:
    """The name of the run."""
    from minitune.record.layout import check_run_name

    if given is None:
        return None
    if not isinstance(given, (str, int, float)):
        raise ValueError(f"name must be a text, but got {shown(given)}")
    try:
        return check_run_name(str(given))
    except ValueError:
        ignored.append("name")
        return None


def _metric(given: Any) -> tuple[str | None, Literal["min", "max"] | None, float | None]:
    if given is None:
        return None, None, None
    check_keys(given, "metric", ("name", "goal", "target"))
    if not isinstance(given.get("name"), str):
        raise ValueError(f"metric.name must be a text, but got {shown(given.get('name'))}")
    goal = given.get("goal", "minimize")
    one_of("metric.goal", goal, _MODES)
    target = given.get("target")
    if target is not None:
        target = number(target, "metric.target")
    return given["name"], _MODES[goal], target


# -- the grid ----------------------------------------------------------------------------------------------------------
def _grid_size(space: Mapping[str, Any]) -> int:
    return math.prod(len(domain[GRID_KEY]) for domain in space.values() if is_grid(domain))


def _first_points(space: Mapping[str, Any], count: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A part of a grid: the space with choices in place of grids, and the first points, in the order of a whole
    grid.
    """
    import minitune as tune

    if count > _MOST_MEMBERS:
        raise ValueError(f"run_cap must be at most {_MOST_MEMBERS}, or cover the grid, but got {count}")
    names = sorted((name for name, domain in space.items() if is_grid(domain)), reverse=True)
    # The first name varies fastest, so it is the last factor.
    factors = product(*(space[name][GRID_KEY] for name in names))
    points = [dict(zip(names, values, strict=True)) for values in islice(factors, count)]
    choices = {name: tune.choice(space[name][GRID_KEY]) for name in names}
    return {**space, **choices}, points


# -- the command -------------------------------------------------------------------------------------------------------
def _command(content: Mapping[str, Any], parameters: list[SweepParameter]) -> CommandLine:
    from minitune.trainable.command_line import CommandLine

    given = content.get("command", list(_DEFAULT_COMMAND))
    # W&B takes a list; a text is split at spaces, without quotes.
    words = given
    if isinstance(given, str):
        words = given.split()
    if not isinstance(words, list) or not words:
        raise ValueError(f"command must be a list of words, but got {shown(given)}")
    macros = _macros(content.get("program"), parameters)
    made: list[Word] = []
    for word in words:
        if isinstance(word, bool) or not isinstance(word, (str, int, float)):
            raise ValueError(f"a word of command must be a text, but got {shown(word)}; put it into quotes")
        text = str(word)
        if "\0" in text:
            raise ValueError(f"a word of command must have no NUL, but got {shown(text)}")
        if text in macros:
            made += macros[text]()
        elif re.fullmatch(r"\$\{\w+\}", text):
            known = [*macros, "${envvar:NAME}"]
            raise ValueError(
                f"minitune does not have {text} of command{did_you_mean(text, known)}; it has {', '.join(known)}"
            )
        else:  # as there, a variable may stand inside a word, and the other names may not
            made.append((re.sub(r"\$\{envvar:(.*?)\}", _variable, text),))
    if all(isinstance(part, str) for word in made for part in word):
        raise ValueError(
            "command passes no parameter to the program, and nothing fills wandb.config here; add a word ${args}"
        )
    return CommandLine(tuple(made))


def _macros(program: Any, parameters: list[SweepParameter]) -> dict[str, Callable[[], list[Word]]]:
    """What makes the words that stand for each macro."""
    from minitune.trainable.command_line import FlagSlot, JsonSlot, ParameterSlot, slot_of

    slots = [slot_of(parameter.name, parameter.domain) for parameter in parameters]
    members: dict[str, Any] = {}
    for slot, parameter in zip(slots, parameters, strict=True):
        inner = members
        for key in parameter.keys[:-1]:
            inner = inner.setdefault(key, {})
        inner[parameter.keys[-1]] = slot

    def program_word() -> list[Word]:
        if not isinstance(program, str) or not program or "\0" in program:
            raise ValueError(f"program must be the path of the script, but got {shown(program)}")
        return [(program,)]

    def pairs(prefix: str) -> list[Word]:
        return [(f"{prefix}{slot.name}=", slot) for slot in slots]

    def split_pairs() -> list[Word]:
        words: list[tuple[str | ParameterSlot, ...]] = []
        for slot in slots:
            words += [(f"--{slot.name}",), (slot,)]
        return [*words]

    return {
        "${env}": lambda: [("/usr/bin/env",)],
        "${interpreter}": lambda: [("python",)],
        "${program}": program_word,
        "${args}": lambda: pairs("--"),
        "${args_no_hyphens}": lambda: pairs(""),
        "${args_no_equals}": split_pairs,
        "${args_no_boolean_flags}": lambda: [FlagSlot(f"--{slot.name}", slot) for slot in slots],
        "${args_json}": lambda: [(JsonSlot(members),)],
    }


def _variable(found: re.Match[str]) -> str:
    """The value of the environment variable that a word names."""
    name = found[1]
    if name not in os.environ:
        raise ValueError(f"command: there is no environment variable {name}")
    return os.environ[name]


# -- early stopping ----------------------------------------------------------------------------------------------------
def _early_terminate(given: Any) -> dict[str, Any] | None:
    """The arguments of `ASHAScheduler`.

    The brackets are max_iter / eta, max_iter / eta**2, ..., `s` of them; or without `s`, min_iter, min_iter * eta, ...
    """
    if given is None:
        return None
    check_keys(given, "early_terminate", ("type", "min_iter", "max_iter", "s", "eta", "strict"))
    one_of("early_terminate.type", given.get("type"), ("hyperband",))
    strict = given.get("strict", True)
    if strict is not True:  # there, a trial would be compared by its best value so far; see `ASHAScheduler`
        raise ValueError(f"early_terminate.strict must be true, but got {shown(strict)}")
    numbers = {name: number(given[name], f"early_terminate.{name}") for name in given if name not in ("type", "strict")}
    for name, value in numbers.items():
        least = 1 if name == "eta" else 0
        if not least < value <= _FOREVER:
            rule = f"a number above {least} and at most {_FOREVER}"
            raise ValueError(f"early_terminate.{name} must be {rule}, but got {shown(value)}")
    eta = numbers.get("eta", 3)
    first = numbers.get("min_iter")
    end = numbers.get("max_iter")
    if end is None:
        if first is None:
            raise ValueError("early_terminate needs min_iter, or max_iter and s")
        rungs = min(_MOST_RUNGS, math.log(_FOREVER) / math.log(eta))
        end = first * eta**rungs
    elif first is None or "s" in numbers:
        # The smallest bracket is the grace period of ASHA.
        rungs = min(_MOST_RUNGS, math.log(max(end, 1)) / math.log(eta), numbers.get("s", _MOST_RUNGS))
        first = end / eta ** math.floor(rungs + _ROUNDING)
    elif first > end:
        raise ValueError(f"early_terminate.min_iter must be at most max_iter, but got {first} and {end}")
    return {"max_t": end, "grace_period": first, "reduction_factor": eta, "stop_last_trials": False}
