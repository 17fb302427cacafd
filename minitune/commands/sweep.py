"""Sweep files of `minitune run`: the format of the sweeps of Weights & Biases, as YAML or TOML.

A key means what it means there. A key or a value that minitune does not have is an error that names it.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from minitune.base.checks import did_you_mean, is_whole, shown
from minitune.space.domains import is_grid

_KEYS = ("name", "description", "program", "command", "method", "metric", "parameters", "early_terminate", "run_cap")
_SEARCHERS = {"grid": None, "random": None, "bayes": "auto"}
"""The searcher for each `method`."""
_MODES: dict[str, Literal["min", "max"]] = {"minimize": "min", "maximize": "max"}
_DEFAULT_COMMAND = ("${env}", "${interpreter}", "${program}", "${args}")
_WORDS = {"${env}": "/usr/bin/env", "${interpreter}": "python"}
_FOREVER = 10**9
"""The largest number of reports, for `early_terminate` without `max_iter`."""


@dataclass(frozen=True)
class SweepFile:
    """What a sweep file says, in terms of this package.

    Attributes:
        command: The words of the command, with places for parameters; empty without a file.
        parameters: The domain of each parameter.
        metric: The metric to optimise, or None.
        mode: `min` or `max`, or None.
        search: The name of the searcher, or None.
        stops_early: Arguments of `ASHAScheduler`, or None.
        num_samples: The number of samples; None if the file sets no limit.
        name: The name of the run, or None.
    """

    command: list[str] = field(default_factory=list)
    parameters: dict[str, Any] = field(default_factory=dict)
    metric: str | None = None
    mode: Literal["min", "max"] | None = None
    search: str | None = None
    stops_early: dict[str, Any] | None = None
    num_samples: int | None = None
    name: str | None = None


def is_sweep_file(path: str) -> bool:
    """Whether this may be the name of a sweep file."""
    return path.endswith((".yaml", ".yml", ".toml"))


def read_sweep(path: str) -> SweepFile:
    """Read a sweep file.

    Raises:
        OSError: If there is no such file.
        ImportError: If the library for its format is missing.
        ValueError: If it is no sweep, or has something that minitune lacks. The text names the file and the key.
    """
    content = _load(path)
    try:
        return _sweep(content)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from None


def _load(path: str) -> Any:
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no sweep file {path}") from None
    load, errors = _toml() if path.endswith(".toml") else _yaml()
    try:
        return load(data.decode())
    except errors as error:
        raise ValueError(f"{path} cannot be read: {' '.join(str(error).split())}") from None


def _yaml() -> tuple[Callable[[str], Any], tuple[type[Exception], ...]]:
    try:
        import yaml
    except ImportError:
        raise ImportError("a sweep file in YAML needs PyYAML: pip install 'minitune[sweep]'") from None
    return yaml.safe_load, (yaml.YAMLError, ValueError)  # ValueError: no UTF-8, no such date


def _toml() -> tuple[Callable[[str], Any], tuple[type[Exception], ...]]:
    try:
        import tomllib
    except ImportError:  # Python 3.10
        try:
            import tomli as tomllib
        except ImportError:
            raise ImportError("a sweep file in TOML needs tomli here: pip install 'minitune[sweep]'") from None
    return tomllib.loads, (ValueError,)  # its own error is one, too


def _sweep(content: Any) -> SweepFile:
    _check_keys(content, "the file", _KEYS)
    method = content.get("method")
    _one_of("method", method, _SEARCHERS)
    parameters = content.get("parameters")
    if not isinstance(parameters, Mapping) or not parameters:
        raise ValueError(f"parameters must be a mapping of names to domains, but got {shown(parameters)}")
    tries_all = method == "grid"
    space = {str(name): _domain(given, f"parameters.{name}", tries_all) for name, given in parameters.items()}
    metric, mode = _metric(content.get("metric"))
    cap = content.get("run_cap")
    if cap is not None and not (is_whole(cap) and cap > 0):
        raise ValueError(f"run_cap must be a whole number above 0, but got {shown(cap)}")
    if tries_all:
        points = math.prod(len(domain["grid_search"]) for domain in space.values() if is_grid(domain))
        if cap is not None and cap < points:
            raise ValueError(f"run_cap must be at least {points}: method grid tries all its points, but got {cap}")
        # There a cap limits the trials. Here a sample is a round of the whole grid, so a smaller cap could not be kept.
        cap = 1  # each sample covers the grid
    name = content.get("name")
    return SweepFile(
        command=_command(content, list(space)),
        parameters=space,
        metric=metric,
        mode=mode,
        search=_SEARCHERS[method],
        stops_early=_early_terminate(content.get("early_terminate")),
        num_samples=cap,
        name=None if name is None else str(name),
    )


def _check_keys(given: Any, where: str, known: tuple[str, ...]) -> None:
    if not isinstance(given, Mapping):
        raise ValueError(f"{where} must be a mapping, but got {shown(given)}")
    for key in given:
        if key not in known:
            raise ValueError(
                f"minitune does not have the key {key!r} of {where}{did_you_mean(str(key), known)}; it has "
                f"{', '.join(known)}"
            )


def _one_of(key: str, value: Any, known: Mapping[str, Any]) -> None:
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{key} must be one of {', '.join(known)}, but got {shown(value)}")


def _metric(given: Any) -> tuple[str | None, Literal["min", "max"] | None]:
    if given is None:
        return None, None
    _check_keys(given, "metric", ("name", "goal"))
    if not isinstance(given.get("name"), str):
        raise ValueError(f"metric.name must be a text, but got {shown(given.get('name'))}")
    goal = given.get("goal", "minimize")
    _one_of("metric.goal", goal, _MODES)
    return given["name"], _MODES[goal]


# -- the command -------------------------------------------------------------------------------------------------------
def _command(content: Mapping[str, Any], names: list[str]) -> list[str]:
    """The words of the command, with `{name}` for each parameter."""
    program = content.get("program")
    given = content.get("command", list(_DEFAULT_COMMAND))
    # W&B takes a list; a text is split at spaces, without quotes.
    words = given
    if isinstance(given, str):
        words = given.split()
    if not isinstance(words, list) or not words:
        raise ValueError(f"command must be a list of words, but got {shown(given)}")
    made: list[str] = []
    for given_word in words:
        # as there, a variable may stand inside a word, and the other names may not
        word = re.sub(r"\$\{envvar:(.*?)\}", _variable, str(given_word))
        if word == "${args}":
            made += [f"--{name}={{{name}}}" for name in names]
        elif word == "${args_no_hyphens}":
            made += [f"{name}={{{name}}}" for name in names]
        elif word == "${program}":
            if not isinstance(program, str):
                raise ValueError(f"program must be the path of the script, but got {shown(program)}")
            made.append(program)
        elif word.startswith("${") and word not in _WORDS:
            known = [*_WORDS, "${program}", "${args}", "${args_no_hyphens}", "${envvar:NAME}"]
            raise ValueError(f"minitune does not have {word} of command; it has {', '.join(known)}")
        else:
            made.append(_WORDS.get(word, word))
    return made


def _variable(found: re.Match[str]) -> str:
    """The value of the environment variable that a word names."""
    name = found[1]
    if name not in os.environ:
        raise ValueError(f"command: there is no environment variable {name}")
    return os.environ[name]


# -- parameters --------------------------------------------------------------------------------------------------------
_DISTRIBUTION = "distribution"
_RANGE = ("min", "max")
_KEYS_OF = {
    "constant": ("value",),
    "categorical": ("values",),
    "int_uniform": _RANGE,
    "uniform": _RANGE,
    "q_uniform": (*_RANGE, "q"),
    "log_uniform": _RANGE,
    "log_uniform_values": _RANGE,
    "q_log_uniform": (*_RANGE, "q"),
    "q_log_uniform_values": (*_RANGE, "q"),
    "normal": ("mu", "sigma"),
    "q_normal": ("mu", "sigma", "q"),
}
"""The keys of each distribution."""
_DEFAULTS = {"q": 1, "mu": 0, "sigma": 1}


def _kind(given: Any, key: str) -> str:
    """The distribution of a parameter, which may follow from its other keys."""
    # An unknown distribution has unknown keys, too. Its name says more.
    if isinstance(given, Mapping) and _DISTRIBUTION in given:
        _one_of(f"{key}.{_DISTRIBUTION}", given[_DISTRIBUTION], _KEYS_OF)
    _check_keys(given, key, (_DISTRIBUTION, "value", "values", *_RANGE, *_DEFAULTS))
    if _DISTRIBUTION in given:
        kind = str(given[_DISTRIBUTION])
    elif "value" in given:
        kind = "constant"
    elif "values" in given:
        kind = "categorical"
    else:
        # As there: two whole numbers make an int_uniform.
        kind = "uniform"
        if all(is_whole(given.get(name)) for name in _RANGE):
            kind = "int_uniform"
    needed = _KEYS_OF[kind]
    # A key of another distribution was meant to do something. If it were ignored, another space would be searched.
    for name in given:
        if name not in (*needed, _DISTRIBUTION):
            raise ValueError(f"{key}: distribution {kind} takes {', '.join(needed)}, but got {name}")
    for name in needed:
        if name not in given and name not in _DEFAULTS:
            raise ValueError(f"{key}: distribution {kind} needs {name}")
    return kind


def _domain(given: Any, key: str, tries_all: bool) -> Any:
    """The domain of a parameter, or its value if it is a constant."""
    import minitune as tune

    kind = _kind(given, key)
    if kind == "constant":
        return given["value"]
    if kind == "categorical":
        values = given["values"]
        if not isinstance(values, list) or not values:
            raise ValueError(f"{key}.values must be a list of values, but got {shown(values)}")
        if tries_all:
            return tune.grid_search(values)
        return tune.choice(values)
    number = {name: _number(given.get(name, _DEFAULTS.get(name)), f"{key}.{name}") for name in _KEYS_OF[kind]}
    if "min" in number and number["min"] > number["max"]:
        raise ValueError(f"{key}.min must be at most max, but got {number['min']} and {number['max']}")
    if "q" in number and not number["q"] > 0:
        raise ValueError(f"{key}.q must be a number above 0, but got {number['q']}")
    if kind == "int_uniform":
        first = _whole(number["min"], f"{key}.min")
        last = _whole(number["max"], f"{key}.max")
        if tries_all:
            return tune.grid_search(range(first, last + 1))
        return tune.randint(first, last + 1)
    if tries_all:
        raise ValueError(f"{key}: method grid needs values, but got distribution {kind}")
    try:
        if kind in ("normal", "q_normal"):
            make = tune.randn if kind == "normal" else tune.qrandn
            return make(number["mu"], number["sigma"], *([number["q"]] if "q" in number else []))
        low = number["min"]
        high = number["max"]
        if kind in ("log_uniform", "q_log_uniform"):  # there, the bounds are logarithms
            # OverflowError: the error below names the key.
            low = math.exp(low)
            high = math.exp(high)
        if "q" in number:
            return _steps(low, high, number["q"], is_log=kind != "q_uniform")
        if kind == "uniform":
            return tune.uniform(low, high)
        return tune.loguniform(low, high)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"{key}: {error}") from None


def _steps(low: float, high: float, q: float, *, is_log: bool) -> Any:
    """The domain of the multiples of `q` to which a number from [low, high] may be rounded.

    There, a draw is rounded, so a bound need be no multiple; and a whole `q` makes whole numbers.
    """
    import minitune as tune

    low = round(low / q) * q
    high = round(high / q) * q
    if is_log and low == 0:
        raise ValueError(f"the lower bound, rounded to a multiple of q={q}, must be above 0")
    if not is_whole(q):
        make = tune.qloguniform if is_log else tune.quniform
        return make(low, high, q)
    if q == 1:
        high += 1  # the functions below leave it out
    make_whole = tune.qlograndint if is_log else tune.qrandint
    return make_whole(int(low), int(high), int(q))


def _number(value: Any, key: str) -> float:
    """A number. YAML takes `1e-4`, without a point, for a text."""
    try:
        # `float(True)` would be 1.0.
        if isinstance(value, bool):
            raise TypeError
        if is_whole(value):
            return value
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{key} must be a number, but got {shown(value)}") from None


def _whole(value: float, key: str) -> int:
    if int(value) != value:
        raise ValueError(f"{key} must be a whole number, but got {value}")
    return int(value)


# -- early stopping ----------------------------------------------------------------------------------------------------
def _early_terminate(given: Any) -> dict[str, Any] | None:
    """The arguments of `ASHAScheduler`.

    The brackets are min_iter, min_iter * eta, ...; or max_iter / eta, max_iter / eta**2, ..., `s` of them.
    """
    if given is None:
        return None
    _check_keys(given, "early_terminate", ("type", "min_iter", "max_iter", "s", "eta"))
    _one_of("early_terminate.type", given.get("type"), {"hyperband": None})
    number = {name: _number(given[name], f"early_terminate.{name}") for name in given if name != "type"}
    for name, value in number.items():
        least = 1 if name == "eta" else 0
        if not least < value < math.inf:
            raise ValueError(f"early_terminate.{name} must be a number above {least}, but got {value}")
    eta = number.get("eta", 3)
    if ("min_iter" in number) == ("max_iter" in number):
        raise ValueError("early_terminate needs either min_iter, or max_iter and s")
    if "max_iter" in number:
        if "s" not in number:
            raise ValueError("early_terminate: max_iter needs s, the number of brackets")
        # W&B puts its brackets at max_iter / eta ** 1 ... s. The smallest one is the grace period of ASHA.
        most = number["max_iter"]
        grace = max(1, most / eta ** number["s"])
    else:
        if "s" in number:
            raise ValueError("early_terminate: s needs max_iter")
        most = _FOREVER
        grace = number["min_iter"]
    return {"max_t": most, "grace_period": grace, "reduction_factor": eta, "stop_last_trials": False}
