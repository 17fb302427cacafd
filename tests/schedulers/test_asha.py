"""ASHA: which trials continue, end, or are promoted."""

import math
from collections import Counter

import pytest
from kit import FakeContext, SavedCounter, fit, make_trial, run_trial

from minitune.experiment.lifecycle import Transition
from minitune.schedulers import ASHAScheduler

CONTEXT = FakeContext()


def asha(**kwargs):
    return ASHAScheduler(**{"metric": "score", "mode": "max", "max_t": 64, "grace_period": 4, **kwargs})


def ask(scheduler, trial, t, value):
    return scheduler.on_trial_result(CONTEXT, trial, {"training_iteration": t, "score": value})


def decisions(scheduler, values, t=4):
    return [ask(scheduler, make_trial(i), t, value) for i, value in enumerate(values)]


# -- stopping ------------------------------------------------------------------------------------------------------


def test_the_best_quarter_of_a_rung_goes_on_the_newcomer_included():
    """Of fewer than eight, this is only the best: the second of seven is not in the best quarter, that of eight is."""
    assert decisions(asha(), [5, 4, 6, 3, 5.5, 7, 6.5, 6.9, 6.8]) == [
        "CONTINUE",
        "STOP",
        "CONTINUE",
        "STOP",
        "STOP",
        "CONTINUE",
        "STOP",
        "CONTINUE",
        "STOP",
    ]


@pytest.mark.parametrize("bad", [math.nan, None, "high", -math.inf, [1.0]])
def test_result_without_a_number_is_worst_and_ends_even_as_the_first(bad):
    assert decisions(asha(), [bad, -1e308, bad]) == ["STOP", "CONTINUE", "STOP"]


def test_a_trial_that_goes_back_in_time_is_not_recorded_again():
    scheduler = asha()
    trial = make_trial(1)
    ask(scheduler, trial, 16, 5)
    scheduler.on_trial_error(CONTEXT, trial)
    scheduler.on_trial_add(CONTEXT, trial)
    assert ask(scheduler, trial, 4, 5) == "CONTINUE"
    assert ask(scheduler, trial, 16, math.nan) == "CONTINUE"
    assert ask(scheduler, make_trial(2), 4, 1) == "CONTINUE"  # still the first at rung 4


def test_max_t_ends_a_trial_or_lets_it_run_on():
    assert ask(asha(), make_trial(), 64, 1) == "STOP"
    free = asha(stop_last_trials=False)
    assert ask(free, make_trial(), 64, math.nan) == "CONTINUE"
    assert ask(free, make_trial(), 1e9, math.nan) == "CONTINUE"


def test_a_trial_that_ends_by_itself_counts_at_its_rung_once():
    scheduler = asha()
    trial, other = make_trial(1), make_trial(2)
    scheduler.on_trial_complete(CONTEXT, trial, {"training_iteration": 4, "score": 10})
    assert ask(scheduler, other, 4, 1) == "STOP"
    scheduler.on_trial_complete(CONTEXT, other, {"training_iteration": 4, "score": 1})
    assert scheduler._arrivals == 2


def test_a_decision_tells_its_reason():
    scheduler = asha(mode="min", metric="eval/loss")
    result = {"training_iteration": 4, "eval/loss": 0.25}
    scheduler.on_trial_result(CONTEXT, make_trial(1), result)
    stop = scheduler.on_trial_result(CONTEXT, make_trial(2), {**result, "eval/loss": 0.5})
    assert stop.reason == ("rank 2 of 2 at training_iteration 4, where the best 1 go on: eval/loss=0.5, cutoff 0.25")
    nan = scheduler.on_trial_result(CONTEXT, make_trial(3), {**result, "eval/loss": math.nan})
    assert "eval/loss=no number" in nan.reason
    last = scheduler.on_trial_result(CONTEXT, make_trial(4), {**result, "training_iteration": 64})
    assert "max_t=64" in last.reason


# -- brackets --------------------------------------------------------------------------------------------------------


def test_brackets_are_drawn_with_the_shares_of_hyperband():
    scheduler = asha(max_t=81, grace_period=1, reduction_factor=3, brackets=4)
    scheduler.set_seed(7)
    for number in range(4000):
        scheduler.on_trial_add(CONTEXT, make_trial(number))
    counts = Counter(standing.bracket for standing in scheduler._standings.values())
    for bracket, share in enumerate((27 / 49, 12 / 49, 6 / 49, 4 / 49)):
        assert abs(counts[bracket] / 4000 - share) < 0.03


def test_a_higher_bracket_starts_one_rung_higher():
    scheduler = asha(brackets=2, grace_period=1, max_t=64)
    assert [[rung.time for rung in rungs] for rungs in scheduler._brackets] == [
        [1, 4, 16],
        [4, 16],
    ]


def test_brackets_without_a_rung_are_dropped_with_a_warning(caplog):
    scheduler = asha(brackets=5, grace_period=1, max_t=10)
    assert len(scheduler._brackets) == 2
    assert "2 brackets instead of 5" in caplog.text


def test_without_any_rung_only_max_t_ends_a_trial(caplog):
    scheduler = asha(grace_period=10, max_t=10)
    assert "no trial before max_t" in caplog.text
    assert decisions(scheduler, [3, 1, math.nan], t=9) == ["CONTINUE"] * 3
    assert decisions(scheduler, [3], t=10) == ["STOP"]


# -- state and arguments -----------------------------------------------------------------------------------------------


def test_a_state_with_other_rungs_is_refused():
    with pytest.raises(ValueError, match="same max_t"):
        asha(max_t=16).set_state(asha(max_t=64).get_state())


def test_a_trial_that_has_reached_max_t_does_not_count_as_stopped():
    scheduler = asha()
    decisions(scheduler, [3, 2])
    assert decisions(scheduler, [3, 2, 1], t=64) == ["STOP"] * 3
    assert scheduler.debug_string() == "Using AsyncHyperBand: num_stopped=1"


# -- promotion ------------------------------------------------------------------------------------------------------


class PromotingRun:
    """Runs trials of ASHA's promoting variant one after the other; trial i always reports `values[i]`."""

    def __init__(self, values, **kwargs):
        self.scheduler = asha(variant="promote", **{"grace_period": 1, "max_t": 16, **kwargs})
        self.trials = [make_trial(number) for number in range(len(values))]
        self.values = dict(zip(self.trials, values, strict=True))
        self.context = FakeContext(self.trials)
        self.times = dict.fromkeys(self.trials, 0)
        self.resumed = []
        for trial in self.trials:
            self.scheduler.on_trial_add(self.context, trial)

    def step(self):
        """Start the trial that the scheduler chooses, and run it until it is paused or stopped."""
        trial = self.scheduler.choose_trial_to_run(self.context)
        assert trial is self.scheduler.choose_trial_to_run(self.context), "choosing must be idempotent"
        if trial is not None:
            if self.times[trial]:
                self.resumed.append((trial.number, self.times[trial]))
            self.run(run_trial(trial))
        return trial

    def run(self, trial):
        while True:
            self.times[trial] += 1
            result = {"training_iteration": self.times[trial], "score": self.values[trial]}
            decision = self.scheduler.on_trial_result(self.context, trial, result)
            if decision == "PAUSE":
                trial.move(Transition.PAUSE)
                return decision
            if decision == "STOP":
                self.scheduler.on_trial_complete(self.context, trial, result)
                trial.move(Transition.STOP)
                return decision

    def to_the_end(self):
        while self.step() is not None:
            pass


def test_promotion_prefers_the_highest_rung_then_a_new_trial():
    run = PromotingRun([1, 2, 3, 4, 5, 6, 7, 8])
    for _ in range(4):
        run.step()
    assert run.resumed == []
    run.step()  # four at rung 1: the best one goes on
    assert run.resumed == [(3, 1)]
    assert [run.times[trial] for trial in run.trials[:5]] == [1, 1, 1, 4, 0]
    run.step()
    assert run.times[run.trials[4]] == 1


def test_in_the_end_one_trial_reaches_max_t_and_the_rest_is_stopped():
    run = PromotingRun([1, 2, 3, 4, 5])
    run.to_the_end()
    assert [run.times[trial] for trial in run.trials] == [1, 1, 1, 4, 16]
    paused = [trial for trial in run.trials if trial.status == "PAUSED"]
    assert [request[1] for request in run.context.requests[: len(paused)]] == paused
    assert len(paused) == 4
    for trial in paused:
        run.scheduler.on_trial_remove(run.context, trial)
    assert run.scheduler.debug_string() == "Using AsyncHyperBand: num_stopped=4"


def test_a_run_tells_how_many_were_not_promoted_and_stopped():
    scheduler = ASHAScheduler(max_t=4, grace_period=1, reduction_factor=2, variant="promote")
    grid = fit(SavedCounter, num_samples=4, metric="n", mode="max", scheduler=scheduler, checkpoint_frequency=1)
    early = [result for result in grid if result.metrics["training_iteration"] < 4]
    assert scheduler.debug_string() == f"Using AsyncHyperBand: num_stopped={len(early)}"
    assert 0 < len(early) < 4


@pytest.mark.parametrize("supply", ["ENDED", "WAITING"])
def test_no_trial_is_promoted_while_more_may_come(supply):
    run = PromotingRun([1, 2])
    run.context.supply = "OPEN"
    run.to_the_end()
    assert run.resumed == []
    assert run.context.requests == []
    run.context.supply = supply
    run.to_the_end()
    assert run.resumed == [(1, 1), (1, 4)]


def test_values_that_are_no_numbers_are_never_promoted():
    run = PromotingRun([math.nan, None, math.nan, math.nan, math.nan])
    run.to_the_end()
    assert run.resumed == []
    assert {request[1] for request in run.context.requests} == set(run.trials)


def test_ties_promote_exactly_one_in_four_the_first_ones():
    run = PromotingRun([1.0] * 8, max_t=4)
    run.context.supply = "OPEN"
    run.to_the_end()
    assert [number for number, _ in run.resumed] == [0, 1]


def test_a_trial_that_is_being_saved_is_not_taken_for_a_running_one():
    run = PromotingRun([4, 3, 2, 1])
    for _ in range(3):
        run.step()
    last = run.trials[3]
    run.values[last] = 9
    run_trial(last)
    assert run.scheduler.on_trial_result(run.context, last, {"training_iteration": 1, "score": 9}) == "PAUSE"
    last.move(Transition.SAVE)
    assert run.scheduler.choose_trial_to_run(run.context) is None
    last.move(Transition.PAUSE)
    assert run.scheduler.choose_trial_to_run(run.context) is last


def test_a_retry_before_the_promotion_waits_again():
    run = PromotingRun([4, 3, 2])
    run.step()
    trial = run_trial(run.trials[0])  # as after a failed save: it was queued and started again
    assert run.scheduler.on_trial_result(run.context, trial, {"training_iteration": 1, "score": 4}) == "PAUSE"
    assert run.scheduler._arrivals == 1


def test_a_best_trial_that_fails_for_good_leaves_its_place_to_the_next():
    run = PromotingRun([5, 4, 1, 1], max_t=4)
    for _ in range(4):
        run.step()
    best = run.scheduler.choose_trial_to_run(run.context)
    assert best is run.trials[0]
    run_trial(best)
    best.move(Transition.FAIL)
    run.scheduler.on_trial_error(run.context, best)
    run.to_the_end()
    assert run.times[run.trials[1]] == 4


def test_a_time_attr_that_is_never_reported_is_told_once(caplog):
    scheduler = asha(time_attr="epok")
    result = {"epoch": 9, "eval/loss": 1, "time_total_s": 1.0, "config/lr": 0.1}
    told = {scheduler.on_trial_result(CONTEXT, make_trial(i), {**result, "score": i}) for i in range(3)}

    assert told == {"CONTINUE"}
    assert [text.partition(". ")[0] for text in caplog.messages] == [
        "AsyncHyperBandScheduler uses time_attr='epok', but a result has no such number, so it is not compared; "
        "reported were: epoch, eval/loss, score"
    ]
