"""The JSON that is made once for the journal and `result.json` is what each would make of the report, of all kinds."""

import math
import os
import random
import re
import signal

import pytest
from kit import LastFirst, Spy, files_below, fit, run_path, virtual_executor

from minitune import grid_search, report
from minitune.base import clock
from minitune.experiment.callback import Callback
from minitune.experiment.completed_result import CompletedResult
from minitune.experiment.decision import Decision
from minitune.logger import CSVLoggerCallback, JsonLoggerCallback
from minitune.schedulers import FIFOScheduler
from minitune.stopper import MaximumIterationStopper

PLAIN = [0, 1, -7, 2**63, 10**30, 0.5, -0.0, 1e300, 1e-7, True, False, None, "", "text", "a,b", 'a "quote"']
ODD = [
    *(math.nan, math.inf, -math.inf, 10**5000, "\ud800", "\ud83d\ude00", "é😀", "two\nlines", "a\rb", "\0", "%s %d"),
    *("[{" * 60, "x" * 1_100_000, "x" * 100_001, {"a": {"b": 1}}, [1, 2], (1,), b"bytes", object, {"$": 1}, 1j, {}),
]


class Float(float):
    """A float of another type, as numpy's are."""


class Word(str):
    """A text of another type."""


ODD += [Float(0.25), Word("word"), signal.SIGTERM]
NAMES = ["a%s", 'quo"te', "é", "x/y", "two\nlines", "accuracy"]
ODD_NAMES = ["$", "\ud800", "config", "experiment_tag", "done_", 5, None, (1, 2), b"bytes"]


def reports_of(seed, n=40):
    """Reports of a trial: most are like the one before, and each now and then one is not."""
    rng = random.Random(seed)
    names = ["loss", *rng.sample(NAMES, 3)]
    kinds = {name: rng.choice(PLAIN) for name in names}
    reports = []
    for _ in range(n):
        result = {name: _like(value, rng) for name, value in kinds.items()}
        result["loss"] = rng.random()
        if rng.random() < 0.15:
            name = rng.choice(names)
            alike = [odd for odd in ODD if type(odd) is type(kinds[name])] or ODD
            result[name] = rng.choice(rng.choice([alike, ODD]))
            result["loss"] = rng.choice([rng.random(), math.nan, math.inf, 1])
        if rng.random() < 0.05:
            result[rng.choice(NAMES + ODD_NAMES)] = rng.choice(PLAIN)
        if rng.random() < 0.05:
            kinds[rng.choice(names[1:])] = rng.choice(PLAIN)
        if rng.random() < 0.05:
            result = {Word(key): value for key, value in result.items()}
        reports.append(result)
    return reports


def _like(value, rng):
    """Another value of the same type."""
    if type(value) in (int, float):
        return type(value)(rng.randrange(1000)) + (rng.random() if type(value) is float else 0)
    return rng.choice([one for one in PLAIN if type(one) is type(value)])


def reporting(config):
    for result in reports_of(config["seed"]):
        clock.current.sleep(0.25)
        report(dict(result))


def small(config):
    for n in range(20):
        clock.current.sleep(0.5)
        report({"loss": 1 / (n + config["x"])})


def _lines(data):
    """The lines of a file; of a journal without the records that hold the real time, or a length of them."""
    return [line for line in data.splitlines(keepends=True) if not re.match(rb'.{9}{"type":"(run|open|state)"', line)]


@pytest.fixture
def compare(monkeypatch, tmp_path):
    """Runs twice, with and without the text that is made once, compares all files; gives how often it was made."""
    init, taken = CompletedResult.__init__, 0

    def counting(self, *args):
        nonlocal taken
        init(self, *args)
        taken += self.text is not None

    def without(self, *args):
        init(self, *args)
        self.text = None

    def compared(trainable, space, plugins=dict, **settings):
        nonlocal taken
        found = []
        for is_on in (True, False):
            monkeypatch.setattr(CompletedResult, "__init__", counting if is_on else without)
            monkeypatch.setenv("MINITUNE_STORAGE_PATH", os.fspath(tmp_path / str(int(is_on))))
            settings = {"max_concurrent_trials": 2, **settings}
            # the ids of trials follow from the seed
            fit(trainable, space, executor=virtual_executor(2), seed=1, deterministic=True, **settings, **plugins())
            logs = {**files_below(run_path(), "result.json"), **files_below(run_path(), "progress.csv")}
            found.append({**logs, **files_below(run_path(), "journal")})
        assert found[0].keys() == found[1].keys()
        for name, data in found[0].items():
            pairs = zip(_lines(data), _lines(found[1][name]), strict=True)
            assert not [(one, other) for one, other in pairs if one != other], name
        assert {os.path.basename(name) for name in found[0]} >= {"journal", "result.json", "progress.csv"}
        result, taken = taken, 0
        return result

    return compared


@pytest.mark.parametrize("seed", range(2))
def test_the_files_are_the_same_for_values_of_all_kinds(compare, seed):
    taken = compare(reporting, {"seed": grid_search(list(range(10 * seed, 10 * seed + 8))), "layers": [1, {"a": None}]})

    assert taken > 8 * 10


@pytest.mark.parametrize(
    "space",
    [
        {"x": grid_search([1, 2, 3])},
        {"x": grid_search([1.5]), "deep": {"a": [{"b": "%s"}]}, "nan": math.nan, "text": "\ud800"},
        {"x": grid_search([1]), "numbers": (Float(1), 2), "large": "x" * 2_000_000},
        {"x": grid_search([1]), "brackets": [[[]] * 40] * 2},
    ],
)
def test_the_files_are_the_same_for_configurations_of_all_kinds(compare, space):
    compare(small, space, metric="loss", mode="min")


class Changing(Callback):
    """Changes results, configurations and tags in the midst of an attempt."""

    def on_trial_result(self, iteration, trials, trial, result, **info):
        if trial.progress.num_reports == 7:
            result["more"] = 1
        if trial.progress.num_reports == 9:
            result["loss"] = math.nan
        if trial.progress.num_reports == 11:
            trial.set_config({**trial.config, "x": [1, 2]})
        if trial.progress.num_reports == 13:
            trial.set_experiment_tag("another")


class Explaining(FIFOScheduler):
    """Gives reasons, and facts, for going on."""

    def on_trial_result(self, tune_controller, trial, result):
        decisions = ["CONTINUE", Decision("CONTINUE", "it is good"), Decision("CONTINUE", facts={"rule": "good"})]
        return decisions[trial.progress.num_reports // 3 % 3]


class Upper(CSVLoggerCallback):
    def log_trial_result(self, iteration, trial, result):
        super().log_trial_result(iteration, trial, {key.upper(): value for key, value in result.items()})


def changed_logger():
    logger = JsonLoggerCallback()
    log = logger.log_trial_result
    logger.log_trial_result = lambda iteration, trial, result: log(iteration, trial, {"loss": 1})
    return logger


PLUGINS = {
    "pausing": lambda: {"scheduler": LastFirst()},
    "reasons": lambda: {"scheduler": Explaining()},
    "stopper": lambda: {"stop": MaximumIterationStopper(12)},
    "callback": lambda: {
        "callbacks": [Spy(lambda trial, result: result.update({"more": 1} if result["loss"] < 0.1 else {}))]
    },
    "changes": lambda: {"callbacks": [Changing()]},
    "own logger": lambda: {"callbacks": [Upper()]},
    "changed logger": lambda: {"callbacks": [changed_logger()]},
    "loggers first": lambda: {"callbacks": [CSVLoggerCallback(), JsonLoggerCallback(), Changing()]},
}


@pytest.mark.parametrize("plugins", PLUGINS)
def test_the_files_are_the_same_with_plugins_of_all_kinds(compare, plugins):
    space = {"x": grid_search([1, 2, 3, 4])}

    taken = compare(small, space, PLUGINS[plugins], max_concurrent_trials=2, metric="loss", mode="min")

    assert taken > 0 or plugins == "pausing"


def test_a_trial_that_is_tried_again_goes_on_in_the_same_files(compare):
    failed = set()

    def failing(config):
        for n in range(8):
            clock.current.sleep(1)
            report({"loss": n, "x": config["x"]})
            if n == 5 and os.environ["MINITUNE_STORAGE_PATH"] not in failed:
                failed.add(os.environ["MINITUNE_STORAGE_PATH"])
                raise ValueError("once")

    assert compare(failing, {"x": grid_search([1, 2])}, max_failures=1) > 8
