"""Sweep files of `minitune run`: what each key does, and what is refused."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minitune.analysis import ExperimentAnalysis
from minitune.commands import cli
from minitune.commands.sweep import SweepFile, read_sweep
from minitune.space.domains import Categorical, Float, Integer

BASE = "program: train.py\nmethod: random\nrun_cap: 5\n"
GRID = "program: train.py\nmethod: grid\n"
X = "parameters: {x: {value: 1}}\n"
METRIC = "metric: {name: v}\n"

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(
    tmp_path: Path, storage_of_its_own: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Runs a command in this process, where `tmp_path` is its working directory and its storage."""
    monkeypatch.setenv("MINITUNE_STORAGE_PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        try:
            status = cli.main(list(arguments))
        except SystemExit as ended:  # wrong arguments
            status = int(ended.code or 0)
        shown = capsys.readouterr()
        return status, shown.out, shown.err

    return run


def written(path: Path, text: str) -> str:
    file = path / "sweep.yaml"
    file.write_text(text, encoding="utf-8")
    return str(file)


def sweep_of(path: Path, text: str) -> SweepFile:
    return read_sweep(written(path, text))


def parameters(rows: dict[str, str]) -> str:
    return "parameters:\n" + "".join(f"  {name}: {{{lines}}}\n" for name, lines in rows.items())


def arguments(sweep: SweepFile, **config: Any) -> list[str]:
    """The words of the command behind the program, with values for some parameters and the constants of the others."""
    assert sweep.command is not None
    return sweep.command.filled({**sweep.parameters, **config}, "DIR", 0)[3:]


def trials(name: str = "run") -> list[Any]:
    return ExperimentAnalysis(name).trials


# -- parameters --------------------------------------------------------------------------------------------------------
def test_distributions_become_domains(tmp_path: Path) -> None:
    rows = {
        "values": "values: [a, 2]",
        "whole": "min: 1, max: 3",
        "real": "min: 0.5, max: 3",
        "log": "distribution: log_uniform, min: 0, max: 1",
        "log_values": "distribution: log_uniform_values, min: 1e-1, max: 1",
        "fixed": "value: '{x: 7}'",
    }

    sweep = sweep_of(tmp_path, BASE + parameters(rows))

    domains = sweep.parameters
    assert domains["fixed"] == "{x: 7}"
    assert isinstance(domains["values"], Categorical)
    assert domains["values"].categories == ["a", 2]
    assert isinstance(domains["whole"], Integer)
    assert (domains["whole"].lower, domains["whole"].upper) == (1, 4)
    for name, low, high in (("real", 0.5, 3), ("log", 1, math.e), ("log_values", 0.1, 1)):
        assert isinstance(domains[name], Float)
        assert (domains[name].lower, domains[name].upper) == (pytest.approx(low), pytest.approx(high))


NAMES = ["model/lr", "+model.lr", "numbers[0]", "a:b", "7", "lr scale", "größe", "data/set@eval", "^x", "{y}", "x}=3"]


def test_any_name_stands_in_the_command_as_it_is(run: Run, tmp_path: Path) -> None:
    names = parameters({json.dumps(name): f"values: [{i}]" for i, name in enumerate(NAMES)})
    written(tmp_path, f"{BASE}command: [echo, '${{args_no_hyphens}}']\n{names}")

    status, out, err = run("run", "--dry-run", "sweep.yaml")

    assert (status, err) == (0, "")
    expected = [f"{name}={i}" for i, name in enumerate(NAMES)]
    assert out.splitlines()[0].replace("'", "") == " ".join(["echo", *expected])


def test_names_and_values_are_those_in_the_file(tmp_path: Path) -> None:
    rows = {
        "7": "value: 1e-4",
        "d": "value: 2001-01-01",
        "n": "values: [null, yes, {a: 1.50}]",
        "model": "parameters: {depth: {values: [4]}, opt: {parameters: {lr: {value: 0.1}}}}",
    }
    sweep = sweep_of(tmp_path, BASE + parameters(rows))

    assert sweep.parameters["n"].categories == [None, True, {"a": 1.5}]
    words = ["--7=1e-4", "--d=2001-01-01", "--n=None", "--model.depth=4", "--model.opt.lr=0.1"]
    assert arguments(sweep, **{"n": None, "model.depth": 4}) == words


# -- the command -------------------------------------------------------------------------------------------------------
SHOW = "import json, sys; print(json.dumps({'got': sys.argv[1:]}))"
PARAMETERS = """
parameters:
  amp: {value: true}
  old: {value: false}
  lr: {values: [0.5]}
  trial_dir: {value: mine}
  note: {values: [a b]}
  model: {parameters: {depth: {value: [4, x]}}}
"""


def test_each_macro_stands_for_its_words(run, tmp_path):
    macros = ["${args}", "${args_no_hyphens}", "${args_no_equals}"]
    words = json.dumps(["${program}", "-c", SHOW, *macros])
    written(tmp_path, f"program: {sys.executable}\nmethod: random\nrun_cap: 1\ncommand: {words}\n{PARAMETERS}")

    assert run("run", "--name", "run", "sweep.yaml")[0] == 0

    (trial,) = trials()
    got = trial.last_result["got"]
    pairs = ["amp=True", "old=False", "lr=0.5", "trial_dir=mine", "note=a b", 'model.depth=[4, "x"]']
    assert got[:6] == [f"--{pair}" for pair in pairs]
    assert got[6:12] == pairs
    assert got[12:] == [word for pair in pairs for word in f"--{pair}".split("=", 1)]


def test_a_command_may_be_one_text(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, f"command: 'python  run.py ${{args_no_hyphens}}'\n{BASE}{X}")
    assert sweep.command is not None
    assert sweep.command.filled({"x": 1}, "DIR", 0) == ["python", "run.py", "x=1"]


def test_all_other_words_are_literal(run: Run, tmp_path: Path) -> None:
    literal = ["${now:%Y-%m-%d}", "{a:1}", "{x}", "{{x}}", "{x: uniform(0, 1)}", "{trial_dir}", "a=${program}", "$HOME"]
    words = ["echo", *literal, 3, "${args_no_hyphens}"]
    written(tmp_path, f"command: {json.dumps(words)}\n{BASE}{X}")

    status, out, _ = run("run", "--dry-run", "sweep.yaml")

    assert status == 0
    line = out.splitlines()[0].replace("'", "")
    assert line == " ".join(["echo", *literal, "3", "x=1"])


# -- the search --------------------------------------------------------------------------------------------------------
COUNT = 'command: [sh, -c, "echo report v=${1#x=}; echo report v=${1#x=}", sh, "${args_no_hyphens}"]\n'


def test_a_sweep_file_runs_its_program(run: Run, tmp_path: Path) -> None:
    stops = "early_terminate: {type: hyperband, min_iter: 1}\n"
    written(tmp_path, f"name: run\n{GRID}{COUNT}{METRIC}parameters: {{x: {{values: [1, 2, 3]}}}}\n{stops}")

    assert run("run", "sweep.yaml", "--num-samples", "1", "--concurrent", "1")[0] == 0

    assert [trial.last_result["v"] for trial in trials()] == [1, 2, 3]
    assert [trial.last_result["training_iteration"] for trial in trials()] == [2, 1, 1]


@pytest.mark.parametrize(
    ("goal", "target", "ran"),
    [("minimize", "2.5", [3, 2]), ("minimize", "2", [3, 2]), ("maximize", "3", [3]), ("maximize", "9", [3, 2, 1])],
)
def test_a_target_ends_the_run(run: Run, tmp_path: Path, goal: str, target: str, ran: list[int]) -> None:
    metric = f"metric: {{name: v, goal: {goal}, target: {target}}}\n"
    written(tmp_path, f"name: run\n{GRID}{COUNT}{metric}parameters: {{x: {{values: [3, 2, 1]}}}}\n")

    status, out, _ = run("run", "sweep.yaml", "--concurrent", "1")

    assert status == 0
    assert [trial.last_result["v"] for trial in trials() if trial.last_result] == ran
    assert ("The run has ended because v <= 2.5 was reached." in out) == (target == "2.5")
    assert [run(command, "run")[0] for command in ("watch", "resume")] == [0, 0], "what it was to reach is reached"


@pytest.mark.parametrize(
    ("lines", "first", "end", "eta"),
    [
        ("min_iter: 3", 3, 1e9, 3),
        ("min_iter: 5, s: 2", 5, 1e9, 3),
        ("min_iter: 5, eta: 2, strict: true", 5, 1e9, 2),
        ("max_iter: 27, s: 2", 3, 27, 3),
        ("max_iter: 27, s: 1000000000", 1, 27, 3),
        ("max_iter: 27", 1, 27, 3),
        ("min_iter: 7, max_iter: 19, s: 2", 19 / 9, 19, 3),
        ("min_iter: 7, max_iter: 19", 7, 19, 3),
        ("min_iter: 7, max_iter: 7", 7, 7, 3),
        ("max_iter: 9, s: 2, eta: 1000000000", 9, 9, 1e9),
    ],
)
def test_early_terminate_sets_the_levels_of_asha(
    tmp_path: Path, lines: str, first: float, end: float, eta: float
) -> None:
    found = sweep_of(tmp_path, f"{BASE}{METRIC}{X}early_terminate: {{type: hyperband, {lines}}}\n").stops_early

    assert found == {
        "grace_period": pytest.approx(first),
        "max_t": pytest.approx(end),
        "reduction_factor": eta,
        "stop_last_trials": False,
    }


def test_keys_without_a_meaning_here_are_ignored_with_one_note(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = "project: p\nentity: e\ndescription: d\napiVersion: '1'\nkind: sweep\ncontroller: {type: local}\n"
    written(tmp_path, text + BASE + X)

    status, out, _ = run("run", "--dry-run", "sweep.yaml")

    assert (status, len(out.splitlines())) == (0, 3)
    ignored = "apiVersion, kind, project, entity, description, controller"
    assert caplog.messages == [f"sweep.yaml: ignored, as they mean nothing here: {ignored}"]


# -- what is refused ---------------------------------------------------------------------------------------------------
def of_x(lines: str, *, head: str = BASE) -> str:
    return f"{head}parameters: {{x: {{{lines}}}}}\n"


def stopped(lines: str) -> str:
    return f"{BASE}{X}{METRIC}early_terminate: {{type: hyperband, {lines}}}\n"


HUGE = "1" + "0" * 30


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BASE.replace("random", "custom"), "method must be one of grid, random, bayes, but got 'custom'"),
        (f"job: j\n{BASE}{X}", "minitune does not have the key 'job' of the file"),
        (f"{BASE}{X}metrc: {{}}\n", "key 'metrc' of the file (did you mean 'metric'?)"),
        (BASE, "parameters must be a mapping"),
        (f"name: [a]\n{BASE}{X}", "name must be a text"),
        ("", "the file must be a mapping, but got None"),
        # distributions
        (of_x("distribution: beta"), "parameters.x.distribution must be one of"),
        (of_x("distribution: q_log_uniform_values, min: 1, max: 3"), "but got 'q_log_uniform_values'"),
        (of_x("distribution: normal, mu: 0, sigma: 1"), "log_uniform_values, but got 'normal'"),
        (of_x("values: [1, 2], probabilities: [0.5, 0.5]"), "does not have the key 'probabilities' of parameters.x"),
        (of_x("distribution: log_uniform, min: 0, max: 1000"), "x: the numbers are too large for distribution log_uni"),
        (of_x("distribution: int_uniform, min: 0, max: .inf"), "x.max must be a finite number, but got inf"),
        (of_x("distribution: int_uniform, min: .nan, max: 4"), "x.min must be a finite number, but got nan"),
        (
            of_x("distribution: int_uniform, min: 0.5, max: 4"),
            "x: min and max must be whole numbers, but got 0.5",
        ),
        (of_x(f"distribution: uniform, min: 0, max: {HUGE * 20}"), "parameters.x: the numbers are too large"),
        (of_x("min: 0, max: 9", head=GRID), "parameters.x: method grid needs values, but got distribution int_uniform"),
        (f"{BASE}parameters: {{x: 3}}", "parameters.x must be a mapping, such as {value: 3}, but got 3"),
        (of_x("min: 1"), "parameters.x: distribution uniform needs max"),
        (of_x("value: 1, max: 2"), "does not have the key 'max' of parameters.x; it has distribution, value"),
        (of_x("min: 0, max: much"), "parameters.x.max must be a number"),
        (of_x("min: 0.5, max: 1e400"), "parameters.x.max must be a finite number"),
        (of_x("min: 3, max: 1"), "parameters.x: min must be at most max, but got 3 and 1"),
        (of_x("min: true, max: 3.5"), "parameters.x.min must be a number, but got True"),
        (of_x("values: 3"), "parameters.x.values must be a list of values, but got 3"),
        (of_x("values: []"), "parameters.x.values must be a list of values, but got []"),
        (of_x("value: {grid_search: [1]}"), "x.value must not hold a mapping of grid_search alone"),
        (of_x("parameters: 3"), "parameters.x must be a mapping of names to domains, but got 3"),
        (of_x("parameters: {y: {value: 1}}, min: 1"), "does not have the key 'min' of parameters.x"),
        # names
        (f"{BASE}parameters: {{x.y: {{value: 1}}, x: {{parameters: {{y: {{value: 1}}}}}}}}", "x.y is there twice"),
        (f'{BASE}parameters: {{"a\\0": {{value: 1}}}}', "characters that can be printed"),
        (f"{BASE}parameters: {{'': {{value: 1}}}}", "characters that can be printed, but got ''"),
        (f"{BASE}parameters: {{on: {{value: 1}}}}", "that can be printed, but got True; put it into quotes"),
        (f"{BASE}parameters: {{~: {{value: 1}}}}", "a name in parameters must be a text of characters"),
        # the objective and its limits
        (f"metric: 3\n{BASE}{X}", "metric must be a mapping, but got 3"),
        (f"{BASE}{X}metric: {{name: 3}}", "metric.name must be a text, but got 3"),
        (f"{BASE}{X}metric: {{goal: minimize}}", "metric.name must be a text, but got None"),
        (f"{BASE}{X}metric: {{name: v, goal: best}}", "metric.goal must be one of"),
        (f"{BASE}{X}metric: {{name: v, target: low}}", "metric.target must be a number"),
        (f"{BASE}{X}metric: {{name: v, impute: worst}}", "minitune does not have the key 'impute' of metric"),
        (stopped("min_iter: 1, strict: false"), "early_terminate.strict must be true, but got False"),
        (stopped("min_iter: 1, eta: 1"), "early_terminate.eta must be a number from 2 to"),
        (stopped("max_iter: 1e300, s: 1e300"), "to 1000000000, but got 1e+300"),
        (stopped("min_iter: 9, max_iter: 3"), "min_iter must be at most max_iter"),
        (stopped("s: 3"), "early_terminate needs min_iter, or max_iter and s"),
        (stopped("min_iter: 1").replace(METRIC, ""), "early_terminate needs metric"),
        (BASE.replace("random", "bayes") + X, "method bayes needs metric"),
        (BASE.replace("run_cap: 5", "") + X, "a sweep without run_cap has no end"),
        (BASE.replace("5", "0") + X, "run_cap must be a whole number above 0"),
        # the command
        (BASE.replace("train.py", "3") + X, "program must be the path of the script, but got 3"),
        (f"command: ['${{arg}}']\n{BASE}{X}", "minitune does not have ${arg} of command (did you mean '${args}'?)"),
        (f"command: ['a=${{envvar:HOME}}/b']\n{BASE}{X}", "minitune does not have a=${envvar:HOME}/b of command"),
        (
            f"{GRID}run_cap: 2\nparameters: {{a: {{values: [1, 2, 3]}}}}",
            "run_cap must cover the grid of 3 points, but got 2",
        ),
        (f"command: ['${{args_json_file}}']\n{BASE}{X}", "minitune does not have ${args_json_file} of command"),
        (f"command: [a, '--args=${{args}}']\n{BASE}{X}", "command passes no parameter to the program"),
        (f"command: []\n{BASE}{X}", "command must be a list of words, but got []"),
        (f"command: [a, [b]]\n{BASE}{X}", "a word of command must be a text, but got ['b']"),
        (f"command: [a, true]\n{BASE}{X}", "a word of command must be a text, but got True; put it into quotes"),
        (f'command: ["a\\0"]\n{BASE}{X}', "a word of command must have no NUL"),
        # what has no end or no meaning
        (of_x(f"value: {'[' * 2000}{']' * 2000}"), "cannot be read: "),
        ("{a", "cannot be read"),
        (of_x('value: !!int ""'), "cannot be read"),
        (of_x("value: !!python/name:os.system "), "cannot be read"),
    ],
)
def test_a_sweep_that_minitune_cannot_run_names_the_key(run: Run, tmp_path: Path, text: str, message: str) -> None:
    written(tmp_path, text)

    status, out, err = run("run", "sweep.yaml")

    assert (status, out) == (1, "")
    assert err.startswith("minitune: sweep.yaml")
    assert message in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["sweep.yaml", "--", "true"], "the command is in sweep.yaml, so none can follow --"),
        (["sweep.yaml", "--metric", "other"], "--metric and --mode go together, but got other and None"),
        (["sweep.toml"], "a sweep file ends in .yaml or .yml, but got 'sweep.toml'"),
    ],
)
def test_options_that_do_not_fit_a_sweep_file_are_refused(
    run: Run, tmp_path: Path, options: list[str], message: str
) -> None:
    written(tmp_path, f"{BASE}{COUNT}{METRIC}{X}")

    status, _, err = run("run", *options)

    assert (status, message in err) == (2, True)


def test_a_byte_order_mark_is_no_part_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "sweep.yaml"
    file.write_text(BASE + X, encoding="utf-8-sig")

    assert read_sweep(str(file)).num_samples == 5


def test_a_missing_library_is_named(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    written(tmp_path, BASE + X)
    status, _, err = run("run", "sweep.yaml")
    assert (status, "needs PyYAML: pip install PyYAML" in err) == (1, True)
