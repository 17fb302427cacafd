"""The contracts detect faulty searchers and schedulers. Each class here breaks one of their rules."""

from __future__ import annotations

import inspect
import math
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from minitune.schedulers import FIFOScheduler
from minitune.search import Searcher, TPESearch
from minitune.testing import SchedulerContract, SearcherContract


def broken_rule(contract, test, tmp_path):
    """The error of a test of a contract; None if it passes."""
    method = getattr(contract, test)
    try:
        method(**({"tmp_path": tmp_path} if "tmp_path" in inspect.signature(method).parameters else {}))
    except Exception as error:
        return error
    return None


# -- searchers ---------------------------------------------------------------------------------------------------------


class GoodSearcher(TPESearch):
    """Keeps all rules."""


class OutOfTheSpace(TPESearch):
    def suggest(self, trial_id):
        return {**super().suggest(trial_id), "momentum": 1.5}


class OneDictForAll(TPESearch):
    given: Any = None

    def suggest(self, trial_id):
        suggested = super().suggest(trial_id)
        self.given = suggested if self.given is None else self.given
        self.given.update(suggested)
        return self.given


class OneAtATime(TPESearch):
    busy = False

    def suggest(self, trial_id):
        if self.busy:
            return None
        suggested = super().suggest(trial_id)
        self.busy = True
        return suggested

    def on_trial_complete(self, trial_id, result=None, error=False):
        self.busy = False
        super().on_trial_complete(trial_id, result, error)


class LearnsFromWhatItGave(TPESearch):
    """Builds on the last dict that it has returned, which the caller may have changed."""

    def __init__(self):
        super().__init__()
        self.given = {}

    def suggest(self, trial_id):
        suggested = super().suggest(trial_id)
        config = {**suggested, **self.given}
        self.given = config
        return config


class ChangesResults(TPESearch):
    def on_trial_complete(self, trial_id, result=None, error=False):
        super().on_trial_complete(trial_id, result, error)
        if result:
            result["loss"] = 0.0


class StumblesOverNaN(TPESearch):
    def on_trial_complete(self, trial_id, result=None, error=False):
        if result and math.isnan(result["loss"]):
            raise ValueError("not a number")
        super().on_trial_complete(trial_id, result, error)


class StumblesOverStrangers(TPESearch):
    def __init__(self):
        super().__init__()
        self.known = set()

    def suggest(self, trial_id):
        self.known.add(trial_id)
        return super().suggest(trial_id)

    def on_trial_result(self, trial_id, result):
        if trial_id not in self.known:
            raise KeyError(trial_id)
        super().on_trial_result(trial_id, result)


class GlobalRandom(TPESearch):
    def suggest(self, trial_id):
        return {**super().suggest(trial_id), "momentum": random.random()}


class SeedsTheGlobalGenerator(TPESearch):
    def set_seed(self, seed):
        random.seed(seed)
        super().set_seed(seed)


class OneSeed(TPESearch):
    def set_seed(self, seed):
        super().set_seed(7)


class AlwaysMin(TPESearch):
    def set_search_properties(self, metric, mode, config, **spec):
        return super().set_search_properties(metric, "min", config, **spec)


class SavesNothing(TPESearch):
    def get_state(self):
        return {}

    def set_state(self, state):
        pass


class LeavesAFile(TPESearch):
    def save(self, checkpoint_path):
        super().save(checkpoint_path)
        Path(f"{checkpoint_path}.old").touch()


class LearnsNothing(TPESearch):
    def on_trial_complete(self, trial_id, result=None, error=False):
        super().on_trial_complete(trial_id, {**result, "loss": 0.0} if result else result, error)

    def on_trial_result(self, trial_id, result):
        pass


class EndsEarly(TPESearch):
    count = 0

    def suggest(self, trial_id):
        self.count += 1
        return Searcher.FINISHED if self.count > 4 else super().suggest(trial_id)


class NeedsItsOrder(TPESearch):
    """Takes a result only of the trial that it has given a configuration first."""

    def __init__(self):
        super().__init__()
        self.in_order = []

    def suggest(self, trial_id):
        suggested = super().suggest(trial_id)
        self.in_order.append(trial_id)
        return suggested

    def on_trial_complete(self, trial_id, result=None, error=False):
        if result and self.in_order.pop(0) != trial_id:
            raise ValueError(trial_id)
        super().on_trial_complete(trial_id, result, error)


class ChangesTheSpace(TPESearch):
    def suggest(self, trial_id):
        self.config["more"] = 1
        return super().suggest(trial_id)

    def set_search_properties(self, metric, mode, config, **spec):
        self.config = config
        return super().set_search_properties(metric, mode, config, **spec)


class LosesTheSpace(TPESearch):
    """Leaves the space once it has heard of a failure."""

    has_failed = False

    def on_trial_error(self, trial_id):
        self.has_failed = True

    def suggest(self, trial_id):
        suggested = super().suggest(trial_id)
        return {**suggested, "momentum": 1.5} if self.has_failed else suggested


class ForgetsTheRunning(TPESearch):
    """A state that it was given knows no trial that runs."""

    def set_state(self, state):
        super().set_state(state)
        self.is_new = True

    def on_trial_complete(self, trial_id, result=None, error=False):
        if not (getattr(self, "is_new", False) and trial_id == "running"):
            super().on_trial_complete(trial_id, result, error)


def stumbling(hook, when):
    """A class of searchers that raise in a hook if its arguments are such."""

    def raises(self, *args, **kwargs):
        if when(*args, **kwargs):
            raise RuntimeError(hook)
        return getattr(TPESearch, hook)(self, *args, **kwargs)

    return type(f"StumblesIn_{hook}", (TPESearch,), {hook: raises})


def of_value(value):
    return lambda trial_id, result=None, error=False: bool(result) and result["loss"] == value


HARM = "test_nothing_that_trials_do_throws_it_off"
STUMBLING = [
    (stumbling("on_pause", lambda trial_id: True), HARM),
    (stumbling("on_unpause", lambda trial_id: True), HARM),
    (stumbling("on_trial_error", lambda trial_id: True), HARM),
    (stumbling("on_search_end", lambda: True), HARM),
    (stumbling("on_trial_complete", lambda trial_id, result=None, error=False: error), HARM),
    (stumbling("on_trial_complete", lambda trial_id, result=None, error=False: not error and result is None), HARM),
    (stumbling("on_trial_complete", lambda trial_id, result=None, error=False: trial_id == "unknown"), HARM),
    *((stumbling("on_trial_complete", of_value(value)), HARM) for value in (math.inf, -math.inf, 1e300)),
    (stumbling("on_trial_result", lambda trial_id, result: True), "test_suggestions_lie_in_the_space"),
    (stumbling("on_trial_complete", lambda trial_id, result=None, error=False: error), "test_it_serves_a_run"),
]

SEARCHERS = [
    *STUMBLING,
    (NeedsItsOrder, "test_several_trials_at_a_time"),
    (ChangesTheSpace, "test_what_it_is_given_stays_as_it_is"),
    (LosesTheSpace, HARM),
    (ForgetsTheRunning, "test_a_saved_state_goes_on_as_if_nothing_had_happened"),
    (OutOfTheSpace, "test_suggestions_lie_in_the_space"),
    (OneDictForAll, "test_suggestions_lie_in_the_space"),
    (OneAtATime, "test_several_trials_at_a_time"),
    (LearnsFromWhatItGave, "test_what_it_is_given_stays_as_it_is"),
    (ChangesResults, "test_what_it_is_given_stays_as_it_is"),
    (StumblesOverNaN, "test_nothing_that_trials_do_throws_it_off"),
    (StumblesOverStrangers, "test_nothing_that_trials_do_throws_it_off"),
    (GlobalRandom, "test_a_seed_decides_everything"),
    (SeedsTheGlobalGenerator, "test_a_seed_decides_everything"),
    (OneSeed, "test_a_seed_decides_everything"),
    (AlwaysMin, "test_max_is_min_of_the_negative"),
    (SavesNothing, "test_a_saved_state_goes_on_as_if_nothing_had_happened"),
    (LeavesAFile, "test_a_saved_state_goes_on_as_if_nothing_had_happened"),
    (LearnsNothing, "test_it_learns"),
    (EndsEarly, "test_it_serves_a_run"),
]


def searcher_contract(kind):
    """The contract for a class of searchers."""

    class Contract(SearcherContract):
        learns = True

        def make_searcher(self):
            return kind()

    return Contract()


@pytest.mark.parametrize(("kind", "test"), SEARCHERS)
def test_a_searcher_that_breaks_a_rule_is_found_out(kind, test, tmp_path):
    assert broken_rule(searcher_contract(kind), test, tmp_path) is not None


@pytest.mark.parametrize("test", sorted({test for _, test in SEARCHERS}))
def test_a_searcher_that_keeps_the_rules_passes(test, tmp_path):
    assert broken_rule(searcher_contract(GoodSearcher), test, tmp_path) is None


def test_each_rule_for_searchers_can_be_broken():
    assert {test for _, test in SEARCHERS} == {name for name in dir(SearcherContract) if name.startswith("test_")}


# -- schedulers --------------------------------------------------------------------------------------------------------


class Halving(FIFOScheduler):
    """Keeps all rules: a trial pauses once, at its fourth result, and may be stopped at its eighth."""

    def __init__(self):
        self.judged = set()
        self.paused = set()

    def is_good(self, score):
        return (score if self._mode == "max" else -score) > 0.4  # NaN is not good

    def on_trial_result(self, tune_controller, trial, result):
        if result["training_iteration"] == 4 and trial.trial_id not in self.paused:
            self.paused.add(trial.trial_id)
            return self.PAUSE
        if result["training_iteration"] != 8 or trial.trial_id in self.judged:
            return self.CONTINUE
        self.judged.add(trial.trial_id)
        return self.STOP if not self.is_good(result["score"]) or len(self.judged) % 3 == 0 else self.CONTINUE


class CountsReports(Halving):
    """Takes the number of reports for the iteration."""

    def __init__(self):
        super().__init__()
        self.counts = Counter[str]()

    def on_trial_result(self, tune_controller, trial, result):
        self.counts[trial.trial_id] += 1
        counted = {**result, "training_iteration": self.counts[trial.trial_id]}
        return super().on_trial_result(tune_controller, trial, counted)


class ForgetsThePaused(Halving):
    def choose_trial_to_run(self, tune_controller):
        return tune_controller.first_pending()


class StumblesOverFailures(Halving):
    def on_trial_error(self, tune_controller, trial):
        raise RuntimeError("a trial has failed")


class StumblesOverTheLost(Halving):
    def choose_trial_to_run(self, tune_controller):
        if any(trial.status == "ERROR" for trial in tune_controller.get_trials()):
            raise RuntimeError("a trial is lost")
        return super().choose_trial_to_run(tune_controller)


class NeedsCheckpoints(Halving):
    def choose_trial_to_run(self, tune_controller):
        chosen = super().choose_trial_to_run(tune_controller)
        if chosen is not None and chosen.last_result and not chosen.checkpoints:
            raise RuntimeError("nothing was saved")
        return chosen


class PausesAgainAndAgain(Halving):
    """Without checkpoints, no trial gets beyond its fourth result."""

    def on_trial_result(self, tune_controller, trial, result):
        return self.PAUSE if result["training_iteration"] == 4 else self.CONTINUE


class StumblesOverInfinities(Halving):
    def on_trial_result(self, tune_controller, trial, result):
        int(result["score"])
        return super().on_trial_result(tune_controller, trial, result)


class NaNWins(Halving):
    def on_trial_result(self, tune_controller, trial, result):
        return self.CONTINUE if math.isnan(result["score"]) else self.STOP


class Dice(Halving):
    def on_trial_result(self, tune_controller, trial, result):
        return self.STOP if random.random() < 0.2 else self.CONTINUE


class SeedsTheDice(Dice):
    def set_seed(self, seed):
        random.seed(seed)


class AlwaysMax(Halving):
    def is_good(self, score):
        return score > 0.4


class SavesNoState(Halving):
    def get_state(self):
        return {}


class LeavesAStateBehind(Halving):
    def save(self, checkpoint_path):
        super().save(checkpoint_path)
        Path(f"{checkpoint_path}.old").touch()


class ImprovesResults(Halving):
    def on_trial_result(self, tune_controller, trial, result):
        result["score"] += 1
        return super().on_trial_result(tune_controller, trial, result)


class ChangesConfigurations(Halving):
    def on_trial_result(self, tune_controller, trial, result):
        trial.config["x"] = 1.0
        return super().on_trial_result(tune_controller, trial, result)


class ChangesItsMind(Halving):
    asked = 0

    def choose_trial_to_run(self, tune_controller):
        self.asked += 1
        return super().choose_trial_to_run(tune_controller) if self.asked % 2 else None


class TakesEveryMetric(Halving):
    def set_search_properties(self, metric, mode, **spec):
        self._metric, self._mode = metric, mode
        return True


class WaitsForAnother(Halving):
    """Starts no trial alone."""

    def choose_trial_to_run(self, tune_controller):
        return super().choose_trial_to_run(tune_controller) if len(tune_controller.get_trials()) > 1 else None


class StumblesOverRetries(Halving):
    def choose_trial_to_run(self, tune_controller):
        if any(trial.num_failures for trial in tune_controller.get_live_trials()):
            raise RuntimeError("a trial comes back")
        return super().choose_trial_to_run(tune_controller)


class Undecided(Halving):
    def on_trial_result(self, tune_controller, trial, result):
        decision = super().on_trial_result(tune_controller, trial, result)
        return "MAYBE" if decision == self.STOP else decision


class ChoosesTheRunning(Halving):
    def choose_trial_to_run(self, tune_controller):
        return next((trial for trial in tune_controller.get_trials() if trial.status == "RUNNING"), None) or (
            super().choose_trial_to_run(tune_controller)
        )


class SaysNothing(Halving):
    def debug_string(self):
        return None


class KeepsItsMetric(Halving):
    def set_search_properties(self, metric, mode, **spec):
        return False


class ForgetsItsMetric(Halving):
    def set_search_properties(self, metric, mode, **spec):
        has_metric = self._mode is not None
        self._mode = mode
        return not has_metric


SCHEDULERS = [
    (WaitsForAnother, "test_every_trial_comes_to_its_end"),
    (StumblesOverTheLost, "test_failures_leave_the_others_alone"),
    (StumblesOverRetries, "test_failures_leave_the_others_alone"),
    (CountsReports, "test_a_report_that_comes_twice_counts_once"),
    (Undecided, "test_hooks_answer_as_they_should"),
    (ChoosesTheRunning, "test_hooks_answer_as_they_should"),
    (SaysNothing, "test_hooks_answer_as_they_should"),
    (SaysNothing, "test_metric_and_mode_come_from_one_place"),
    (KeepsItsMetric, "test_metric_and_mode_come_from_one_place"),
    (ForgetsItsMetric, "test_metric_and_mode_come_from_one_place"),
    (ForgetsThePaused, "test_every_trial_comes_to_its_end"),
    (StumblesOverFailures, "test_failures_leave_the_others_alone"),
    (NeedsCheckpoints, "test_trials_without_checkpoints_end_too"),
    (PausesAgainAndAgain, "test_trials_without_checkpoints_end_too"),
    (StumblesOverInfinities, "test_values_that_are_no_numbers_do_no_harm"),
    (NaNWins, "test_values_that_are_no_numbers_do_no_harm"),
    (Dice, "test_a_seed_decides_everything"),
    (SeedsTheDice, "test_a_seed_decides_everything"),
    (AlwaysMax, "test_min_is_max_of_the_negative"),
    (SavesNoState, "test_a_saved_state_goes_on_as_if_nothing_had_happened"),
    (LeavesAStateBehind, "test_a_saved_state_goes_on_as_if_nothing_had_happened"),
    (ImprovesResults, "test_hooks_answer_as_they_should"),
    (ChangesConfigurations, "test_hooks_answer_as_they_should"),
    (ChangesItsMind, "test_hooks_answer_as_they_should"),
    (TakesEveryMetric, "test_metric_and_mode_come_from_one_place"),
]


def scheduler_contract(kind):
    """The contract for a class of schedulers."""

    class Contract(SchedulerContract):
        def make_scheduler(self):
            return kind()

    return Contract()


@pytest.mark.parametrize(("kind", "test"), SCHEDULERS)
def test_a_scheduler_that_breaks_a_rule_is_found_out(kind, test, tmp_path):
    assert broken_rule(scheduler_contract(kind), test, tmp_path) is not None


@pytest.mark.parametrize("test", sorted({test for _, test in SCHEDULERS}))
def test_a_scheduler_that_keeps_the_rules_passes(test, tmp_path):
    assert broken_rule(scheduler_contract(Halving), test, tmp_path) is None


def test_each_rule_for_schedulers_can_be_broken():
    assert {test for _, test in SCHEDULERS} == {name for name in dir(SchedulerContract) if name.startswith("test_")}
