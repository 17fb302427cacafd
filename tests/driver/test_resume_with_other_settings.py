"""A run that goes on with other settings, or other code, than it began with."""

import functools
import os
import re
from pathlib import Path

import pytest
from kit import RUN, EndAfter, counting, cut, fit, journal_of, resume, run_path

import minitune as tune
from minitune import TuneError, grid_search, run, uniform
from minitune.experiment.run_description import source_hash
from minitune.record.reading import read_run
from minitune.schedulers import MedianStoppingRule
from minitune.search import SearchAlgorithm, Searcher

SCRIPTS = Path(__file__).with_name("scripts")

pytestmark = pytest.mark.usefixtures("inline")

SPACE = {"i": uniform(1, 2)}
OBJECTIVE = {"metric": "score", "mode": "min"}


def by_run(**settings):
    trials = run(counting(2), config=SPACE, name=RUN, verbose=0, resume="AUTO", **settings).trials
    return [trial.config for trial in trials]


def by_restore(**settings):
    return [result.config for result in resume(counting(2), callbacks=(), **settings)]


def by_script(**settings):
    """As under `minitune resume SCRIPT`."""
    os.environ["MINITUNE_RESUME"] = str(run_path())
    try:
        return [result.config for result in fit(counting(2), SPACE, **settings)]
    finally:
        del os.environ["MINITUNE_RESUME"]


WAYS = pytest.mark.parametrize("go_on", [by_run, by_restore, by_script])


def told(caplog):
    return [record.message for record in caplog.records if "continues, but" in record.message]


# -- the objective -----------------------------------------------------------------------------------------------------


@WAYS
@pytest.mark.parametrize(
    ("other", "shown"),
    [
        ({"metric": "score", "mode": "max"}, "score (max)"),
        ({"metric": "n", "mode": "min"}, "n (min)"),
        ({"metric": ["score", "n"], "mode": ["min", "max"]}, "score (min), n (max)"),
    ],
)
def test_another_objective_is_refused_and_changes_nothing(go_on, other, shown):
    cut(counting(2), SPACE, results=3, num_samples=3, max_concurrent_trials=1, **OBJECTIVE)
    before = journal_of()
    text = f"the objective is {shown} and was score (min)"
    with pytest.raises(TuneError, match=re.escape(text) + ".*another name"):
        go_on(**other, num_samples=3)
    assert journal_of()[: len(before)] == before
    assert all(record["type"] in ("open", "close") for record in journal_of()[len(before) :])
    assert read_run(run_path()).setup.goal.mode == "min"
    assert len(go_on(**OBJECTIVE, num_samples=3)) == 3


def test_without_an_objective_the_earlier_one_stays():
    fit(counting(2), SPACE, num_samples=2, **OBJECTIVE)
    resume(counting(2), num_samples=3)
    assert str(read_run(run_path()).setup.goal) == "score (min)"
    assert resume(counting(2)).get_best_result().metrics["n"] == 2


# -- samples -----------------------------------------------------------------------------------------------------------


@WAYS
@pytest.mark.parametrize("search_alg", [None, "tpe", "auto"])
@pytest.mark.parametrize("is_cut", [True, False])
def test_more_samples_are_drawn_whether_the_run_had_ended_or_not(go_on, search_alg, is_cut, caplog):
    settings = {**OBJECTIVE, "search_alg": search_alg, "seed": 1, "max_concurrent_trials": 1}
    whole = fit(counting(2), SPACE, num_samples=5, name="whole", **settings)
    if is_cut:
        cut(counting(2), SPACE, results=3, num_samples=3, **settings)
    else:
        fit(counting(2), SPACE, num_samples=3, **settings)
    of_way = {name: value for name, value in settings.items() if name != "seed" or go_on is not by_run}
    assert go_on(num_samples=5, **of_way) == [result.config for result in whole]
    story = read_run(run_path())
    assert (story.total_samples, story.not_drawn) == (5, 0)
    assert len(resume(counting(2))) == 5, "and that stays so"
    assert told(caplog) == []


def test_a_grid_gets_whole_rounds():
    space = {"i": grid_search([1, 2, 3])}
    fit(counting(1), space, num_samples=1)
    assert len(resume(counting(1), num_samples=2)) == 6
    assert len(resume(counting(1), add_samples=1)) == 9
    story = read_run(run_path())
    assert (story.total_samples, story.not_drawn) == (9, 0)


def test_fewer_samples_draw_no_more():
    cut(counting(2), SPACE, results=3, num_samples=9, max_concurrent_trials=1)
    assert len(resume(counting(2), num_samples=2, callbacks=())) == 2
    assert read_run(run_path()).not_drawn == 0


def test_a_run_that_its_stopper_had_ended_gets_more_samples():
    fit(counting(1), SPACE, stop=EndAfter(2), num_samples=4, max_concurrent_trials=1)
    assert len(resume(counting(1), num_samples=6, stop=None, callbacks=())) == 6


def test_a_search_algorithm_that_cannot_add_samples_may_have_more_of_its_own():
    class Two(SearchAlgorithm):
        """Makes as many trials as the experiment says."""

        def __init__(self):
            self.made = 0

        def add_configurations(self, experiments):
            (self.experiment,) = experiments

        def next_trial(self):
            if self.is_finished():
                return None
            self.made += 1
            return self.experiment.maker.make({"i": self.made}, {"i": self.made}, str(self.made))

        def is_finished(self):
            return self.made >= int(self.experiment.num_samples)

    fit(counting(1), search_alg=Two(), num_samples=2)
    assert len(resume(counting(1), search_alg=Two(), num_samples=3)) == 3
    with pytest.raises(NotImplementedError, match="add_samples"):
        resume(counting(1), search_alg=Two(), num_samples=3, add_samples=1)


def test_added_samples_count_once_although_a_state_is_refused(caplog):
    class Forgetful(Fixed):
        def get_state(self):
            return {"known": 1}

        def set_state(self, state):
            raise ValueError("too old")

    fit(counting(1), SPACE, search_alg=Forgetful(), num_samples=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Forgetful, "set_state", lambda self, state: None)
        assert len(resume(counting(1), add_samples=2)) == 4
    assert len(resume(counting(1), callbacks=())) == 4
    assert "cannot load its saved state" in caplog.text


# -- the source --------------------------------------------------------------------------------------------------------


class Fixed(Searcher):
    def set_search_properties(self, metric, mode, config, **spec):
        return True

    def suggest(self, trial_id):
        return {"i": 1.5}


@WAYS
def test_another_searcher_and_scheduler_take_over(go_on, caplog):
    cut(counting(2), SPACE, results=3, num_samples=3, max_concurrent_trials=1, **OBJECTIVE)
    rule = MedianStoppingRule("training_iteration")
    configs = go_on(num_samples=3, search_alg=Fixed(), scheduler=rule, max_concurrent_trials=1, **OBJECTIVE)
    assert configs[-1] == {"i": 1.5}
    assert told(caplog) == []


class Odd:
    def __getattr__(self, name):
        raise RuntimeError("no attributes")


def test_wrappers_have_the_source_of_what_they_wrap():
    def train(config, more=0):
        tune.report({"n": more})

    class Own(tune.Trainable):
        pass

    wrapped = [tune.with_parameters(train, more=1), functools.partial(train, more=1)]
    wrapped += [tune.with_resources(train, {"cpu": 1})]
    assert {source_hash(each) for each in wrapped} == {source_hash(train)}
    assert source_hash(tune.with_resources(Own, {"cpu": 1})) == source_hash(Own) != source_hash(train)
    assert [source_hash(each) for each in (print, Odd(), eval("lambda config: None"))] == [None] * 3


def test_another_space_holds_for_new_trials():
    space = {"i": grid_search([0, 1, 2]), "x": uniform(0, 1)}
    cut(counting(2), space, results=3, max_concurrent_trials=1)
    grid = resume(counting(2), param_space={**space, "x": uniform(5, 6)})
    assert [result.config["x"] > 1 for result in grid] == [False, False, True]
    grid = resume(counting(2), param_space={**space, "x": uniform(8, 9)}, add_samples=1)
    assert [result.config["x"] > 8 for result in grid] == [False] * 3 + [True] * 3


EDITED = (SCRIPTS / "is_edited.py").read_text("utf-8")


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("max_concurrent_trials=1", "max_concurrent_trials=2", None),
        ('"loss": config["x"]', '"loss": config["x"] + 1', "continues, but the source of its trainable has changed\n"),
        ("train", "train2", "there is no run of train2 with these parameters to resume; a new run starts\n"),
        ('mode="min"', 'mode="max"', "cannot continue: the objective is loss (max) and was loss (min)"),
    ],
)
def test_an_edit_between_kill_and_resume_is_told(script, old, new, text):
    killed = script.start(EDITED, "--cut")
    script.finish(killed)
    assert killed.returncode == -9
    path = script.write(EDITED.replace(old, new))
    resumed = script.run_minitune("resume", str(path))
    assert resumed.returncode == (1 if 'mode="max"' in new else 0), resumed.stderr
    if text is None:
        (run,) = script.storage.iterdir()
        assert resumed.stderr == f"resuming the run in {run}\n"
    else:
        assert text in resumed.stderr
    assert len(list(script.storage.iterdir())) == (2 if new == "train2" else 1)
