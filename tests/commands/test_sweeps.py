"""Sweep files of `minitune run`: what each key does, in TOML. `tests/extras/program` has what only YAML can say."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
from command_runs import Minitune

from minitune.analysis import ExperimentAnalysis
from minitune.commands.sweep import SweepFile, read_sweep
from minitune.space.domains import Categorical, Float, Integer

has_toml = any(importlib.util.find_spec(name) is not None for name in ("tomllib", "tomli"))
pytestmark = pytest.mark.skipif(not has_toml, reason="Python 3.10 reads TOML with tomli")

BASE = 'program = "train.py"\nmethod = "random"\nrun_cap = 5\n'
GRID = BASE.replace("random", "grid").replace("run_cap = 5\n", "")
X = "[parameters.x]\nvalue = 1\n"
METRIC = '[metric]\nname = "v"\n'
HYPERBAND = '[early_terminate]\ntype = "hyperband"\n'


def written(path: Path, text: str) -> str:
    file = path / "sweep.toml"
    file.write_text(text, encoding="utf-8")
    return str(file)


def sweep_of(path: Path, text: str) -> SweepFile:
    return read_sweep(written(path, text))


def arguments(sweep: SweepFile, **config: Any) -> list[str]:
    """The words of the command behind the program, with values for some parameters and the constants of the others."""
    assert sweep.command is not None
    return sweep.command.filled({**sweep.parameters, **config}, "DIR", 0)[3:]


def trials(name: str = "run") -> list[Any]:
    return ExperimentAnalysis(name).trials


# -- parameters --------------------------------------------------------------------------------------------------------
def test_distributions_become_domains(tmp_path: Path) -> None:
    text = BASE + "\n".join(
        f"[parameters.{name}]\n{lines}"
        for name, lines in {
            "values": 'values = ["a", 2]',
            "whole": "min = 1\nmax = 3",
            "real": "min = 0.5\nmax = 3",
            "log": 'distribution = "log_uniform"\nmin = 0\nmax = 1',
            "inverse_log": 'distribution = "inv_log_uniform"\nmin = -2\nmax = 1',
            "log_values": 'distribution = "log_uniform_values"\nmin = 0.1\nmax = 1',
            "inverse_log_values": 'distribution = "inv_log_uniform_values"\nmin = 0.1\nmax = 1',
            "steps": 'distribution = "q_uniform"\nmin = 0\nmax = 1.1\nq = 0.25',
            "short_steps": 'distribution = "q_uniform"\nmin = 0.1\nmax = 0.3\nq = 0.1',
            "whole_steps": 'distribution = "q_uniform"\nmin = 0.1\nmax = 11\nq = 5',
            "log_steps": 'distribution = "q_log_uniform"\nmin = 0\nmax = 1',
            "log_values_steps": 'distribution = "q_log_uniform_values"\nmin = 0.7\nmax = 3\nq = 0.5',
            "log_steps_from_zero": 'distribution = "q_log_uniform_values"\nmin = 1\nmax = 9\nq = 4',
            "normal": 'distribution = "normal"\nmu = 2\nsigma = 0.5',
            "normal_steps": 'distribution = "q_normal"\nmu = 8\nsigma = 0.01\nq = 4',
            "log_normal": 'distribution = "log_normal"\nmu = 3\nsigma = 0',
            "log_normal_steps": 'distribution = "q_log_normal"\nmu = 3\nsigma = 0\nq = 7',
            "beta": 'distribution = "beta"\na = 1e6\nb = 1e6',
            "beta_steps": 'distribution = "q_beta"\nq = 0.5',
            "weighted": 'values = ["never", "always"]\nprobabilities = [0, 1.0]',
            "fixed": 'value = "{x: 7}"',
        }.items()
    )

    sweep = sweep_of(tmp_path, text)

    domains = sweep.parameters
    assert domains["fixed"] == "{x: 7}"
    assert isinstance(domains["values"], Categorical)
    assert domains["values"].categories == ["a", 2]
    assert isinstance(domains["whole"], Integer)
    assert (domains["whole"].lower, domains["whole"].upper) == (1, 4)
    for name, low, high in (
        ("real", 0.5, 3),
        ("log", 1, math.e),
        ("log_values", 0.1, 1),
        ("inverse_log", 1 / math.e, math.e**2),
    ):
        assert isinstance(domains[name], Float)
        assert (domains[name].lower, domains[name].upper) == (pytest.approx(low), pytest.approx(high))
    assert repr(domains["inverse_log"].get_sampler()) == repr(domains["log"].get_sampler())
    assert repr(domains["inverse_log_values"]) == repr(domains["log_values"])
    kept = pickle.loads(pickle.dumps(domains))  # as for a resume
    drawn = {
        name: [str(domain.sample(random_state=seed)) for seed in range(80)]
        for name, domain in kept.items()
        if name != "fixed"
    }
    # As there, a bound is rounded, too, and a whole step makes whole numbers.
    assert set(drawn["steps"]) == {"0.0", "0.25", "0.5", "0.75", "1.0"}
    assert set(drawn["short_steps"]) == {"0.1", "0.2", "0.3"}
    assert set(drawn["whole_steps"]) == {"0", "5", "10"}
    assert set(drawn["log_steps"]) == {"1", "2", "3"}
    assert set(drawn["log_values_steps"]) == {"0.5", "1.0", "1.5", "2.0", "2.5", "3.0"}
    assert set(drawn["log_steps_from_zero"]) == {"0.0", "4.0", "8.0"}
    assert 1 < sum(map(float, drawn["normal"])) / 80 < 3
    assert set(drawn["log_normal"]) == {str(math.exp(3))}
    assert set(drawn["log_normal_steps"]) == {"21.0"}
    assert all(0.49 < float(value) < 0.51 for value in drawn["beta"])
    assert set(drawn["beta_steps"]) == {"0.0", "0.5", "1.0"}
    assert set(drawn["weighted"]) == {"always"}
    last = {name: domain.sample(random_state=1) for name, domain in domains.items() if name != "fixed"}
    assert {"--normal_steps=8", "--log_normal_steps=21"} <= set(arguments(sweep, **last))


def test_a_grid_has_all_values_of_ranges_with_steps(tmp_path: Path) -> None:
    text = GRID + "\n".join(
        f"[parameters.{name}]\n{lines}"
        for name, lines in {
            "whole": "min = 1\nmax = 3",
            "steps": 'distribution = "q_uniform"\nmin = 0.1\nmax = 0.3\nq = 0.1',
            "whole_steps": 'distribution = "q_uniform"\nmin = 0\nmax = 11\nq = 5',
            "log_steps": 'distribution = "q_log_uniform_values"\nmin = 1\nmax = 9\nq = 4',
        }.items()
    )

    domains = sweep_of(tmp_path, text).parameters

    assert {name: list(domain["grid_search"]) for name, domain in domains.items()} == {
        "whole": [1, 2, 3],
        "steps": [0.1, 0.2, 0.3],
        "whole_steps": [0, 5, 10],
        "log_steps": [0, 4, 8],
    }


NAMES = ["model/lr", "+model.lr", "numbers[0]", "a:b", "7", "lr scale", "größe", "data/set@eval", "^x", "{y}", "x}=3"]


def test_any_name_stands_in_the_command_as_it_is(run: Minitune, tmp_path: Path) -> None:
    text = BASE + "".join(f"[parameters.{json.dumps(name)}]\nvalues = [{i}]\n" for i, name in enumerate(NAMES))
    sweep = sweep_of(tmp_path, text)
    assert list(sweep.parameters) == NAMES
    written(tmp_path, text.replace('"train.py"', '"-c"\ncommand = ["echo", "${args_no_hyphens}"]'))

    status, out, err = run("run", "--dry-run", "sweep.toml")

    assert (status, err) == (0, "")
    expected = [f"{name}={i}" for i, name in enumerate(NAMES)]
    assert out.splitlines()[0].replace("'", "") == " ".join(["echo", *expected])


def test_nested_parameters_have_dots_in_their_names(tmp_path: Path) -> None:
    text = BASE + "[parameters.model.parameters]\ndepth.values = [4]\nopt.parameters.lr.value = 0.1\n" + X

    sweep = sweep_of(tmp_path, text)

    assert set(sweep.parameters) == {"model.depth", "model.opt.lr", "x"}
    assert arguments(sweep, **{"model.depth": 4}) == ["--model.depth=4", "--model.opt.lr=0.1", "--x=1"]


# -- the command -------------------------------------------------------------------------------------------------------
SHOW = "import json, sys; print(json.dumps({'got': sys.argv[1:], 'file': json.load(open(sys.argv[-1]))}))"
PARAMETERS = """
[parameters]
amp.value = true
old.value = false
lr.values = [0.5]
trial_dir.value = "mine"
note.values = ["a b"]
steps = { distribution = "q_normal", mu = 8, sigma = 0.01, q = 4 }
model.parameters.depth.value = [4, "x"]
"""


def test_each_macro_stands_for_its_words(run: Minitune, tmp_path: Path) -> None:
    macros = ["${args}", "${args_no_hyphens}", "${args_no_boolean_flags}", "${args_no_equals}", "${args_json}"]
    words = ["${program}", "-c", SHOW, *macros, "${args_json_file}"]
    sweep = f"program = {json.dumps(sys.executable)}\nmethod = 'random'\nrun_cap = 1\ncommand = {json.dumps(words)}"
    written(tmp_path, sweep + PARAMETERS)

    assert run("run", "--name", "run", "sweep.toml")[0] == 0

    (trial,) = trials()
    got = trial.last_result["got"]
    depth = 'model.depth=[4, "x"]'
    pairs = ["amp=True", "old=False", "lr=0.5", "trial_dir=mine", "note=a b", "steps=8", depth]
    content = {"amp": True, "old": False, "lr": 0.5, "trial_dir": "mine", "note": "a b", "steps": 8}
    content["model"] = {"depth": [4, "x"]}
    assert got[:7] == [f"--{pair}" for pair in pairs]
    assert got[7:14] == pairs
    assert got[14:20] == ["--amp", *(f"--{pair}" for pair in pairs[2:])]
    assert got[20:34] == [word for pair in pairs for word in f"--{pair}".split("=", 1)]
    assert json.loads(got[34]) == content
    assert os.path.dirname(got[35]) == trial.local_path
    assert trial.last_result["file"] == content


def test_a_command_may_be_one_text_and_values_may_be_dates_and_mappings(tmp_path: Path) -> None:
    text = (
        f'command = "python  run.py ${{args_no_hyphens}}"\n{BASE}[parameters]\n'
        "day.value = 2026-01-02\nat.value = 12:30:00\n"
        "deep.value = { a = { day = 2026-01-02, n = [1, true] } }\nsome.values = [2026-01-02, 2]\n"
    )
    sweep = sweep_of(tmp_path, text)
    assert sweep.parameters["day"] == "2026-01-02"
    assert sweep.parameters["at"] == "12:30:00"
    assert sweep.parameters["deep"] == {"a": {"day": "2026-01-02", "n": [1, True]}}
    assert sweep.parameters["some"].categories == ["2026-01-02", 2]
    assert sweep.command is not None
    words = sweep.command.filled({**sweep.parameters, "some": 2}, "DIR", 0)
    assert words[:3] == ["python", "run.py", "day=2026-01-02"]


def test_all_other_words_are_literal(run: Minitune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_DIRECTORY", "${args}")
    literal = ["${now:%Y-%m-%d}", "{a:1}", "{x}", "{{x}}", "{x: uniform(0, 1)}", "{trial_dir}", "a=${program}", "$HOME"]
    words = ["echo", *literal, 3, "${envvar:A_DIRECTORY}", "in=${envvar:A_DIRECTORY}/b", "${args_no_hyphens}"]
    written(tmp_path, f"command = {json.dumps(words)}\n{BASE}{X}")

    status, out, _ = run("run", "--dry-run", "sweep.toml")

    assert status == 0
    line = out.splitlines()[0].replace("'", "")
    assert line == " ".join(["echo", *literal, "3", "${args}", "in=${args}/b", "x=1"])


# -- the search --------------------------------------------------------------------------------------------------------
COUNT = 'command = ["sh", "-c", "echo report v=${1#x=}; echo report v=${1#x=}", "sh", "${args_no_hyphens}"]\n'


def test_a_sweep_file_runs_its_program(run: Minitune, tmp_path: Path) -> None:
    text = f'name = "run"\n{GRID}{COUNT}{METRIC}[parameters.x]\nvalues = [1, 2, 3]\n{HYPERBAND}min_iter = 1\n'
    written(tmp_path, text)

    assert run("run", "sweep.toml", "--num-samples", "1", "--concurrent", "1")[0] == 0

    assert [trial.last_result["v"] for trial in trials()] == [1, 2, 3]
    assert [trial.last_result["training_iteration"] for trial in trials()] == [2, 1, 1]


def test_another_metric_than_that_of_the_sweep_needs_a_mode_of_its_own(run: Minitune, tmp_path: Path) -> None:
    written(tmp_path, f"{GRID}{COUNT}{METRIC}{X}")

    status, _, err = run("run", "sweep.toml", "--metric", "other")

    assert status == 2
    assert "--metric and --mode go together, but got other and None" in err


@pytest.mark.parametrize(
    ("goal", "target", "ran"),
    [("minimize", "2.5", [3, 2]), ("minimize", "2", [3, 2]), ("maximize", "3", [3]), ("maximize", "9", [3, 2, 1])],
)
def test_a_target_ends_the_run(run: Minitune, tmp_path: Path, goal: str, target: str, ran: list[int]) -> None:
    text = (
        f'name = "run"\n{GRID}{COUNT}{METRIC}goal = "{goal}"\ntarget = {target}\n[parameters.x]\nvalues = [3, 2, 1]\n'
    )
    written(tmp_path, text)

    status, out, _ = run("run", "sweep.toml", "--concurrent", "1")

    assert status == 0
    assert [trial.last_result["v"] for trial in trials() if trial.last_result] == ran
    assert ("The run has ended because v <= 2.5 was reached." in out) == (target == "2.5")
    assert [run(command, "run")[0] for command in ("watch", "resume")] == [0, 0], "what it was to reach is reached"


@pytest.mark.parametrize(("options", "count"), [([], 4), (["--num-samples", "2"], 12)])
def test_run_cap_may_be_below_the_grid(run: Minitune, tmp_path: Path, options: list[str], count: int) -> None:
    text = f"{GRID}run_cap = 4\n[parameters]\nb.values = [1, 2]\na = {{ min = 1, max = 3 }}\n"
    written(tmp_path, f'name = "run"\ncommand = ["echo", "report", "${{args_no_hyphens}}"]\n{text}')

    assert run("run", "sweep.toml", *options)[0] == 0

    # the first points of the whole grid, in its order
    points = [(trial.config["a"], trial.config["b"]) for trial in trials()]
    assert (
        points
        == [(1, 1), (2, 1), (3, 1), (1, 2), (2, 2), (3, 2), *[(1, 1), (2, 1), (3, 1), (1, 2), (2, 2), (3, 2)]][:count]
    )
    assert len(run("run", "sweep.toml", "--dry-run")[1].splitlines()) == 3


def test_a_dry_run_shows_no_more_than_the_cap(run: Minitune, tmp_path: Path) -> None:
    written(tmp_path, f"{GRID}run_cap = 2\n[parameters]\nx.values = [1, 2, 3]\n")

    assert len(run("run", "sweep.toml", "--dry-run")[1].splitlines()) == 2


@pytest.mark.parametrize(
    ("lines", "first", "end", "eta"),
    [
        ("min_iter = 3", 3, 3e9, 3),
        ("min_iter = 5\ns = 2", 5, 5e9, 3),
        ("min_iter = 5\neta = 2\nstrict = true", 5, 5e9, 2),
        ("max_iter = 27\ns = 2", 3, 27, 3),
        ("max_iter = 27\ns = 1000000000", 1, 27, 3),
        ("max_iter = 27", 1, 27, 3),
        ("min_iter = 7\nmax_iter = 19\ns = 2", 19 / 9, 19, 3),
        ("min_iter = 7\nmax_iter = 19", 7, 19, 3),
        ("min_iter = 7\nmax_iter = 7", 7, 7, 3),
        ("max_iter = 9\ns = 2\neta = 1000000000", 9, 9, 1e9),
        ("min_iter = 1\neta = 1.0000001", 1, 1.00001, 1.0000001),
    ],
)
def test_early_terminate_sets_the_levels_of_asha(
    tmp_path: Path, lines: str, first: float, end: float, eta: float
) -> None:
    found = sweep_of(tmp_path, BASE + METRIC + X + HYPERBAND + lines).stops_early

    assert found == {
        "grace_period": pytest.approx(first),
        "max_t": pytest.approx(end),
        "reduction_factor": eta,
        "stop_last_trials": False,
    }


def test_keys_without_a_meaning_here_are_ignored_with_one_note(
    run: Minitune, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = (
        'project = "p"\nentity = "e"\ndescription = "d"\nname = "../a"\napiVersion = "1"\nkind = "sweep"\n'
        f'{BASE}{METRIC}impute = "worst"\n{X}{HYPERBAND}min_iter = 3\nstrict = false\n[controller]\ntype = "local"\n'
    )
    written(tmp_path, text)

    status, out, _ = run("run", "--dry-run", "sweep.toml")

    assert (status, len(out.splitlines())) == (0, 3)
    ignored = (
        "apiVersion, kind, project, entity, description, controller, metric.impute, early_terminate.strict: false, name"
    )
    assert caplog.messages == [f"sweep.toml: ignored, as they mean nothing here: {ignored}"]


# -- what is refused ---------------------------------------------------------------------------------------------------
def of_x(distribution: str, lines: str = "", *, method: str = "random") -> str:
    return f'{BASE.replace("random", method)}[parameters.x]\ndistribution = "{distribution}"\n{lines}'


HUGE = "1" + "0" * 30


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BASE.replace("random", "custom"), "method must be one of grid, random, bayes, but got 'custom'"),
        (f'job = "j"\n{BASE}{X}', "minitune does not have the key 'job' of the file"),
        (f"{BASE}{X}[metrc]\n", "key 'metrc' of the file (did you mean 'metric'?)"),
        (BASE, "parameters must be a mapping"),
        (f'name = ["a"]\n{BASE}{X}', "name must be a text"),
        (of_x("betta"), "parameters.x.distribution must be one of"),
        (of_x("q_normal", "q = 0"), "parameters.x.q must be a number above 0"),
        (of_x("q_beta", "a = -1"), "parameters.x.a must be a number above 0"),
        (of_x("q_log_uniform_values", "min = 0\nmax = 3"), "parameters.x: min must be above 0"),
        (of_x("log_uniform", "min = 0\nmax = 1000"), "x: the numbers are too large for distribution log_uniform"),
        (of_x("log_normal", "mu = 700"), "parameters.x: the numbers are too large"),
        (of_x("int_uniform", "min = 0\nmax = inf"), "parameters.x.max must be a finite number, but got inf"),
        (of_x("int_uniform", "min = nan\nmax = 4"), "parameters.x.min must be a finite number, but got nan"),
        (of_x("int_uniform", "min = 0.5\nmax = 4"), "parameters.x: min must be a whole number"),
        (of_x("q_uniform", "min = 0\nmax = 1e308\nq = 1e-300"), "parameters.x: the numbers are too large"),
        (of_x("uniform", f"min = 0\nmax = {HUGE * 20}"), "parameters.x: the numbers are too large"),
        (
            of_x("int_uniform", f"min = 0\nmax = {HUGE}", method="grid"),
            f"1000000 values of a parameter, but got {HUGE[:-1]}1",
        ),
        (of_x("q_uniform", "min = 0\nmax = 1\nq = 1e-9", method="grid"), "a grid takes at most 1000000 values"),
        (of_x("uniform", "min = 0\nmax = 1", method="grid"), "grid needs values or a range with steps, but got"),
        (of_x("q_normal", method="grid"), "grid needs values or a range with steps"),
        (of_x("categorical", "values = [1, 2]\nprobabilities = [0.5, 0.6]"), "have the sum 1, but got [0.5, 0.6]"),
        (of_x("categorical", "values = [1, 2]\nprobabilities = [1]"), "must be a list of 2 numbers"),
        (of_x("categorical", "values = [1]\nprobabilities = [1]", method="grid"), "takes no probabilities"),
        (f"{BASE}[parameters]\nx = 3", "parameters.x must be a mapping, such as {value: 3}, but got 3"),
        (f"{BASE}[parameters.x]\nmin = 1", "parameters.x: distribution uniform needs max"),
        (f"{BASE}[parameters.x]\nmin = 1\nmax = 2\nq = 1", "distribution int_uniform takes min, max, but got q"),
        (f'{BASE}[parameters.x]\nmin = 0\nmax = "much"', "parameters.x.max must be a number"),
        (f"{BASE}[parameters.x]\nmin = 0.5\nmax = 1e400", "parameters.x.max must be a finite number"),
        (f"{BASE}[parameters.x]\nmin = 3\nmax = 1", "parameters.x: min must be at most max, but got 3 and 1"),
        (f"{BASE}[parameters.x]\nvalue.grid_search = [1]", "x.value must not be a mapping of grid_search alone"),
        (f"{BASE}[parameters.x]\nparameters = 3", "parameters.x must be a mapping of names to domains, but got 3"),
        (f"{BASE}[parameters.x]\nparameters.y.value = 1\nmin = 1", "does not have the key 'min' of parameters.x"),
        (f"{BASE}[parameters]\n'x.y'.value = 1\nx.parameters.y.value = 1", "parameters.x.y is there twice"),
        (f"{BASE}[parameters]\n'a\\u0000'.value = 1".replace("'", '"'), "characters that can be printed"),
        (f"{BASE}[parameters]\n''.value = 1", "characters that can be printed, but got ''"),
        (f'{BASE}{X}[metric]\nname = "v"\ngoal = "best"', "metric.goal must be one of"),
        (f'{BASE}{X}{METRIC}target = "low"', "metric.target must be a number"),
        (f'{BASE}{X}{METRIC}{HYPERBAND}min_iter = 1\nstrict = "no"', "early_terminate.strict must be true or false"),
        (f"{BASE}{X}{METRIC}{HYPERBAND}min_iter = 1\neta = 1", "early_terminate.eta must be a number above 1"),
        (f"{BASE}{X}{METRIC}{HYPERBAND}max_iter = 1e300\ns = 1e300", "at most 1000000000, but got 1e+300"),
        (f"{BASE}{X}{METRIC}{HYPERBAND}min_iter = 9\nmax_iter = 3", "min_iter must be at most max_iter"),
        (f"{BASE}{X}{METRIC}{HYPERBAND}s = 3", "early_terminate needs min_iter, or max_iter and s"),
        (f"{BASE}{X}{HYPERBAND}min_iter = 1", "early_terminate needs metric"),
        (BASE.replace("random", "bayes") + X, "method bayes needs metric"),
        (BASE.replace('"train.py"', "3") + X, "program must be the path of the script, but got 3"),
        (f'command = ["a=${{envvar:NO_SUCH}}/b"]\n{BASE}{X}', "no environment variable NO_SUCH"),
        (f'command = ["${{arg}}"]\n{BASE}{X}', "minitune does not have ${arg} of command (did you mean '${args}'?)"),
        (f'command = ["a", "--args=${{args}}"]\n{BASE}{X}', "command passes no parameter to the program"),
        (f"command = []\n{BASE}{X}", "command must be a list of words, but got []"),
        (f'command = ["a", ["b"]]\n{BASE}{X}', "a word of command must be a text, but got ['b']"),
        (f'command = ["a", true]\n{BASE}{X}', "a word of command must be a text, but got True; put it into quotes"),
        (f'command = ["a\\u0000"]\n{BASE}{X}', "a word of command must have no NUL"),
        (f"{BASE.replace('run_cap = 5', '')}{X}", "a sweep without run_cap has no end"),
        (BASE.replace("5", "0") + X, "run_cap must be a whole number above 0"),
        (f"{BASE}[parameters.x]\nvalue = {'[' * 60 + ']' * 60}", "parameters is nested too deeply"),
        ("x = " + "[" * 3000 + "]" * 3000, "cannot be read: it is nested too deeply"),
        ("a = ", "cannot be read"),
        (f"{BASE}{X}[metric]\nname = 3", "metric.name must be a text, but got 3"),
        (f"{BASE}{X}[metric]\ngoal = 'minimize'", "metric.name must be a text, but got None"),
        (f"metric = 3\n{BASE}{X}", "metric must be a mapping, but got 3"),
        (f"{BASE}[parameters.x]\nmin = true\nmax = 3.5", "parameters.x.min must be a number, but got True"),
        (f"{BASE}[parameters.x]\nvalues = 3", "parameters.x.values must be a list of values, but got 3"),
        (f"{BASE}[parameters.x]\nvalues = []", "parameters.x.values must be a list of values, but got []"),
        (of_x("log_normal", "sigma = -1"), "parameters.x: sigma must be at least 0, but got -1"),
        (of_x("q_uniform", "min = 0\nmax = 1e7\nq = 1", method="grid"), "but got 10000001"),
        (
            f"{GRID}run_cap = 1000001\n[parameters]\na = {{ min = 1, max = 999999 }}\nb.values = [1, 2]",
            "at most 1000000",
        ),
    ],
)
def test_a_sweep_that_minitune_cannot_run_names_the_key(run: Minitune, tmp_path: Path, text: str, message: str) -> None:
    written(tmp_path, text)

    status, out, err = run("run", "sweep.toml")

    assert (status, out) == (1, "")
    assert err.startswith("minitune: sweep.toml")
    assert message in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--param", "x=uniform(0, 1)"], "--param is for a command behind --, but got sweep.toml"),
        (["--shell"], "--shell is for a command behind --, but got sweep.toml"),
        (["--", "true"], "the command is in sweep.toml, so none can follow --"),
    ],
)
def test_options_for_a_command_are_refused(run: Minitune, tmp_path: Path, options: list[str], message: str) -> None:
    written(tmp_path, BASE + X)

    status, _, err = run("run", "sweep.toml", *options)

    assert (status, message in err) == (2, True)


def test_a_file_that_is_no_regular_one_is_refused(run: Minitune, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.toml")  # reading it would block
    (tmp_path / "directory.toml").mkdir()

    for name, kind in (("fifo", "a FIFO"), ("directory", "a directory")):
        status, _, err = run("run", f"{name}.toml")
        assert (status, f"{name}.toml is {kind}, but it must be a regular file" in err) == (1, True)


def test_a_byte_order_mark_is_no_part_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "sweep.toml"
    file.write_text(BASE + X, encoding="utf-8-sig")

    assert read_sweep(str(file)).num_samples == 5


def test_a_missing_library_is_named(run: Minitune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tomllib", "tomli", "yaml"):
        monkeypatch.setitem(sys.modules, name, None)
    for name, library in (("sweep.toml", "tomli"), ("sweep.yaml", "PyYAML")):
        (tmp_path / name).touch()
        status, _, err = run("run", name)
        assert (status, f"needs {library}" in err, f"pip install {library}" in err) == (1, True, True)
