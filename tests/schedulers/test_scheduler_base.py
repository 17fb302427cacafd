"""The base of schedulers: defaults, FIFO, schedulers made by users, and names."""

import math
import pickle

import pytest
from kit import FakeContext, make_trial, run_trial

from minitune import schedulers
from minitune.experiment.lifecycle import Transition
from minitune.schedulers import (
    ASHAScheduler,
    FIFOScheduler,
    HyperBandScheduler,
    MedianStoppingRule,
    PopulationBasedTraining,
    TrialScheduler,
    create_scheduler,
)


def test_fifo_takes_pending_trials_in_order_then_paused_ones_and_stops_none():
    trials = [make_trial(number) for number in range(3)]
    context = FakeContext(trials)
    scheduler = FIFOScheduler()
    run_trial(trials[0]).move(Transition.PAUSE)
    assert scheduler.choose_trial_to_run(context) is trials[1]
    run_trial(trials[1])
    run_trial(trials[2])
    assert scheduler.choose_trial_to_run(context) is trials[0]
    run_trial(trials[0])
    assert scheduler.choose_trial_to_run(context) is None
    assert scheduler.on_trial_result(context, trials[0], {"loss": float("nan")}) == "CONTINUE"
    assert scheduler.debug_string() == "Using FIFO scheduling algorithm."


def test_fifo_scans_no_list():
    class Strict(FakeContext):
        def get_trials(self):
            raise AssertionError("a scan of all trials")

        get_live_trials = get_trials

    trials = [make_trial(number) for number in range(3)]
    assert FIFOScheduler().choose_trial_to_run(Strict(trials)) is trials[0]


def test_a_users_scheduler_that_scans_the_trials_works():
    class Largest(TrialScheduler):
        def on_trial_add(self, tune_controller, trial):
            self.seen = [*getattr(self, "seen", []), trial.trial_id]

        def on_trial_result(self, tune_controller, trial, result):
            return self.STOP if result["loss"] > 1 else self.CONTINUE

        def choose_trial_to_run(self, tune_controller):
            waiting = [t for t in tune_controller.get_trials() if t.status in ("PENDING", "PAUSED")]
            return max(waiting, key=lambda t: t.config["size"], default=None)

    trials = [make_trial(number, config={"size": number}) for number in range(3)]
    scheduler, context = Largest(), FakeContext(trials)
    scheduler.on_trial_add(context, trials[0])
    assert scheduler.choose_trial_to_run(context) is trials[2]
    assert scheduler.on_trial_result(context, trials[0], {"loss": 2}) == "STOP"
    assert scheduler.get_state() == {"seen": ["t0000"]}


def test_defaults_answer_every_hook():
    scheduler, context, trial = TrialScheduler(), FakeContext(), make_trial()
    scheduler.set_seed(1)
    for hook in (scheduler.on_trial_add, scheduler.on_trial_error, scheduler.on_trial_remove):
        assert hook(context, trial) is None
    assert scheduler.on_trial_complete(context, trial, {}) is None
    assert (scheduler.CONTINUE, scheduler.PAUSE, scheduler.STOP, scheduler.NOOP) == (
        "CONTINUE",
        "PAUSE",
        "STOP",
        "NOOP",
    )
    assert "TrialScheduler" in scheduler.debug_string()


def test_the_state_of_a_plain_subclass_is_saved_whole(tmp_path):
    class Counting(FIFOScheduler):
        count = 0

    first, second = Counting(), Counting()
    first.count = 5
    first.save(str(tmp_path / "s"))
    first.get_state()["count"] = 9
    assert first.count == 5
    second.restore(str(tmp_path / "s"))
    assert second.count == 5


ARGUMENTS = {
    "fifo": {},
    "pbt": {"hyperparam_mutations": {"lr": [0.1, 0.2]}},
    "pbt_replay": {},
}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("FIFO", "FIFOScheduler"),
        ("asha", "AsyncHyperBandScheduler"),
        ("async_hyperband", "AsyncHyperBandScheduler"),
        ("AsyncHyperBand", "AsyncHyperBandScheduler"),
        ("median_stopping_rule", "MedianStoppingRule"),
        ("medianstopping", "MedianStoppingRule"),
        ("hyperband", "HyperBandScheduler"),
        ("hb_bohb", "HyperBandForBOHB"),
        ("pbt", "PopulationBasedTraining"),
    ],
)
def test_schedulers_are_made_by_name(name, kind, caplog):
    own = ARGUMENTS.get(name.lower(), {})
    usual = {} if kind == "FIFOScheduler" else {"metric": "m", "mode": "min"}
    made = create_scheduler(name, **usual, **own)
    assert type(made).__name__ == kind
    assert getattr(schedulers, kind) is type(made)
    assert kind in schedulers.__all__
    assert made.metric == usual.get("metric")
    assert not caplog.records
    if usual:
        assert isinstance(made, FIFOScheduler), "as in Ray Tune"
        with pytest.raises(ValueError, match=f"{kind} needs a metric and a mode, but got metric='m', mode=None"):
            create_scheduler(name, **own).set_search_properties("m", None)
        with pytest.raises(ValueError, match="mode='min' or mode='max'"):
            create_scheduler(name, **own).on_trial_add(FakeContext(), make_trial())


def test_unknown_arguments_are_named_once(caplog):
    for _ in range(2):
        create_scheduler("asha", max_t=3, patience=4, hurry=1)
    assert [record.message.partition(";")[0] for record in caplog.records] == [
        "AsyncHyperBandScheduler does not take hurry, patience"
    ]


SCORED = {"metric": "score", "mode": "max"}
MUTATES = {"hyperparam_mutations": {"x": [1]}, **SCORED}


class Own(ASHAScheduler):
    def choose_trial_to_run(self, tune_controller):
        return None


@pytest.mark.parametrize(
    ("scheduler", "time_attr", "first_turn", "in_order"),
    [
        (FIFOScheduler(), None, None, True),
        (ASHAScheduler(grace_period=3, max_t=27, **SCORED), "training_iteration", 3, True),
        (ASHAScheduler(grace_period=3, max_t=27, brackets=3, **SCORED), "training_iteration", 3, True),
        (ASHAScheduler(grace_period=5, max_t=5, **SCORED), "training_iteration", None, True),
        (ASHAScheduler(variant="promote", **SCORED), "training_iteration", 1, False),
        (Own(**SCORED), "training_iteration", 1, False),
        (HyperBandScheduler(time_attr="epoch", **SCORED), "epoch", None, False),
        (MedianStoppingRule(grace_period=7, **SCORED), "time_total_s", 7, True),
        (PopulationBasedTraining(perturbation_interval=5, **MUTATES), "time_total_s", 5, False),
        (PopulationBasedTraining("epoch", perturbation_interval=5, burn_in_period=8, **MUTATES), "epoch", 8, False),
    ],
)
def test_a_scheduler_tells_by_which_time_from_when_on_and_in_which_order_it_decides(
    scheduler, time_attr, first_turn, in_order
):
    assert (scheduler.time_attr, scheduler.first_turn, scheduler.chooses_in_order) == (time_attr, first_turn, in_order)


@pytest.mark.parametrize(
    ("value", "mode", "shown"),
    [(0, "max", "score=0"), (0.0, "min", "score=0"), (-2.5, "min", "score=-2.5"), (math.nan, "max", "score=no number")],
)
def test_a_reason_shows_the_value_as_it_was_reported(value, mode, shown):
    scheduler = ASHAScheduler(metric="score", mode=mode, max_t=9, reduction_factor=3)
    trial = make_trial()
    said = scheduler.on_trial_result(FakeContext([trial]), trial, {"training_iteration": 1, "score": value})
    assert f": {shown}, cutoff" in said.reason
    assert said.facts["value"] == (None if math.isnan(value) else value)


def test_a_scheduler_with_a_metric_and_no_mode_takes_the_largest_and_says_so(caplog):
    scheduler = ASHAScheduler(metric="the score of this test", max_t=9, reduction_factor=3)
    scheduler.set_search_properties(None, None)
    assert "has no mode, and neither has the run, so it is 'max'" in caplog.text
    trials = [make_trial(number) for number in range(3)]
    context = FakeContext(trials)
    results = [{"training_iteration": 1, "the score of this test": value} for value in (5, 9, 1)]
    said = [scheduler.on_trial_result(context, trial, result) for trial, result in zip(trials, results, strict=True)]
    assert said == ["CONTINUE", "CONTINUE", "STOP"]


def test_a_result_at_time_zero_is_a_result_and_one_without_a_time_is_told_once(caplog):
    scheduler = MedianStoppingRule("a time of its own", grace_period=0, min_samples_required=1, **SCORED)
    trials = [make_trial(number) for number in range(2)]
    context = FakeContext(trials)

    def ask(trial, score, **time):
        return scheduler.on_trial_result(context, trial, {"score": score, **time})

    at_zero = {"a time of its own": 0}
    assert [ask(trials[0], 5.0, **at_zero), ask(trials[1], 1.0, **at_zero)] == ["CONTINUE", "STOP"]
    assert caplog.messages == []
    assert [ask(trials[1], 1.0), ask(trials[1], 1.0)] == ["CONTINUE", "CONTINUE"]
    assert len(caplog.messages) == 1
    assert "uses time_attr='a time of its own', but a result has no such number" in caplog.text


@pytest.mark.parametrize("result", [{"epoch": 4}, {"score": 4.0}, {"epoch": math.nan, "score": 4.0}], ids=str)
@pytest.mark.parametrize("kind", [ASHAScheduler, HyperBandScheduler, MedianStoppingRule])
def test_a_result_without_metric_or_time_says_nothing(kind, result):
    scheduler, context, trial = kind(time_attr="epoch", **SCORED), FakeContext(), make_trial()
    scheduler.on_trial_add(context, trial)
    before = pickle.dumps(scheduler.get_state())
    assert scheduler.on_trial_result(context, trial, result) == "CONTINUE"
    assert pickle.dumps(scheduler.get_state()) == before


def test_a_scheduler_without_a_metric_takes_that_of_a_function_that_returns_a_value():
    assert (scheduler := FIFOScheduler()).set_search_properties(None, None)
    assert scheduler.metric == "_metric"
    with pytest.raises(ValueError, match="'min' or 'max'"):
        FIFOScheduler().set_search_properties("loss", "smallest")


@pytest.mark.parametrize(
    "scheduler",
    [
        HyperBandScheduler(max_t=9, **SCORED),
        PopulationBasedTraining("training_iteration", perturbation_interval=1, **MUTATES),
        PopulationBasedTraining("training_iteration", perturbation_interval=1, synch=True, **MUTATES),
    ],
    ids=["hyperband", "pbt", "pbt in step"],
)
def test_a_saved_state_holds_nothing_of_trials_that_have_ended(scheduler):
    trials = [make_trial(number, config={"x": 1}) for number in range(4)]
    context = FakeContext(trials)
    for trial in trials:
        scheduler.on_trial_add(context, trial)
    for trial in trials:
        run_trial(trial)
        scheduler.on_trial_result(context, trial, {"training_iteration": 1, "score": float(trial.number)})

    def kept():
        state = pickle.dumps(scheduler.get_state())
        return [trial.trial_id for trial in trials if trial.trial_id.encode() in state]

    assert kept() == [trial.trial_id for trial in trials]
    for trial in trials[:2]:
        scheduler.on_trial_complete(context, trial, {"training_iteration": 1, "score": 0.0})
    for trial in trials[2:]:
        scheduler.on_trial_remove(context, trial)
    assert kept() == []
