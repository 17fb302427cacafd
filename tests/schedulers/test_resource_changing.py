"""Which trial gets which resources, on trials made by hand."""

from __future__ import annotations

import math
import pickle
from types import SimpleNamespace
from typing import Any

import pytest
from kit import FakeContext, SavedCounter, fit, make_trial, run_path, run_trial

from minitune import ASHAScheduler, FIFOScheduler, Resources, Trial, TuneConfig, TuneError, grid_search
from minitune.decision import Decision
from minitune.experiment.lifecycle import Transition
from minitune.schedulers.resource_changing_scheduler import (
    DistributeResources,
    DistributeResourcesToTopJob,
    ResourceChangingScheduler,
)
from minitune.simulation import simulate


def machine(
    scheduler: ResourceChangingScheduler, base: Any, *, cpus: float = 8, gpus: float = 0, count: int = 4
) -> FakeContext:
    trials = [run_trial(make_trial(n, resources=Resources.of(base))) for n in range(count)]
    context = FakeContext(trials)
    context._resource_updater = SimpleNamespace(get_num_cpus=lambda: cpus, get_num_gpus=lambda: gpus)
    for trial in trials:
        scheduler.on_trial_add(context, trial)
    return context


def reported(scheduler: ResourceChangingScheduler, context: FakeContext, trial: Trial, n: float = 1) -> Any:
    """The trial's bundles after a report, once the decision is carried out."""
    result = {"n": n, "training_iteration": 4}
    decision = Decision.of(scheduler.on_trial_result(context, trial, result))
    trial.record_result(result)
    if decision.resources is not None:
        assert decision == "PAUSE"
        trial.move(Transition.PAUSE)
        trial.update_resources(decision.resources)
        assert scheduler.choose_trial_to_run(context) is not None
        run_trial(trial)
    return trial.resources.bundles


def end(scheduler: ResourceChangingScheduler, context: FakeContext, trial: Trial) -> None:
    scheduler.on_trial_complete(context, trial, {})
    trial.move(Transition.STOP)


def test_free_resources_are_divided_equally() -> None:
    scheduler = ResourceChangingScheduler()
    context = machine(scheduler, {"cpu": 1})
    one, two, three, four = context.trials
    assert [reported(scheduler, context, trial) for trial in context.trials] == [[{"CPU": 2}]] * 4
    end(scheduler, context, four)
    assert reported(scheduler, context, one) == [{"CPU": 3}]
    end(scheduler, context, three)
    assert reported(scheduler, context, one) == [{"CPU": 4}]
    assert reported(scheduler, context, one) == [{"CPU": 4}]
    end(scheduler, context, two)
    assert reported(scheduler, context, one) == [{"CPU": 8}]


def test_a_trial_shrinks_to_its_first_resources_when_others_join() -> None:
    scheduler = ResourceChangingScheduler()
    context = machine(scheduler, {"cpu": 2}, count=1)
    (trial,) = context.trials
    assert reported(scheduler, context, trial) == [{"CPU": 8}]
    for n in (1, 2, 3, 4):
        new = make_trial(n, resources=Resources.of({"cpu": 2}))
        context.trials.append(new)
        scheduler.on_trial_add(context, new)
        assert reported(scheduler, context, trial) == [{"CPU": max(2, 8 - 2 * n)}]


def test_resources_are_given_to_one_trial_only() -> None:
    scheduler = ResourceChangingScheduler()
    context = machine(scheduler, {"cpu": 1}, cpus=4, count=3)
    first, second, _ = context.trials
    one = scheduler.on_trial_result(context, first, {"training_iteration": 1})
    assert Decision.of(one).resources == Resources([{"CPU": 2}])
    assert scheduler.on_trial_result(context, second, {"training_iteration": 1}) == "CONTINUE"


@pytest.mark.parametrize(
    ("arguments", "base", "machine_has", "expected"),
    [
        ({"increase_by": {"CPU": 3}}, {"cpu": 1}, (8, 0), [{"CPU": 7}]),
        ({"increase_by": {"cpu": 1}, "increase_by_times": 2}, {"cpu": 1}, (8, 0), [{"CPU": 3}]),
        ({"increase_by_times": 2}, {"cpu": 1}, (8, 0), [{"CPU": 8}]),
        ({"reserve_resources": {"CPU": 3}}, {"cpu": 1}, (8, 0), [{"CPU": 5}]),
        ({}, {"cpu": 1, "gpu": 1}, (8, 4), [{"CPU": 1, "GPU": 4}]),
        ({"increase_by": {"CPU": 1, "GPU": 1}}, {"cpu": 1, "gpu": 1}, (8, 4), [{"CPU": 4, "GPU": 4}]),
        ({"add_bundles": True}, {"cpu": 2}, (8, 0), [{"CPU": 2}] * 4),
        ({"add_bundles": True, "increase_by": {"CPU": 1}}, {"cpu": 2}, (8, 0), [{"CPU": 2}, *[{"CPU": 1}] * 6]),
        ({}, {"cpu": 1, "memory": 5, "tokens": 2}, (8, 0), [{"CPU": 8, "memory": 5, "tokens": 2}]),
        ({}, {"cpu": 0.5}, (2, 0), [{"CPU": 1.5}]),
    ],
)
def test_a_lone_trial_grows_in_the_units_that_are_asked_for(
    arguments: dict[str, Any], base: Any, machine_has: tuple[float, float], expected: Any
) -> None:
    scheduler = ResourceChangingScheduler(None, DistributeResources(**arguments))
    context = machine(scheduler, base, cpus=machine_has[0], gpus=machine_has[1], count=1)
    assert reported(scheduler, context, context.trials[0]) == expected


@pytest.mark.parametrize(
    ("step", "first", "second"),
    [
        ({"CPU": 2}, [{"CPU": 5}], [{"CPU": 3}]),
        ({"GPU": 1}, [{"CPU": 1, "GPU": 2}], [{"CPU": 1, "GPU": 2}]),
        ({"GPU": 0.5}, [{"CPU": 1, "GPU": 2}], [{"CPU": 1, "GPU": 2}]),
    ],
    ids=str,
)
def test_trials_that_have_their_share_keep_it(step: Any, first: Any, second: Any) -> None:
    scheduler = ResourceChangingScheduler(None, DistributeResources(increase_by=step))
    context = machine(scheduler, {"cpu": 1}, cpus=8, gpus=4, count=2)
    for _ in range(2):
        assert [reported(scheduler, context, trial) for trial in context.trials] == [first, second]


def test_several_bundles_can_only_become_more() -> None:
    base = Resources([{}, {"CPU": 1}])
    scheduler = ResourceChangingScheduler(None, DistributeResources())
    context = machine(scheduler, base, count=1)
    with pytest.raises(ValueError, match="can add to only one bundle, but trials ask for 2; pass add_bundles=True"):
        reported(scheduler, context, context.trials[0])
    scheduler = ResourceChangingScheduler(None, DistributeResources(add_bundles=True))
    context = machine(scheduler, base, cpus=4, count=1)
    assert reported(scheduler, context, context.trials[0]) == [{}, *[{"CPU": 1}] * 4]


def test_the_best_trial_gets_all_that_is_free() -> None:
    scheduler = ResourceChangingScheduler(None, DistributeResourcesToTopJob(metric="n", mode="max"))
    context = machine(scheduler, {"cpu": 1})
    one, two, three, _ = context.trials
    assert reported(scheduler, context, one, 5) == [{"CPU": 5}], "no one else has reported"
    assert reported(scheduler, context, two, 7) == [{"CPU": 1}], "nothing is left"
    end(scheduler, context, one)
    assert reported(scheduler, context, three, math.nan) == [{"CPU": 1}]
    assert reported(scheduler, context, two, 6) == [{"CPU": 6}]


@pytest.mark.parametrize(("before", "now", "bundles"), [(1, 9, [{"CPU": 3}]), (9, 1, [{"CPU": 1}])])
def test_which_trial_is_the_best_follows_from_the_present_result(before: int, now: int, bundles: Any) -> None:
    scheduler = ResourceChangingScheduler(None, DistributeResourcesToTopJob(metric="n", mode="max"))
    context = machine(scheduler, {"cpu": 1}, cpus=4, count=2)
    first, second = context.trials
    first.record_result({"n": before, "training_iteration": 3})
    second.record_result({"n": 5, "training_iteration": 3})
    assert reported(scheduler, context, first, now) == bundles


def test_where_the_best_has_come_to_its_cap_the_next_one_grows() -> None:
    top = DistributeResourcesToTopJob(increase_by={"CPU": 1}, increase_by_times=2, metric="n", mode="min")
    scheduler = ResourceChangingScheduler(None, top)
    context = machine(scheduler, {"cpu": 1})
    assert reported(scheduler, context, context.trials[0], 1) == [{"CPU": 3}]
    assert reported(scheduler, context, context.trials[1], 2) == [{"CPU": 3}]
    assert reported(scheduler, context, context.trials[2], 3) == [{"CPU": 1}]


def test_the_schedulers_own_metric_and_mode_come_before_those_of_the_run() -> None:
    scheduler = ResourceChangingScheduler(None, DistributeResourcesToTopJob(metric="n", mode="max"))
    context = machine(scheduler, {"cpu": 1})
    scheduler.set_search_properties("other", "min")
    one, two, three, _ = context.trials
    assert reported(scheduler, context, one, 5) == [{"CPU": 5}]
    assert reported(scheduler, context, two, 7) == [{"CPU": 1}]
    end(scheduler, context, one)
    assert reported(scheduler, context, three, 1) == [{"CPU": 1}], "the smallest is not the best"


def test_the_metric_may_be_the_runs_but_there_must_be_one() -> None:
    scheduler = ResourceChangingScheduler(None, DistributeResourcesToTopJob())
    context = machine(scheduler, {"cpu": 1})
    with pytest.raises(ValueError, match="DistributeResourcesToTopJob needs a metric and a mode"):
        reported(scheduler, context, context.trials[0])
    with pytest.raises(ValueError, match="DistributeResourcesToTopJob needs a metric and a mode"):
        ResourceChangingScheduler(None, DistributeResourcesToTopJob()).set_search_properties(None, None)
    scheduler.set_search_properties("n", "max")
    assert scheduler.metric == "n"
    assert reported(scheduler, context, context.trials[0]) == [{"CPU": 5}]


def test_the_base_scheduler_has_the_first_word() -> None:
    scheduler = ResourceChangingScheduler(ASHAScheduler("training_iteration", "n", "max", max_t=4))
    context = machine(scheduler, {"cpu": 1})
    assert scheduler.on_trial_result(context, context.trials[0], {"n": 1, "training_iteration": 4}) == "STOP"
    assert scheduler.metric == "n"
    assert scheduler.required_attrs == ("n",)
    assert scheduler.debug_string().startswith("(ResourceChangingScheduler) Using AsyncHyperBand")


def test_the_base_scheduler_hears_of_every_end() -> None:
    heard: list[tuple[str, int]] = []

    class Listens(FIFOScheduler):
        def on_trial_complete(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> None:
            heard.append(("complete", trial.number))

        def on_trial_remove(self, tune_controller: Any, trial: Trial) -> None:
            heard.append(("remove", trial.number))

        def on_trial_error(self, tune_controller: Any, trial: Trial) -> None:
            heard.append(("error", trial.number))

    scheduler = ResourceChangingScheduler(Listens())
    context = machine(scheduler, {"cpu": 1}, count=3)
    scheduler.on_trial_complete(context, context.trials[0], {})
    scheduler.on_trial_remove(context, context.trials[1])
    scheduler.on_trial_error(context, context.trials[2])
    assert heard == [("complete", 0), ("remove", 1), ("error", 2)]


@pytest.mark.parametrize("answer", [None, {}, {"cpu": 1}, Resources([{"CPU": 1}])])
def test_a_function_of_the_users_may_leave_things_as_they_are(answer: Any) -> None:
    scheduler = ResourceChangingScheduler(None, lambda controller, trial, result, scheduler: answer)
    context = machine(scheduler, {"cpu": 1})
    assert scheduler.on_trial_result(context, context.trials[0], {"n": 1}) == "CONTINUE"


def test_the_reason_of_a_change_names_both_requests() -> None:
    answers = iter([{"cpu": 2, "gpu": 0.5}, {"cpu": 0}, {"cpu": 1}])
    scheduler = ResourceChangingScheduler(None, lambda *given: next(answers))
    context = machine(scheduler, {"cpu": 1}, gpus=1, count=1)
    reasons = []
    for _ in range(3):
        said = Decision.of(scheduler.on_trial_result(context, context.trials[0], {"training_iteration": 1}))
        reasons.append(said.reason)
        assert said.facts["rule"] == "resources"
    assert reasons == [
        "continues with 2 CPU, 0.5 GPU instead of 1 CPU",
        "continues with nothing instead of 2 CPU, 0.5 GPU",
        "continues with 1 CPU instead of nothing",
    ]


def test_a_function_of_the_users_decides() -> None:
    def allocate(controller: Any, trial: Trial, result: dict[str, Any], scheduler: Any) -> Any:
        assert scheduler.base_trial_resources == scheduler._base_trial_resources == Resources([{"CPU": 1}])
        return {"cpu": result["n"]}

    scheduler = ResourceChangingScheduler(None, allocate)
    context = machine(scheduler, {"cpu": 1})
    decision = Decision.of(scheduler.on_trial_result(context, context.trials[0], {"n": 3}))
    assert decision.resources == Resources([{"CPU": 3}])
    assert decision.reason == "continues with 3 CPU instead of 1 CPU"
    assert decision.facts == {"rule": "resources", "old": "1 CPU", "new": "3 CPU"}


def test_invalid_arguments_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    scheduler = ResourceChangingScheduler()
    context = machine(scheduler, {"cpu": 1})
    with pytest.raises(RuntimeError, match="all trials must ask for the same resources at the start"):
        scheduler.on_trial_add(context, make_trial(9, resources=Resources.of({"cpu": 2})))
    with pytest.raises(ValueError, match="cannot be used with reuse_actors=True") as caught:
        fit(SavedCounter, scheduler=ResourceChangingScheduler(), reuse_actors=True)
    assert not isinstance(caught.value, TuneError)
    assert not run_path().exists()
    for arguments in ({"increase_by": {"tokens": 1}}, {"increase_by": {"CPU": 0}}, {"reserve_resources": 3}):
        with pytest.raises(ValueError, match=next(iter(arguments))):
            DistributeResources(**arguments)  # type: ignore[arg-type]  # that is the point
    for wrong in ({"metric": 3}, {"mode": "best"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            DistributeResourcesToTopJob(**wrong)  # type: ignore[arg-type]  # that is the point
    for wrong_base in ("fifo", "", 0, FIFOScheduler):
        with pytest.raises(ValueError, match="base_scheduler must be None or a scheduler"):
            ResourceChangingScheduler(wrong_base)  # type: ignore[arg-type]  # that is the point
    with pytest.raises(ValueError, match="resources_allocation_function must be None or a function"):
        ResourceChangingScheduler(None, 3)  # type: ignore[arg-type]  # that is the point
    ResourceChangingScheduler(None, None)
    assert "no trial's resources will be changed" in caplog.text


class PausesAtTwo(FIFOScheduler):
    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        return "PAUSE" if result["training_iteration"] == 2 else "CONTINUE"

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        return None


def test_a_trial_that_the_base_scheduler_has_paused_waits_for_that() -> None:
    scheduler = ResourceChangingScheduler(PausesAtTwo())
    context = machine(scheduler, {"cpu": 1}, count=1)
    (trial,) = context.trials
    assert reported(scheduler, context, trial) == [{"CPU": 8}]
    assert scheduler.on_trial_result(context, trial, {"training_iteration": 2}) == "PAUSE"
    trial.move(Transition.PAUSE)
    assert scheduler.choose_trial_to_run(context) is None


def test_a_saved_state_has_first_and_present_resources() -> None:
    scheduler = ResourceChangingScheduler()
    context = machine(scheduler, {"cpu": 1}, count=2)
    reported(scheduler, context, context.trials[0])
    again = ResourceChangingScheduler()
    again.set_state(pickle.loads(pickle.dumps(scheduler.get_state())))
    again.on_trial_add(context, context.trials[0])
    assert again.base_trial_resources == Resources([{"CPU": 1}])
    assert reported(again, context, context.trials[0]) == [{"CPU": 4}]
    assert reported(again, context, context.trials[1]) == [{"CPU": 4}]


def test_a_saved_state_of_resources_stays_as_it_is() -> None:
    scheduler, again = ResourceChangingScheduler(), ResourceChangingScheduler()
    context = machine(scheduler, {"cpu": 1}, count=2)
    first, second = context.trials
    assert scheduler.on_trial_result(context, first, {"training_iteration": 1}) == "PAUSE"
    first.move(Transition.PAUSE)
    state = scheduler.get_state()
    before = repr(state)
    again.set_state(state)
    for each in (scheduler, again):
        each.on_trial_result(context, second, {"training_iteration": 1})
        each.on_trial_complete(context, first, {})
        assert each.get_state()["put_aside"] == [second.trial_id]
    assert repr(state) == before
    assert (list(state["put_aside"]), list(state["planned"])) == ([first.trial_id], [first.trial_id])


def saved_and_restored(scheduler: ResourceChangingScheduler) -> ResourceChangingScheduler:
    again = ResourceChangingScheduler(None, scheduler._allocate)
    again.set_state(pickle.loads(pickle.dumps(scheduler.get_state())))
    return again


def test_a_saved_state_has_strategy_and_labels_of_requests() -> None:
    base = Resources([{"CPU": 1}], "SPREAD", bundle_label_selector=[{"zone": "a"}])
    scheduler = ResourceChangingScheduler(None, DistributeResources(add_bundles=True))
    context = machine(scheduler, base, cpus=4, count=1)
    grown = Resources([{"CPU": 1}] * 4, "SPREAD", bundle_label_selector=[{"zone": "a"}] * 4)
    assert reported(scheduler, context, context.trials[0]) == grown.bundles
    again = saved_and_restored(scheduler)
    again.on_trial_add(context, make_trial(7, resources=base))
    assert again.planned_resources(context.trials[0]) is grown
    assert again.on_trial_result(context, context.trials[0], {"n": 1, "training_iteration": 5}) == "CONTINUE"


def test_after_a_restore_a_trial_that_grows_still_comes_before_new_ones() -> None:
    scheduler = ResourceChangingScheduler()
    context = machine(scheduler, {"cpu": 1}, count=2)
    grows = context.trials[1]
    decision = Decision.of(scheduler.on_trial_result(context, grows, {"n": 1, "training_iteration": 4}))
    assert decision == "PAUSE"
    grows.move(Transition.PAUSE)
    new = make_trial(5, resources=Resources.of({"cpu": 1}))
    context.trials.insert(0, new)
    again = saved_and_restored(scheduler)
    again.on_trial_add(context, new)
    assert again.choose_trial_to_run(context) is grows
    run_trial(grows)
    assert again.choose_trial_to_run(context) is new
    grows.move(Transition.STOP)
    assert again.choose_trial_to_run(context) is new
    gone = saved_and_restored(scheduler)
    context.trials.remove(grows)
    assert gone.choose_trial_to_run(context) is new


class Fickle(ResourceChangingScheduler):
    """Wants what it has put aside until so many others have ended, and again when none is left."""

    def __init__(self, allocate: Any, wanted_until: int):
        super().__init__(None, allocate)
        self.wanted_until, self.ended = wanted_until, 0

    def on_trial_complete(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> None:
        self.ended += 1
        super().on_trial_complete(tune_controller, trial, result)

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        chosen = super().choose_trial_to_run(tune_controller)
        return chosen if self.ended < self.wanted_until or self.ended == 39 else None


@pytest.mark.parametrize(
    ("wanted_until", "place"),
    [
        (40, 18),  # seventeen others went first while there was no room for it
        (17, 39),  # by then room was kept for it, which must not keep out all others
    ],
)
def test_a_trial_that_grows_waits_neither_for_all_others_nor_keeps_them_out(wanted_until: int, place: int) -> None:
    def allocate(controller: Any, trial: Trial, result: dict[str, Any], scheduler: Any) -> Any:
        return {"cpu": 2} if trial.config["x"] == 0 and result["training_iteration"] == 1 else None

    def curve(config: dict[str, Any]) -> list[tuple[dict[str, Any], float]]:
        return [({"loss": 1.0}, 1 + config["x"] / 10)] * 4

    config = TuneConfig(scheduler=Fickle(allocate, wanted_until))
    done = simulate(curve, param_space={"x": grid_search(list(range(40)))}, tune_config=config, num_workers=2)
    ended = [entry.trial_id for entry in done.log if entry.event == "TERMINATED"]
    assert len(ended) == 40
    assert ended.index(done.results[0].metrics["trial_id"]) == place
