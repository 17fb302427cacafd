"""Sweep files of `minitune run`: a part of the format of the sweeps of Weights & Biases, in YAML.

A key means what it means there. A key that concerns the service of W&B alone, such as `project`, is ignored with a
note. Anything else that minitune does not have is an error that names it.

Parameters may be nested there. Here the space is flat, so `depth` below `model` is the parameter `model.depth`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from minitune.base.checks import did_you_mean, is_real, is_whole, shown
from minitune.space.domains import GRID_KEY, is_grid
from minitune.space.tree import has_unresolved_values

if TYPE_CHECKING:
    from minitune.trainable.command_line import CommandLine, Word

_IGNORED = ("apiVersion", "kind", "project", "entity", "description", "controller")
"""Keys that concern the service of W&B alone."""
_READ = ("name", "program", "command", "method", "metric", "parameters", "early_terminate", "run_cap")
_SEARCHERS = {"grid": None, "random": None, "bayes": "auto"}
"""The searcher for each `method`."""
_MODES: dict[str, Literal["min", "max"]] = {"minimize": "min", "maximize": "max"}
_DEFAULT_COMMAND = ("${env}", "${interpreter}", "${program}", "${args}")
_FOREVER = 10**9
"""The largest number of reports, for `early_terminate` without `max_iter`."""
_ROUNDING = 1e-9
_RANGE = ("min", "max")
_KEYS_OF = {
    "constant": ("value",),
    "categorical": ("values",),
    "int_uniform": _RANGE,
    "uniform": _RANGE,
    "log_uniform": _RANGE,
    "log_uniform_values": _RANGE,
}
"""The keys of each distribution."""


@dataclass(frozen=True)
class SweepFile:
    """What a sweep file says, in terms of this package.

    Attributes:
        target: The value of the metric that ends the run.
        stops_early: The arguments of `ASHAScheduler`, or None.
        ignored: The keys that mean nothing here.
    """

    command: CommandLine | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    metric: str | None = None
    mode: Literal["min", "max"] | None = None
    target: float | None = None
    search: str | None = None
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
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"{path}: {error}") from None


def _load(path: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise ImportError("a sweep file needs PyYAML: pip install PyYAML") from None
    try:
        with open(path, "rb") as file:
            return yaml.safe_load(file)
    except Exception as error:  # PyYAML raises errors of many classes, such as IndexError for `!!int ""`
        raise ValueError(f"{path} cannot be read: {' '.join(str(error).split())}") from None


def _sweep(content: Any, num_samples: int | None) -> SweepFile:
    _check_keys(content, "the file", (*_READ, *_IGNORED))
    method = content.get("method")
    _one_of("method", method, _SEARCHERS)
    space: dict[str, Any] = {}
    for key, domain in _parameters(content.get("parameters"), (), method == "grid"):
        if key in space:
            raise ValueError(f"parameters.{key} is there twice")
        space[key] = domain
    metric, mode, target = _metric(content.get("metric"))
    cap = content.get("run_cap")
    if cap is not None and not (is_whole(cap) and cap > 0):
        raise ValueError(f"run_cap must be a whole number above 0, but got {shown(cap)}")
    if method == "grid":
        size = math.prod(len(domain[GRID_KEY]) for domain in space.values() if is_grid(domain))
        if num_samples is None and cap is not None and cap < size:
            raise ValueError(
                f"run_cap must cover the grid of {size} points, but got {cap}; method random draws so many"
            )
        cap = 1  # each sample covers the grid
    name = content.get("name")
    if name is not None and not isinstance(name, str):
        raise ValueError(f"name must be a text, but got {shown(name)}")
    return SweepFile(
        command=_command(content, space),
        parameters=space,
        metric=metric,
        mode=mode,
        target=target,
        search=_SEARCHERS[method],
        stops_early=_early_terminate(content.get("early_terminate")),
        num_samples=cap if num_samples is None else num_samples,
        name=name,
        ignored=tuple(key for key in _IGNORED if key in content),
    )


def _check_keys(given: Any, where: str, known: Sequence[str]) -> None:
    if not isinstance(given, Mapping):
        raise ValueError(f"{where} must be a mapping, but got {shown(given)}")
    for key in given:
        if key not in known:
            hint = did_you_mean(key, known) if isinstance(key, str) else ""
            raise ValueError(f"minitune does not have the key {shown(key)} of {where}{hint}; it has {', '.join(known)}")


def _one_of(key: str, value: Any, known: Mapping[str, Any] | Sequence[str]) -> None:
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{key} must be one of {', '.join(known)}, but got {shown(value)}")


def _number(value: Any, key: str) -> float:
    """A finite number. YAML takes `1e-4`, without a point, for a text."""
    try:
        # `float(True)` would be 1.0.
        if isinstance(value, bool):
            raise TypeError
        if is_whole(value):
            return value
        found = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{key} must be a number, but got {shown(value)}") from None
    if not math.isfinite(found):
        raise ValueError(f"{key} must be a finite number, but got {found}")
    return found


def _metric(given: Any) -> tuple[str | None, Literal["min", "max"] | None, float | None]:
    if given is None:
        return None, None, None
    _check_keys(given, "metric", ("name", "goal", "target"))
    if not isinstance(given.get("name"), str):
        raise ValueError(f"metric.name must be a text, but got {shown(given.get('name'))}")
    goal = given.get("goal", "minimize")
    _one_of("metric.goal", goal, _MODES)
    target = given.get("target")
    return given["name"], _MODES[goal], None if target is None else _number(target, "metric.target")


# -- parameters --------------------------------------------------------------------------------------------------------
def _parameters(given: Any, above: tuple[str, ...], is_grid: bool) -> Iterator[tuple[str, Any]]:
    """The domain of each parameter, or its value if it is a constant, by its name."""
    where = ".".join(("parameters", *above))
    if not isinstance(given, Mapping) or not given:
        raise ValueError(f"{where} must be a mapping of names to domains, but got {shown(given)}")
    for key, content in given.items():
        if not (isinstance(key, str) and key and key.isprintable()) and not is_real(key):  # YAML takes `on` for true
            rule = "a text of characters that can be printed"
            raise ValueError(f"a name in {where} must be {rule}, but got {shown(key)}; put it into quotes")
        keys = (*above, str(key))
        name = ".".join(keys)
        if isinstance(content, Mapping) and "parameters" in content:
            _check_keys(content, f"parameters.{name}", ("parameters",))
            yield from _parameters(content["parameters"], keys, is_grid)
        else:
            yield name, _domain(content, f"parameters.{name}", is_grid)


def _domain(given: Any, key: str, is_grid: bool) -> Any:
    import minitune as tune

    kind = _kind(given, key)
    if kind == "constant":
        return _plain(given["value"], f"{key}.value")
    if kind == "categorical":
        values = given["values"]
        if not isinstance(values, list) or not values:
            raise ValueError(f"{key}.values must be a list of values, but got {shown(values)}")
        values = [_plain(value, f"{key}.values") for value in values]
        return tune.grid_search(values) if is_grid else tune.choice(values)
    if is_grid:
        raise ValueError(f"{key}: method grid needs values, but got distribution {kind}")
    low = _number(given["min"], f"{key}.min")
    high = _number(given["max"], f"{key}.max")
    try:
        return _range(kind, low, high)
    except OverflowError:
        raise ValueError(f"{key}: the numbers are too large for distribution {kind}") from None
    except (ValueError, TypeError) as error:
        raise ValueError(f"{key}: {error}") from None


def _range(kind: str, low: float, high: float) -> Any:
    import minitune as tune

    if low > high:
        raise ValueError(f"min must be at most max, but got {shown(low)} and {shown(high)}")
    if kind == "int_uniform":
        if not (int(low) == low and int(high) == high):
            raise ValueError(f"min and max must be whole numbers, but got {low} and {high}")
        return tune.randint(int(low), int(high) + 1)
    if kind == "uniform":
        return tune.uniform(low, high)
    if kind == "log_uniform":  # there, its bounds are logarithms
        low = math.exp(low)
        high = math.exp(high)
    return tune.loguniform(low, high)


def _kind(given: Any, key: str) -> str:
    """The distribution of a parameter, which may follow from its other keys."""
    if not isinstance(given, Mapping):
        raise ValueError(f"{key} must be a mapping, such as {{value: 3}}, but got {shown(given)}")
    kind = "uniform"
    if "distribution" in given:
        kind = given["distribution"]
        _one_of(f"{key}.distribution", kind, _KEYS_OF)
    elif "value" in given:
        kind = "constant"
    elif "values" in given:
        kind = "categorical"
    elif all(is_whole(given.get(name)) for name in _RANGE):  # as there
        kind = "int_uniform"
    # A key of another distribution was meant to do something. If it were ignored, another space would be searched.
    _check_keys(given, key, ("distribution", *_KEYS_OF[kind]))
    for name in _KEYS_OF[kind]:
        if name not in given:
            raise ValueError(f"{key}: distribution {kind} needs {name}")
    return kind


def _plain(value: Any, key: str) -> Any:
    """A value that JSON has, for the program. A date becomes its text."""
    plain = json.loads(json.dumps(value, default=str))
    if has_unresolved_values({key: plain}):
        raise ValueError(f"{key} must not hold a mapping of {GRID_KEY} alone, which minitune reads itself")
    return plain


# -- the command -------------------------------------------------------------------------------------------------------
def _command(content: Mapping[str, Any], space: Mapping[str, Any]) -> CommandLine:
    from minitune.trainable.command_line import CommandLine

    given = content.get("command", list(_DEFAULT_COMMAND))
    # W&B takes a list; a text is split at spaces, without quotes.
    words = given.split() if isinstance(given, str) else given
    if not isinstance(words, list) or not words:
        raise ValueError(f"command must be a list of words, but got {shown(given)}")
    macros = _macros(content.get("program"), space)
    made: list[Word] = []
    for word in words:
        if isinstance(word, bool) or not isinstance(word, (str, int, float)):
            raise ValueError(f"a word of command must be a text, but got {shown(word)}; put it into quotes")
        text = str(word)
        if "\0" in text:
            raise ValueError(f"a word of command must have no NUL, but got {shown(text)}")
        if text == "${program}" and not macros[text]:
            raise ValueError(f"program must be the path of the script, but got {shown(content.get('program'))}")
        if text in macros:
            made += macros[text]
        elif re.fullmatch(r"\$\{\w+\}", text) or "${envvar:" in text:
            hint = did_you_mean(text, macros)
            raise ValueError(f"minitune does not have {text} of command{hint}; it has {', '.join(macros)}")
        else:
            made.append((text,))
    if all(isinstance(part, str) for word in made for part in word):
        raise ValueError(
            "command passes no parameter to the program, and nothing fills wandb.config here; add a word ${args}"
        )
    return CommandLine(tuple(made))


def _macros(program: Any, space: Mapping[str, Any]) -> dict[str, list[Word]]:
    """The words that stand for each macro."""
    from minitune.trainable.command_line import ParameterSlot

    slots = [ParameterSlot(name) for name in space]
    has_program = isinstance(program, str) and program and "\0" not in program
    return {
        "${env}": [("/usr/bin/env",)],
        "${interpreter}": [("python",)],
        "${program}": [(program,)] if has_program else [],
        "${args}": [(f"--{slot.name}=", slot) for slot in slots],
        "${args_no_hyphens}": [(f"{slot.name}=", slot) for slot in slots],
        "${args_no_equals}": [word for slot in slots for word in ((f"--{slot.name}",), (slot,))],
    }


# -- early stopping ----------------------------------------------------------------------------------------------------
def _early_terminate(given: Any) -> dict[str, Any] | None:
    """The arguments of `ASHAScheduler`.

    The brackets are max_iter / eta, max_iter / eta**2, ..., `s` of them; or without `s`, min_iter, min_iter * eta, ...
    """
    if given is None:
        return None
    _check_keys(given, "early_terminate", ("type", "min_iter", "max_iter", "s", "eta", "strict"))
    _one_of("early_terminate.type", given.get("type"), ("hyperband",))
    strict = given.get("strict", True)
    if strict is not True:  # there, a trial would be compared by its best value so far; see `ASHAScheduler`
        raise ValueError(f"early_terminate.strict must be true, but got {shown(strict)}")
    numbers = {
        name: _number(given[name], f"early_terminate.{name}") for name in given if name not in ("type", "strict")
    }
    for name, value in numbers.items():
        least = 2 if name == "eta" else 1
        if not least <= value <= _FOREVER:
            rule = f"a number from {least} to {_FOREVER}"
            raise ValueError(f"early_terminate.{name} must be {rule}, but got {shown(value)}")
    eta = numbers.get("eta", 3)
    first = numbers.get("min_iter")
    end = numbers.get("max_iter")
    if end is None:
        if first is None:
            raise ValueError("early_terminate needs min_iter, or max_iter and s")
        end = _FOREVER
    elif first is None or "s" in numbers:
        # The smallest bracket is the grace period of ASHA.
        rungs = math.floor(math.log(end) / math.log(eta) + _ROUNDING)
        first = end / eta ** min(rungs, int(numbers.get("s", rungs)))
    elif first > end:
        raise ValueError(f"early_terminate.min_iter must be at most max_iter, but got {first} and {end}")
    return {"max_t": end, "grace_period": first, "reduction_factor": eta, "stop_last_trials": False}
