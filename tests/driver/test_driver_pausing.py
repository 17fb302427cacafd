"""Trials that are put aside and taken up again, in an order that the scheduler likes."""

import logging
import re
from pathlib import Path

import pytest
from kit import (
    Counter,
    LastFirst,
    Log,
    LoggingSearcher,
    PauseOnce,
    SavedCounter,
    counting,
    deciding,
    fit,
    report_n,
    report_state,
    restored_state,
    run_path,
    virtual_executor,
)

from minitune import (
    ASHAScheduler,
    FIFOScheduler,
    TuneConfig,
    TuneError,
    grid_search,
    report,
    simulate,
    with_resources,
)
from minitune.base import clock
from minitune.experiment.decision import Decision
from minitune.record.reading import read_run
from minitune.search import Searcher

TRAINABLES = {
    "function with checkpoints": counting(7),
    "function without": report_n(7),
    "class with checkpoints": SavedCounter,
    "class without": Counter,
}


@pytest.mark.parametrize("kind", TRAINABLES)
@pytest.mark.parametrize("limit", [None, 1])
def test_all_trials_end_after_any_order_of_pauses(kind, limit, caplog):
    with caplog.at_level(logging.WARNING, "minitune"):
        grid = fit(TRAINABLES[kind], {"end": 7}, scheduler=LastFirst(), num_samples=5, max_concurrent_trials=limit)
    assert [result.metrics["training_iteration"] for result in grid] == [7] * 5
    assert [result.metrics["n"] for result in grid] == [7] * 5
    assert grid.num_terminated == 5
    lost = [record for record in caplog.records if "is paused after report" in record.message]
    assert len(lost) == (1 if "without" in kind else 0)
    assert reported(grid) == ([7] * 5 if "without" not in kind else [2 + 4 + 6 + 7] * 5)


def reported(grid):
    return [len(result.get_rows()) for result in grid]


@pytest.mark.usefixtures("one_cpu")
def test_the_scheduler_chooses_among_waiting_trials():
    order = []

    def trainable(config):
        order.append(config["i"])

    fit(trainable, {"i": grid_search([0, 1, 2, 3])}, scheduler=LastFirst())
    assert order == [0, 3, 2, 1], "the first trial starts before the others are there"


def test_a_pause_that_loses_a_single_report_is_told(caplog):
    def train(config):
        if not restored_state():
            report_state(1, {"n": 1})
        report({"n": 2})

    (result,) = fit(train, scheduler=PauseOnce(2))
    assert [row["n"] for row in result.get_rows()] == [1, 2, 2]
    assert [text for text in caplog.messages if "is paused after report 2 and will continue from report 1" in text]


@pytest.mark.parametrize(
    ("at_end", "decision", "is_saved"),
    [(True, "NOOP", True), (False, "NOOP", False), (False, Decision("STOP", save=True), True)],
)
def test_a_trial_that_the_scheduler_ends_at_its_own_result_is_saved_if_it_is_to_be(at_end, decision, is_saved):
    def decide(context, trial, result):
        if result["n"] == 1:
            return "CONTINUE"
        if decision == "NOOP":
            context.stop_trial(trial)
        return decision

    (result,) = fit(SavedCounter, {"end": 5}, scheduler=deciding(decide), checkpoint_at_end=at_end)
    assert (result.error, result.metrics["n"], result.checkpoint is not None) == (None, 2, is_saved)


class Forgetful(FIFOScheduler):
    """Pauses each trial, and takes up none."""

    def on_trial_result(self, tune_controller, trial, result):
        return self.PAUSE

    def choose_trial_to_run(self, tune_controller):
        return tune_controller.first_pending()


def test_scheduler_that_never_resumes_paused_trials_is_an_error():
    with pytest.raises(TuneError, match=r"2 trials are PAUSED and\s+Forgetful.choose_trial_to_run"):
        fit(report_n(3), scheduler=Forgetful(), num_samples=2)


def test_a_searcher_and_a_scheduler_that_wait_for_each_other_are_named(caplog):
    class Hesitant(Searcher):
        asked = 0

        def suggest(self, trial_id):
            self.asked += 1
            return {"x": 1} if self.asked == 1 else None if self.asked < 250 else self.FINISHED

    config = TuneConfig(num_samples=-1, search_alg=Hesitant(), scheduler=Forgetful())
    with pytest.raises(TuneError, match="1 trials are PAUSED"):
        simulate(lambda config: [({"n": 1}, 1.0)] * 3, tune_config=config)
    said = [record.message for record in caplog.records if "nothing runs" in record.message]
    assert len(said) == 1
    assert '"not now"' in said[0]


def test_an_exploit_goes_on_from_the_donors_checkpoint_under_the_new_config():
    starts = []

    class Named(SavedCounter):
        def load_checkpoint(self, checkpoint):
            super().load_checkpoint(checkpoint)
            starts.append((self.config["name"], self.n))

        def step(self):
            return {**super().step(), "name": self.config["name"]}

    def exploit(context, trial, result):
        donor, taker = context.get_trials()
        if trial is taker and result["n"] == 2 and result["name"] == "worse":
            return Decision("PAUSE", exploit=(donor, {**donor.config, "name": "copy"}))
        return Decision("CONTINUE", save=trial is donor)

    grid = fit(Named, {"name": grid_search(["better", "worse"]), "end": 5}, scheduler=deciding(exploit))
    assert starts in ([("copy", 1)], [("copy", 2)])
    assert [result.metrics["n"] for result in grid] == [5, 5]
    assert grid[1].config["name"] == grid[1].metrics["name"] == "copy"
    for trials in (grid._run.trials, read_run(run_path()).trials):
        assert [trial.evaluated_params for trial in trials] == [{"name": "better"}, {"name": "copy"}]


@pytest.mark.parametrize("how", ["it fails", "it exploits itself"])
def test_until_it_has_a_checkpoint_of_its_own_a_trial_falls_back_on_its_donors(how, caplog):
    """The donor goes on, and only its latest checkpoint is kept: the one that was given away stays all the same."""
    starts = []
    failed = []

    def trainable(config):
        begin = restored_state()
        starts.append((config["i"], begin))
        for n in range(begin + 1, 21):
            if config["i"] == 0:
                report_state(n, {"n": n})
            elif n > 6 and not failed and how == "it fails":
                failed.append(n)
                raise RuntimeError("no luck")
            else:
                report({"n": n})

    def exploit(context, trial, result):
        donor, taker = context.get_trials()
        if trial is taker and result["n"] == 3 and taker.attempt.number == 1:
            return Decision("PAUSE", exploit=(donor, dict(taker.config)))
        if trial is taker and result["n"] > 5 and taker.attempt.number == 2 and how == "it exploits itself":
            return Decision("PAUSE", exploit=(taker, taker.config))
        return "CONTINUE"

    settings = {"num_to_keep": 1, "max_failures": 1}
    grid = fit(trainable, {"i": grid_search([0, 1])}, scheduler=deciding(exploit), **settings)
    assert grid.num_errors == 0
    assert starts[:2] == [(0, 0), (1, 0)]
    (first, given), (second, again) = starts[2:]
    assert (first, second) == (1, 1)
    assert given == again > 0, "both attempts went on from the same checkpoint of the donor"
    if how == "it fails":
        donor = grid._run.trials[0].name
        assert re.search(rf"attempt 2 of 2 starts from checkpoint_\d+ of trial {donor}", caplog.text)
    assert [result.metrics["n"] for result in grid] == [20, 20]
    live = [trial.metric_analysis["n"] for trial in grid._run.trials]
    looked = read_run(run_path()).trials
    assert [trial.metric_analysis["n"] for trial in looked] == live
    assert [trial.config for trial in looked] == [{"i": 0}, {"i": 1}]


@pytest.mark.parametrize("action", ["CONTINUE", "PAUSE", "NOOP", "STOP"])
def test_an_exploit_of_a_trial_without_checkpoints_is_no_dead_end(action, caplog):
    def exploit(context, trial, result):
        donor, taker = context.get_trials()
        is_first = trial is taker and trial.attempt.number == 1
        return Decision(action, exploit=(donor, {})) if is_first else "CONTINUE"

    with caplog.at_level(logging.WARNING, "minitune"):
        grid = fit(report_n(2), scheduler=deciding(exploit), num_samples=2)
    assert grid.num_terminated == 2
    assert [row["n"] for row in grid[1].get_rows()] == ([1] if action == "STOP" else [1, 2])
    assert "cannot exploit" in caplog.text


def test_a_pause_with_an_exploit_counts_more_than_a_pause_alone():
    """Trial 0 asks for a pause of trial 1, which computes. When that has reported, it is to change, too."""

    def trainable(config):
        for n in range(restored_state() + 1, 4):
            clock.current.sleep(config["seconds"])
            report_state(n, {"n": n})

    def decide(context, trial, result):
        if trial.number == 0 and result["n"] == 1:
            context.pause_trial(context.get_live_trials()[1])
        if trial.number == 1 and result["n"] == 1:
            return Decision("PAUSE", exploit=(context.get_trials()[0], {"seconds": 9}))
        return "CONTINUE"

    grid = fit(
        trainable,
        {"seconds": grid_search([1, 2.5])},
        scheduler=deciding(decide),
        executor=virtual_executor(4),
    )
    assert grid[1].config == {"seconds": 9}


def test_scheduler_is_asked_again_when_the_searcher_finishes():
    """A searcher says that it has no more only when it is asked, and then nothing runs that could wake the loop."""
    grid = fit(
        counting(9),
        num_samples=4,
        search_alg=LoggingSearcher(Log()),
        scheduler=ASHAScheduler(max_t=9, grace_period=2, reduction_factor=3, variant="promote"),
        metric="n",
        mode="max",
        max_concurrent_trials=1,
    )
    assert grid.num_terminated == 4
    assert max(result.metrics["n"] for result in grid) == 9


def test_a_waiting_trial_that_the_scheduler_ends_keeps_no_resources_from_others():
    seen = []

    def train(config):
        for n in range(200 if config["cpus"] == 1 else 1):
            clock.current.sleep(1)
            report({"n": n})

    def decide(context, trial, result):
        seen.append(trial.number)
        if (trial.number, result["n"]) == (0, 100):
            context.stop_trial(context.get_trials()[1])
        return "CONTINUE"

    asks = with_resources(train, lambda config: {"cpu": config["cpus"]})
    fit(asks, {"cpus": grid_search([1, 4, *[3] * 30])}, scheduler=deciding(decide), executor=virtual_executor())
    waited = seen[: [n for n, number in enumerate(seen) if number == 0][100]]
    assert 0 < len(set(waited)) - 1 < 30, "those behind it wait as soon as many have overtaken it"
    assert seen[-1] == 0, "but not until the first trial has ended"


def test_a_paused_trial_that_the_scheduler_does_not_want_any_more_keeps_no_resources_from_others():
    """It chose it so often, in vain, that the others have to wait for it."""
    begun = []

    class Fickle(FIFOScheduler):
        def on_trial_result(self, tune_controller, trial, result):
            return self.PAUSE if trial.number == 0 and result["n"] == 1 else self.CONTINUE

        def choose_trial_to_run(self, tune_controller):
            pending, paused = tune_controller.first_pending(), tune_controller.first_paused()
            return paused or pending if 3 < len(begun) < 10 else pending or paused

    def train(config):
        begun.append(config["cpus"])
        for n in range(restored_state() + 1, 3):
            clock.current.sleep(1 + len(begun) / 100)
            report_state(n, {"n": n})

    asks = with_resources(train, lambda config: {"cpu": config["cpus"]})
    grid = fit(asks, {"cpus": grid_search([4, *[1] * 30])}, scheduler=Fickle(), executor=virtual_executor())
    assert [result.metrics["n"] for result in grid] == [2] * 31
    assert begun[-1] == 4


def test_a_start_after_a_pause_is_no_attempt_after_a_failure(caplog):
    def train(config):
        if not restored_state():
            report_state(1, {"n": 1})
        raise ValueError("on purpose")

    fit(train, scheduler=PauseOnce(1), max_failures=1)
    assert [text for text in caplog.messages if "; attempt 2 of 2 starts from checkpoint_000000" in text]


def test_a_function_that_has_returned_is_not_paused():
    begun = []

    def train(config):
        begun.append(config)
        return {"n": 1}

    grid = fit(train, scheduler=PauseOnce(1))
    assert (len(begun), grid[0].metrics["n"]) == (1, 1)
    assert read_run(run_path()).trials[0].ending.text == "the trainable has returned"


@pytest.mark.parametrize("where", ["setup", "restore", "step"])
def test_a_trial_that_need_not_be_saved_is_paused_at_once(where):
    """Trial 0 asks for the pause of trial 1 while this one is set up or loads, or wants nothing saved."""
    begun = []

    class Slow(SavedCounter):
        def setup(self, config):
            super().setup(config)
            if where == "setup":
                self.begin()

        def load_checkpoint(self, checkpoint):
            super().load_checkpoint(checkpoint)
            self.begin()

        def begin(self):
            if self.config["i"] == 1:
                begun.append(clock.current.monotonic())
                clock.current.sleep(10)

        def step(self):
            clock.current.sleep(1)
            if where == "step" and self.n == 0:
                self.begin()
            return super().step()

    def decide(context, trial, result):
        if trial.number == 1 and result["n"] == 1 and where == "restore":
            return "PAUSE"
        if trial.number == 0 and result["n"] == 3:
            context.pause_trial(context.get_trials()[1], should_checkpoint=where != "step")
        return "CONTINUE"

    space = {"i": grid_search([0, 1]), "end": 5}
    grid = fit(Slow, space, scheduler=deciding(decide), executor=virtual_executor())
    assert begun == [begun[0], 4 if where == "step" else 3]
    assert begun[0] < 3
    assert [result.metrics["n"] for result in grid] == [5, 5]


def test_a_trial_without_a_decision_goes_on_and_can_be_paused_later():
    """Trial 0 asks for it while trial 1 computes."""
    paused = []

    def train(config):
        for n in range(restored_state() + 1, 4):
            clock.current.sleep(config["seconds"])
            report_state(n, {"n": n})

    def decide(context, trial, result):
        first, second = context.get_trials()
        if trial is second and result["n"] == 1:
            return "NOOP"
        if trial is first and result["n"] == 2:
            paused.append(second.status)
            context.pause_trial(second)
        return "CONTINUE"

    space = {"seconds": grid_search([1, 1.2])}
    grid = fit(train, space, scheduler=deciding(decide), executor=virtual_executor())
    assert paused == ["RUNNING"]
    assert [[row["n"] for row in result.get_rows()] for result in grid] == [[1, 2, 3]] * 2
    assert grid[1].metrics["iterations_since_restore"] == 1


def test_a_checkpoint_that_a_paused_trial_has_not_reported_is_removed_with_it():
    """Trial 1 has written a checkpoint when trial 0 asks for its pause, and later for its end."""

    def train(config):
        for n in range(1, 4):
            clock.current.sleep(10 * config["i"] or 1)
            report_state(n, {"n": n})

    def decide(context, trial, result):
        other = context.get_trials()[1]
        if trial.number == 0 and result["n"] == 1:
            context.pause_trial(other, should_checkpoint=False)  # the third one takes its room
        if trial.number == 0 and result["n"] == 2:
            context.stop_trial(other)
        return "CONTINUE"

    grid = fit(train, {"i": grid_search([0, 1, 0])}, scheduler=deciding(decide), executor=virtual_executor(2))
    assert [len(list(Path(result.path).glob("checkpoint_*"))) for result in grid] == [3, 0, 3]
