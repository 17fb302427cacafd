"""What no argument may be: refused at once, with the rule, the value and a way out; see bad_values.txt."""

from __future__ import annotations

import datetime
import fnmatch
import inspect
import re
import sys
import types
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

import minitune
from minitune import schedulers, search, stopper
from minitune.config import Config
from minitune.error import TuneError

TABLE = Path(__file__).parent / "bad_values.txt"
PUBLIC = {name: getattr(module, name) for module in (minitune, stopper) for name in module.__all__}

OF_USERS = {
    "Tuner": "tuner",
    "Experiment": "Experiment",
    "Checkpoint": "checkpoint",
    "Result": "result",
    "ResultGrid": "grid",
    "ExperimentAnalysis": "analysis",
    "Study": "study",
}
"""Classes whose methods users call, where those of others are called by runs; and how the table calls an object."""

ACCEPTED = "nothing: it was accepted"

LEFT_OUT = {
    "Experiment.new_maker": "for the library",
    "Experiment.request": "for the library",
    "Result.of": "for the library",
    "ExperimentAnalysis.dataframe": "get_rows in a frame; needs pandas",
    "ResultGrid.get_dataframe": "get_rows in a frame; needs pandas",
    "ResultGrid.importances": "tests/visualization has its bad values",
    "ResultGrid.to_html": "likewise",
    "ResultGrid.show": "the same page; tests/visualization has its bad values",
    "ResultGrid.count": "of every sequence",
    "ResultGrid.index": "of every sequence",
}


@dataclass
class Section:
    """What is called, with which other arguments, and for each argument (name, bad value, error, text)."""

    path: str
    others: str
    rows: list[list[str]] = field(default_factory=list)


def _read():
    sections = []
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        heading = re.fullmatch(r"\[([\w.]+)\] ?(.*)", line)
        if heading:
            sections.append(Section(heading[1], heading[2]))
        elif line and not line.startswith("#"):
            sections[-1].rows.append(line.split(" | ", 3))
    return sections


SECTIONS = _read()


def f(config):
    """A trainable."""
    minitune.report({"x": 1}, checkpoint=minitune.Checkpoint.from_dict({}))


def other(config):
    """Another one."""
    return {"x": 1}


def _fit(storage, tune=None, run=None, trainable=f):
    run = run or minitune.RunConfig(storage_path=storage, verbose=0)
    return minitune.Tuner(trainable, tune_config=tune, run_config=run).fit()


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    """A run that has ended."""
    return _fit(tmp_path_factory.mktemp("done"), minitune.TuneConfig(executor="inline"))


@pytest.fixture
def names(grid, tmp_path, monkeypatch):
    """What the expressions of the table may name; IPython is among the modules."""
    monkeypatch.setenv("MINITUNE_EXECUTOR", "inline")
    for module in ("IPython", "IPython.display"):
        monkeypatch.setitem(sys.modules, module, types.ModuleType(module))

    def report(metrics=None, *, checkpoint=None, **legacy):
        """`report` in a trial; raises what it raises."""
        trainable = lambda config: minitune.report(metrics, checkpoint=checkpoint, **legacy)  # noqa: E731  # by value
        for error in _fit(tmp_path / "reports", trainable=trainable).errors:
            raise error.__cause__ or error

    storage = tmp_path / "minitune_results"
    storage.mkdir()
    analysis = minitune.ExperimentAnalysis(grid.experiment_path)
    known = {"f": f, "other": other, "datetime": datetime, "tmp": str(storage), "__file__": __file__, "report": report}
    known |= {"grid": grid, "result": grid[0], "run_path": grid.experiment_path, "trial_path": grid[0].path}
    known |= {"analysis": analysis, "trial": analysis.trials[0], "tuner": minitune.Tuner(f), "ref": minitune.put(1)}
    known |= {"searcher": minitune.Searcher(metric="x", mode="max"), "checkpoint": minitune.Checkpoint(storage)}
    known |= {"study": minitune.Study({"x": 1}), "asked": {"x": 1}}
    known["study"].ask()
    others = {name: getattr(module, name) for module in (schedulers, search) for name in module.__all__}
    yield {**others, **PUBLIC, **known}
    minitune.shutdown()


def _call(section, given, names):
    """Call it; what configures a run is used in one."""
    target = eval(section.path, names)
    arguments = {**eval(f"dict({section.others})", names), **given}
    positional = ()
    for parameter in inspect.signature(target).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            arguments |= arguments.pop(parameter.name, {})
        elif parameter.kind is parameter.VAR_POSITIONAL:
            positional = arguments.pop(parameter.name, ())
    made = target(*positional, **arguments)
    if isinstance(made, minitune.Tuner):
        made.fit()
    elif isinstance(made, (minitune.TuneConfig, minitune.RunConfig)):
        run = made if isinstance(made, minitune.RunConfig) else None
        _fit(names["tmp"], None if run else made, run)


def _said_by(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    return ACCEPTED


def _said_by_assignment(kind, name, value):
    """What a config says when the value is assigned to a field; it must stay as it was."""
    config = kind()
    said = _said_by(lambda: setattr(config, name, value))
    return said if config == kind() else f"{said}, but it has changed to {config}"


def _fits(text, said):
    return fnmatch.fnmatchcase(said, re.sub(r"[\[*?]", "?", text).replace("...", "*"))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.path)
def test_bad_values_are_refused_at_once_with_rule_value_and_way_out(section, names):
    wrong = []
    for argument, expression, kind, text in section.rows:
        if kind == "any":
            continue
        if section.path == "init":
            minitune.shutdown()
        value = eval(expression, names)
        said = _said_by(partial(_call, section, {argument: value}, names))
        if not _fits(f"{kind}: {text}", said) or len(said) > 800:
            wrong.append((argument, expression, f"{kind}: {text}", said))
        config = names.get(section.path)
        if isinstance(config, type) and issubclass(config, Config) and argument in vars(config()):
            made = _said_by(partial(config, **{argument: value}))
            assigned = _said_by_assignment(config, argument, value)
            if made not in (ACCEPTED, assigned):
                wrong.append((argument, expression, f"as when made: {made}", assigned))
        if any(path.is_dir() for path in Path(names["tmp"]).glob("*/*")):
            wrong.append((argument, expression, "no trial may begin", said))
    # Last, since it may run trials. A row that fits it is not about its argument.
    if section.path == "init":
        minitune.shutdown()
    without = _said_by(partial(_call, section, {}, names))
    for argument, expression, kind, text in section.rows:
        if kind != "any" and _fits(f"{kind}: {text}", without):
            wrong.append((argument, expression, "this is said without the argument, too", without))
    assert wrong == []


def _arguments(path, value, skip_self=False):
    try:
        found = list(inspect.signature(value).parameters)[skip_self:]
    except (TypeError, ValueError):
        found = []
    for name in found:
        yield path, name


def _public_arguments():
    """(what is called, argument) of all that users call."""
    for name, value in PUBLIC.items():
        if callable(value) and not (isinstance(value, type) and issubclass(value, Exception)):
            yield from _arguments(name, value)
    for kind, instance in OF_USERS.items():
        for name, value in inspect.getmembers(PUBLIC[kind]):
            if name.startswith("_") or f"{kind}.{name}" in LEFT_OUT:
                continue
            if inspect.ismethod(value):  # a class method
                yield from _arguments(f"{kind}.{name}", value)
            elif inspect.isfunction(value):
                yield from _arguments(f"{instance}.{name}", value, skip_self=True)


def test_every_argument_has_a_row(names):
    aliases = {}
    for name, value in PUBLIC.items():
        if name in {section.path for section in SECTIONS}:
            aliases[id(value)] = name
    rows = {(section.path, row[0]) for section in SECTIONS for row in section.rows}
    missing = [
        (path, name)
        for path, name in _public_arguments()
        for known in [aliases.get(id(PUBLIC.get(path, path)), path)]
        if not rows & {(known, name), (known, "*")}
    ]
    assert missing == []


def test_every_row_is_of_an_argument(names):
    unknown = [
        (section.path, row[0])
        for section in SECTIONS
        for row in section.rows
        if row[0] != "*" and row[0] not in inspect.signature(eval(section.path, names)).parameters
    ]
    assert unknown == []


USUAL = (ValueError, TypeError, TuneError, ImportError, OSError, RuntimeError, NotImplementedError)
"""The errors of bad input; any other one comes from deep inside, where no rule was looked at."""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("section", {each.path: each for each in SECTIONS[::-1]}.values(), ids=lambda each: each.path)
def test_defaults_may_be_given_and_empty_values_are_taken_or_refused_by_a_rule(section, names):
    def said(given):
        if section.path == "init":
            minitune.shutdown()
        names["study"] = minitune.Study({"x": 1})
        names["study"].ask()
        try:
            _call(section, given, names)
        except USUAL as error:
            return f"{type(error).__name__}: {error}"
        return ACCEPTED

    parameters = inspect.signature(eval(section.path, names)).parameters.values()
    named = [one for one in parameters if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)]
    others = eval(f"dict({section.others})", names)
    without = said({})
    defaults = {one.name: one.default for one in named if one.default is not one.empty and one.name not in others}
    assert said(defaults) == without
    for one in named:
        for empty in (0, "", None):
            said({one.name: empty})
