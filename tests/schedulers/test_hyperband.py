"""HyperBand, step by step: which trials wait, continue and end, and the reasons it gives."""

import math
import pickle

import pytest
from kit import FakeContext, make_trial, run_trial

from minitune.experiment.lifecycle import Transition
from minitune.schedulers import HyperBandScheduler


class Band:
    """A bracket of nine at max_t=9, eta=3: rungs 1, 3, 9. Trial i always reports `values[i]`."""

    def __init__(self, values, supply="ENDED", kind=HyperBandScheduler, **kwargs):
        self.scheduler = kind(**{"metric": "score", "mode": "max", "max_t": 9, **kwargs})
        self.trials = [make_trial(number) for number in range(len(values))]
        self.values = dict(enumerate(values))
        self.context = FakeContext(self.trials)
        self.context.supply = supply
        for trial in self.trials:
            self.scheduler.on_trial_add(self.context, trial)

    def report(self, number, t, **more):
        trial = self.trials[number]
        if trial.status != "RUNNING":
            run_trial(trial)
        result = {"training_iteration": t, "score": self.values[number], **more}
        answer = self.scheduler.on_trial_result(self.context, trial, result)
        if answer == "PAUSE":
            trial.move(Transition.PAUSE)
        elif answer == "STOP":
            self.scheduler.on_trial_complete(self.context, trial, result)
            trial.move(Transition.STOP)
        return answer

    def report_all(self, numbers, t):
        return [str(self.report(number, t)) for number in numbers]

    def fail(self, number, *, for_good):
        trial = self.trials[number]
        trial.num_failures += 1
        trial.max_failures = 0 if for_good else 3
        self.scheduler.on_trial_error(self.context, trial)
        if for_good:
            trial.move(Transition.FAIL)
        else:
            trial.move(Transition.RETRY)
            self.scheduler.on_trial_add(self.context, trial)

    def asked_to_stop(self):
        """The numbers of the trials that were asked to end; they end now."""
        found = []
        while self.context.requests:
            verb, trial = self.context.requests.pop(0)
            assert verb == "stop"
            if trial.is_finished():
                continue
            found.append(trial.number)
            self.scheduler.on_trial_remove(self.context, trial)
            trial.move(Transition.STOP)
        return sorted(found)

    def chosen(self):
        trial = self.scheduler.choose_trial_to_run(self.context)
        assert trial is self.scheduler.choose_trial_to_run(self.context), "choosing must be idempotent"
        return None if trial is None else trial.number


def rungs_of(**kwargs):
    """Size and rungs of each bracket of the first band."""
    band = Band([0.0] * 500, **kwargs)
    first, *_ = sizes = [size_and_times(bracket) for bracket in band.scheduler._brackets]
    return sizes[: sizes.index(first, 1) if first in sizes[1:] else None]


def size_and_times(bracket):
    return bracket.entered + bracket.room, [rung.time for rung in bracket.rungs]


def test_the_bracket_that_cuts_hardest_comes_first_as_in_the_paper():
    assert rungs_of(max_t=81) == [
        (81, [1, 3, 9, 27, 81]),
        (34, [3, 9, 27, 81]),
        (15, [9, 27, 81]),
        (8, [27, 81]),
        (5, [81]),
    ]


@pytest.mark.parametrize(
    ("max_t", "eta", "first"),
    [
        (100, 3, (81, [1, 4, 11, 33, 100])),
        (50, 3, (27, [2, 6, 17, 50])),
        (1, 3, (1, [1])),
        (0.5, 3, (1, [0.5])),
        (2.5, 2, (2, [1, 2.5])),
        (5, 1.5, (4, [1, 2, 3, 5])),
        (1000, 10, (1000, [1, 10, 100, 1000])),
    ],
)
def test_every_bracket_ends_at_max_t_also_where_that_is_no_power(max_t, eta, first):
    band = HyperBandScheduler(metric="score", mode="max", max_t=max_t, reduction_factor=eta)
    band.on_trial_add(FakeContext(), make_trial())
    assert size_and_times(band._brackets[0]) == first


def test_all_wait_at_a_rung_and_the_best_third_goes_on():
    band = Band([0, 1, 2, 3, 4, 5, 6, 7, 8], supply="OPEN")
    assert band.report_all(range(8), 1) == ["PAUSE"] * 8
    assert band.chosen() == 8, "the last one has not begun"
    assert band.report(8, 1) == "CONTINUE", "the last one closes the rung, and is among the best"
    assert band.asked_to_stop() == [0, 1, 2, 3, 4, 5]
    assert band.chosen() == 7
    assert band.report(8, 2) == "CONTINUE"
    assert band.report(8, 3) == "PAUSE"
    assert band.report(7, 3) == "PAUSE"
    assert band.chosen() == 6
    assert band.report(6, 3) == "STOP"
    assert band.asked_to_stop() == [7]
    assert band.chosen() == 8
    assert band.report(8, 8) == "CONTINUE"
    assert band.report(8, 9) == "STOP"
    assert band.scheduler.debug_string() == "Using HyperBand: num_stopped=8"


def test_of_equal_values_the_first_go_on():
    band = Band([1.0] * 9)
    band.report_all(range(9), 1)
    assert band.asked_to_stop() == [3, 4, 5, 6, 7]  # the ninth got STOP as its own answer


@pytest.mark.parametrize("bad", [math.nan, None, "high", -math.inf, [1.0]])
def test_trial_without_a_number_is_never_promoted(bad):
    band = Band([bad, bad, 1, bad, bad, bad, bad, bad, bad])
    band.report_all(range(9), 1)
    assert band.asked_to_stop() == [0, 1, 3, 4, 5, 6, 7]
    assert band.chosen() == 2
    none = Band([bad] * 9)
    assert none.report_all(range(9), 1)[-1] == "STOP"
    assert len(none.asked_to_stop()) == 8
    assert not none.scheduler._brackets


def test_a_trial_that_skips_rungs_has_come_to_the_first_of_them():
    band = Band([5, 6, 7, 0, 0, 0, 0, 0, 0])
    assert band.report(0, 4) == "PAUSE"
    assert band.report_all([1, 2], 1) == ["PAUSE", "PAUSE"]
    assert band.report_all(range(3, 9), 1)[-1] == "STOP"
    band.asked_to_stop()
    assert band.report_all([2, 1], 3) == ["PAUSE", "PAUSE"]
    assert band.chosen() == 0
    assert band.report(0, 5) == "STOP"
    assert band.asked_to_stop() == [1]


def test_a_leap_beyond_max_t_ends_a_trial_or_lets_it_wait_to_be_compared():
    assert Band([5, 6]).report(0, 100) == "STOP"
    free = Band([5, 6, 7], stop_last_trials=False)
    assert free.report_all([0, 1], 100) == ["PAUSE", "PAUSE"]
    assert free.report(2, 100) == "CONTINUE"
    assert free.asked_to_stop() == [0, 1]
    assert free.report(2, 1000) == "CONTINUE"


def test_a_trial_that_may_run_on_continues_at_max_t():
    free = Band([5], stop_last_trials=False)
    assert [free.report(0, t) for t in (1, 3, 8, 9, 10)] == ["CONTINUE"] * 5
    assert free.asked_to_stop() == []


def test_failed_trials_count_and_retried_trials_are_waited_for():
    band = Band([8, 7, 6, 5, 4, 3, 2, 1, 0])
    band.report_all(range(7), 1)
    for number in (7, 8):
        run_trial(band.trials[number])
    band.fail(7, for_good=False)
    band.fail(8, for_good=True)
    assert band.asked_to_stop() == []
    assert band.chosen() == 7
    assert band.report(7, 1) == "STOP"
    assert band.asked_to_stop() == [3, 4, 5, 6], "three of nine go on, although one of the nine has failed"


def test_the_last_one_missing_may_end_otherwise():
    for how in ("complete", "remove", "error"):
        band = Band([3, 2, 1])
        band.report_all([0, 1], 1)
        last = band.trials[2]
        if how == "remove":
            band.scheduler.on_trial_remove(band.context, last)
            last.move(Transition.STOP)
        else:
            run_trial(last)
            if how == "complete":
                result = {"training_iteration": 1, "score": 100}
                band.scheduler.on_trial_complete(band.context, last, result)
                last.move(Transition.STOP)
            else:
                band.fail(2, for_good=True)
        assert band.asked_to_stop() == [1], how
        assert band.chosen() == 0


def test_a_trial_that_is_started_again_while_it_waits_goes_no_further():
    band = Band([3, 2, 1])
    band.report(0, 1)
    band.trials[0].move(Transition.UNPAUSE)
    assert band.report(0, 0.5) == "CONTINUE"
    assert band.report(0, 1) == "PAUSE"
    assert band.scheduler._arrivals == 1


def test_trial_saving_while_its_rung_closes_is_stopped_afterwards():
    band = Band([1, 2, 3])
    saving, last = band.trials[0], band.trials[2]
    run_trial(saving)
    assert band.scheduler.on_trial_result(band.context, saving, {"training_iteration": 1, "score": 1}) == "PAUSE"
    saving.move(Transition.SAVE)
    band.report(1, 1)
    run_trial(last)
    assert band.report(2, 1) == "CONTINUE"
    assert band.asked_to_stop() == [1]
    band.chosen()
    assert band.asked_to_stop() == [], "its save may be wanted"
    saving.move(Transition.PAUSE)
    assert band.chosen() is None
    assert band.asked_to_stop() == [0]


def test_while_trials_may_still_come_a_bracket_waits_to_be_filled():
    band = Band([3, 2, 1], supply="OPEN")
    band.report_all(range(3), 1)
    assert band.chosen() is None
    assert not band.context.requests


@pytest.mark.parametrize("supply", ["ENDED", "WAITING"])
def test_a_bracket_ranks_the_present_trials_when_no_more_come(supply):
    band = Band([3, 2, 1], supply="OPEN")
    band.report_all(range(3), 1)
    band.context.supply = supply
    assert band.chosen() == 0
    assert band.asked_to_stop() == [1, 2]


def test_searcher_without_a_suggestion_is_asked_again_while_trials_run():
    band = Band([3, 2, 1], supply="WAITING")
    band.report_all(range(2), 1)
    assert band.chosen() == 2
    run_trial(band.trials[2])
    assert band.chosen() is None
    assert not band.context.requests


def test_later_trials_begin_the_next_bracket():
    band = Band([3, 2, 1], supply="WAITING")
    band.report_all(range(3), 1)
    assert band.chosen() == 0
    late = make_trial(3)
    band.scheduler.on_trial_add(band.context, late)
    assert [bracket.index for bracket in band.scheduler._brackets] == [2, 1]


def test_a_full_bracket_is_followed_by_the_next_and_the_older_one_goes_first():
    band = Band([*range(9, 0, -1), 20, 21], supply="OPEN")
    assert [bracket.index for bracket in band.scheduler._brackets] == [2, 1]
    band.report_all(range(9), 1)
    assert band.asked_to_stop() == [3, 4, 5, 6, 7]
    assert band.chosen() == 0, "before the trials of the next bracket, which have not begun"
    for number in range(3):
        run_trial(band.trials[number])
    assert band.chosen() == 9


def test_decisions_tell_their_reasons_and_facts():
    band = Band([1, 2, 3], metric="eval/loss", mode="min")
    for number in range(3):
        waits = band.report(number, 1, **{"eval/loss": number + 0.5})
        if number == 0:
            assert waits.reason == (
                "at training_iteration 1 it waits for the others of its bracket (2 still run): eval/loss=0.5"
            )
            assert waits.facts == {
                "rule": "hyperband",
                "metric": "eval/loss",
                "value": 0.5,
                "time": 1,
                "bracket": 2,
                "rung": 1,
                "of": 3,
            }
    assert waits == "STOP"
    assert waits.reason == "rank 3 of 3 at training_iteration 1, where the best 1 go on: eval/loss=2.5, cutoff 0.5"
    assert {key: waits.facts[key] for key in ("rank", "of", "cutoff", "value")} == {
        "rank": 3,
        "of": 3,
        "cutoff": 0.5,
        "value": 2.5,
    }
    band.report(0, 3, **{"eval/loss": 0.5})
    last = band.report(0, 9, **{"eval/loss": 0.5})
    assert last.reason == "training_iteration 9 has reached max_t=9"


@pytest.mark.parametrize(("last", "rank"), [(9, 1), (4.5, 2), (3.5, 3)])
def test_the_last_trial_at_a_rung_continues_with_its_rank(last, rank):
    band = Band([5, 4, 3, 2, 1, 0, 0, 0, last])
    assert band.report_all(range(8), 1) == ["PAUSE"] * 8
    decision = band.report(8, 1)
    assert decision == "CONTINUE"
    assert (decision.facts["rank"], decision.facts["of"]) == (rank, 9)
    assert decision.reason.startswith(f"rank {rank} of 9 at training_iteration 1")


def test_trials_dropped_before_a_driver_crash_are_stopped_after_resume():
    band = Band([3, 2, 1])
    band.report_all(range(2), 1)
    run_trial(band.trials[2])
    band.scheduler.on_trial_result(band.context, band.trials[2], {"training_iteration": 1, "score": 1})
    band.context.requests.clear()
    again = HyperBandScheduler(metric="score", mode="max", max_t=9)
    again.set_state(pickle.loads(pickle.dumps(band.scheduler.get_state())))
    band.scheduler = again
    assert band.chosen() == 0
    assert 1 in band.asked_to_stop()
    answer = again.on_trial_result(band.context, band.trials[2], {"training_iteration": 2, "score": 1})
    assert answer == "STOP"


def test_a_state_of_other_brackets_is_refused():
    with pytest.raises(ValueError, match=r"max_t=9, reduction_factor=3.*use the same"):
        HyperBandScheduler(max_t=81).set_state(Band([1]).scheduler.get_state())
