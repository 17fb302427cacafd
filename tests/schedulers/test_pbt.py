"""Population based training, rule by rule, on trials made by hand."""

import json
import math
from types import SimpleNamespace

import pytest
from kit import FakeContext, make_trial, run_trial
from toy_population import Loop, share_solved, solve

from minitune import choice, uniform
from minitune.experiment.decision import Decision
from minitune.experiment.lifecycle import Transition
from minitune.schedulers.pbt import PopulationBasedTraining, PopulationBasedTrainingReplay

NAN = math.nan


def pbt(**settings):
    """A scheduler that maximises `score`, with a turn every two iterations; `lr` is multiplied by 2 or by 0.5."""
    scheduler = PopulationBasedTraining(
        **{
            "time_attr": "training_iteration",
            "metric": "score",
            "mode": "max",
            "perturbation_interval": 2,
            "hyperparam_mutations": {"lr": uniform(0, 1000)},
            "resample_probability": 0,
            "perturbation_factors": (2, 0.5),
            **settings,
        }
    )
    scheduler.set_seed(0)
    return scheduler


def loop_of(scheduler, *rates, **settings):
    """Members whose score grows by `lr` in each iteration."""

    def train(state, config):
        state["score"] = state["score"] + config["lr"]
        return {"score": state["score"]}

    return Loop(scheduler, [{"lr": rate} for rate in rates], {"score": 0.0}, train, **settings)


def told(scheduler, context, trial, t, value):
    """Pass a result to the scheduler. If the decision asks for it, the member is saved."""
    result = {"score": value, "training_iteration": t}
    decision = Decision.of(scheduler.on_trial_result(context, trial, result))
    trial.record_result(result)
    if decision.save:
        trial.record_checkpoint(SimpleNamespace(number=int(t), directory=f"c{t}"))
    return decision


def members(scheduler, count):
    trials = [make_trial(n, config={"lr": float(n)}, experiment_tag=f"{n}_lr={n}") for n in range(count)]
    context = FakeContext(trials)
    for trial in trials:
        scheduler.on_trial_add(context, trial)
        run_trial(trial)
    return context, trials


# -- arguments -------------------------------------------------------------------------------------------------------


def test_mutations_are_not_needed_where_the_user_explores():
    scheduler = pbt(hyperparam_mutations=None, custom_explore_fn=lambda config: {**config, "lr": 77.0})
    loop = loop_of(scheduler, 1, 8)
    for _ in range(4):
        loop.step()
    assert ("t0000", "t0001", {"lr": 77.0}) in loop.exploits()


def test_members_that_wait_for_each_other_need_a_number_of_trials():
    with pytest.raises(ValueError, match="num_samples must be the number of trials, but got -1"):
        pbt(synch=True).set_search_properties(None, None, num_samples=-1)


def test_hyperparameters_that_a_config_lacks_are_drawn():
    scheduler = pbt(hyperparam_mutations={"lr": uniform(1, 2), "model": {"width": [8]}, "kind": choice(["a"])})
    trial = make_trial(0, config={"model": {"depth": 3}}, evaluated_params={"model/depth": 3})
    scheduler.on_trial_add(FakeContext([trial]), trial)
    assert 1 <= trial.config["lr"] < 2
    assert trial.config["model"] == {"depth": 3, "width": 8}
    assert trial.evaluated_params == {"model/depth": 3, "lr": trial.config["lr"], "model/width": 8, "kind": "a"}


# -- turns -----------------------------------------------------------------------------------------------------------


def test_a_turn_comes_after_each_interval_and_not_before_the_burn_in():
    scheduler = pbt(perturbation_interval=3, burn_in_period=5)
    context, (trial, _) = members(scheduler, 2)
    saved = [t for t in range(1, 16) if told(scheduler, context, trial, t, 1.0).save]
    assert saved == [5, 8, 11, 14]


@pytest.mark.parametrize("seed", range(6))
def test_a_better_member_without_a_checkpoint_is_passed_over(seed):
    scheduler = pbt()
    scheduler.set_seed(seed)
    context, trials = members(scheduler, 8)
    for trial in reversed(trials):
        decision = Decision.of(
            scheduler.on_trial_result(context, trial, {"score": float(trial.number), "training_iteration": 2})
        )
        if trial.number == 6:  # the second best
            trial.record_checkpoint(SimpleNamespace(number=2, directory="c2"))
    assert decision.exploit[0] is trials[6]


def test_rounding_does_not_put_off_a_turn():
    scheduler = pbt(perturbation_interval=0.1)
    context, (trial, _) = members(scheduler, 2)
    assert all(told(scheduler, context, trial, t / 10, 1.0).save for t in range(1, 20))


def test_the_worst_goes_on_from_the_best_under_other_hyperparameters():
    scheduler = pbt()
    loop = loop_of(scheduler, 1, 2, 3, 10, saves=True)
    for _ in range(4):
        loop.step()
    taker, donor, config = loop.exploits()[0]
    assert (taker, donor) == ("t0000", "t0003")
    assert config["lr"] in (5.0, 20.0)
    (decision,) = [decision for trial, decision in loop.decisions if trial.number == 0 and decision.exploit is not None]
    assert decision == "PAUSE"
    assert decision.facts["rule"] == "pbt"
    assert decision.facts["donor"] == "t0003"
    assert (decision.facts["rank"], decision.facts["of"]) == (4, 4)
    assert decision.facts["perturbed"] == {"lr": [10, config["lr"]]}
    assert decision.reason.startswith(
        "rank 4 of 4 at training_iteration 4 (score=4): continues from the checkpoint of t0003 (score=20)"
    )
    assert "with lr 10 -> " in decision.reason
    assert loop.trials[0].experiment_tag == f"0@perturbed[lr={config['lr']:.4g}]"
    assert loop.trials[0].evaluated_params["lr"] == config["lr"]


def test_a_copy_has_its_next_turn_when_its_donor_would_have():
    scheduler = pbt(perturbation_interval=4)
    context, (low, high) = members(scheduler, 2)
    told(scheduler, context, high, 7, 10.0)
    decision = told(scheduler, context, low, 20, 1.0)
    assert decision.exploit[0] is high
    assert not told(scheduler, context, low, 8, 1.0).reason, "it was turned back to time 7"
    assert told(scheduler, context, low, 11, 1.0).reason


@pytest.mark.parametrize("bad", [NAN, None, "text", -math.inf])
def test_a_member_without_a_number_is_replaced_at_its_next_turn(bad):
    scheduler = pbt()
    context, trials = members(scheduler, 8)
    for n, trial in enumerate(trials[4:]):
        told(scheduler, context, trial, 2, float(n))
    for trial in trials[:4]:
        decision = told(scheduler, context, trial, 2, bad)
        assert decision.exploit[0] in trials[4:]
        assert decision.facts["value"] is None


def test_with_synch_all_members_without_a_number_are_replaced():
    """Here they are half of the population, so more than the lower quarter."""
    scheduler = pbt(synch=True)
    context, trials = members(scheduler, 8)
    for trial, value in zip(trials, [NAN, NAN, NAN, NAN, 1.0, 2.0, 3.0, 4.0], strict=True):
        told(scheduler, context, trial, 2, value)
        trial.record_checkpoint(SimpleNamespace(number=2, directory="c"))
        trial.move(Transition.PAUSE)
    scheduler.choose_trial_to_run(context)
    assert {trial.number for verb, trial, *_ in context.requests if verb == "exploit"} == {0, 1, 2, 3}


def test_a_member_without_a_number_is_never_a_donor():
    scheduler = pbt(quantile_fraction=0.5)
    context, trials = members(scheduler, 4)
    for trial in trials:
        decision = told(scheduler, context, trial, 2, NAN)
        assert decision.exploit is None or decision.exploit[0] is trial


def test_a_quarter_is_replaced_and_the_middle_goes_on():
    scheduler = pbt()
    context, trials = members(scheduler, 8)
    for trial in trials:
        told(scheduler, context, trial, 2, trial.number)
    decisions = [told(scheduler, context, trial, 4, trial.number) for trial in trials]
    assert [decision.exploit is not None for decision in decisions] == [True] * 2 + [False] * 6
    donors = {decision.exploit[0].number for decision in decisions if decision.exploit is not None}
    assert donors <= {6, 7}
    assert scheduler.debug_string() == "PopulationBasedTraining: 16 checkpoints, 2 perturbs"


def test_no_share_means_no_exploit():
    scheduler = pbt(quantile_fraction=0)
    loop = loop_of(scheduler, 1, 2, 3)
    for _ in range(6):
        loop.step()
    assert not loop.exploits()


def test_without_a_checkpoint_no_member_is_copied():
    loop = loop_of(pbt(), 1, 2, 3, 4, saves=False)
    for _ in range(10):
        loop.step()
    assert not loop.exploits()


def test_equal_members_explore_their_own_configs():
    loop = loop_of(pbt(), 4, 4)
    for _ in range(4):
        loop.step()
    (taker, donor, config) = loop.exploits()[0]
    assert taker == donor
    assert config["lr"] in (2.0, 8.0)
    assert loop.states[taker]["score"] in (8.0, 16.0)


def test_members_that_have_ended_or_failed_leave_the_population():
    scheduler = pbt()
    context, (best, second, low) = members(scheduler, 3)
    told(scheduler, context, best, 2, 100.0)
    told(scheduler, context, second, 2, 10.0)
    best.move(Transition.FAIL)
    scheduler.on_trial_error(context, best)
    decision = told(scheduler, context, low, 2, 1.0)
    assert decision.exploit[0] is second
    scheduler.on_trial_complete(context, second, {})
    second.move(Transition.STOP)
    assert told(scheduler, context, low, 100, 1.0).exploit is None


def test_results_must_have_metric_and_time_unless_others_are_allowed():
    assert pbt().required_attrs == ("score", "training_iteration")
    lenient = pbt(require_attrs=False)
    context, (trial, _) = members(lenient, 2)
    assert lenient.on_trial_result(context, trial, {"training_iteration": 5}) == "CONTINUE"
    assert lenient.on_trial_result(context, trial, {"score": 5}) == "CONTINUE"
    assert lenient.required_attrs == ()


def test_a_custom_function_sees_and_makes_the_final_config():
    seen = []

    def halve(config):
        seen.append(dict(config))
        return {**config, "lr": -1.0}

    loop = loop_of(pbt(custom_explore_fn=halve), 1, 8)
    for _ in range(4):
        loop.step()
    assert seen[0]["lr"] in (4.0, 16.0)
    assert loop.exploits()[0][2] == {"lr": -1.0}
    assert loop.trials[0].experiment_tag == "0@perturbed[lr=-1]"
    other = loop_of(pbt(custom_explore_fn=lambda config: None), 1, 8)
    with pytest.raises(ValueError, match="must return the new configuration, a dict, but returned None"):
        [other.step() for _ in range(6)]


# -- time-sharing ------------------------------------------------------------------------------------------------------


def test_members_share_the_room_evenly():
    loop = loop_of(pbt(), *range(1, 9), room=2)
    for _ in range(200):
        loop.step()
        assert len(loop.running()) == 2
    trained = [sum(1 for trial, _ in loop.decisions if trial.number == n) for n in range(8)]
    assert sum(trained) == 400
    assert min(trained) >= 30, trained
    assert any("makes room for a waiting trial" in decision.reason for _, decision in loop.decisions)


def test_a_member_that_was_paused_by_others_goes_on():
    scheduler = pbt()
    context, (first, second) = members(scheduler, 2)
    assert told(scheduler, context, first, 1, 1.0) == "CONTINUE"
    first.move(Transition.PAUSE)
    assert scheduler.choose_trial_to_run(context) is first
    assert second.status == "RUNNING"


def test_no_member_makes_room_without_waiting_ones():
    loop = loop_of(pbt(quantile_fraction=0), 1, 2)
    for _ in range(10):
        loop.step()
    assert {str(decision) for _, decision in loop.decisions} == {"CONTINUE"}


# -- waiting for each other ------------------------------------------------------------------------------------------


def test_with_synch_members_wait_for_all_others():
    scheduler = pbt(synch=True)
    loop = loop_of(scheduler, 1, 2, 3, 4)
    for trial in loop.trials[:3]:
        loop.report(trial)
        assert loop.report(trial) == "PAUSE"
        assert scheduler.choose_trial_to_run(loop.context) is None
    assert "waits until all trials have reached turn 1" in loop.decisions[-1][1].reason
    loop.report(loop.trials[3])
    loop.report(loop.trials[3])
    chosen = scheduler.choose_trial_to_run(loop.context)
    assert chosen is not None
    ((verb, taker, donor, config),) = loop.context.requests
    assert (verb, taker.number, donor.number) == ("exploit", 0, 3)
    assert config["lr"] in (2.0, 8.0)


def test_with_synch_turns_are_counted_and_one_that_overshoots_shifts_nothing():
    scheduler = pbt(synch=True, quantile_fraction=0)
    context, (fast, slow) = members(scheduler, 2)
    answers = []
    for t_fast, times_slow in [(7, [2]), (8, [4]), (9, [5, 6]), (10, [7, 8])]:
        for trial, t in ((fast, t_fast), *((slow, t) for t in times_slow)):
            assert scheduler.choose_trial_to_run(context) is None
            decision = told(scheduler, context, trial, t, 1.0)
            answers.append((t, str(decision)))
            if decision == "PAUSE":
                trial.move(Transition.PAUSE)
        while (chosen := scheduler.choose_trial_to_run(context)) is not None:
            run_trial(chosen)
    assert [t for t, answer in answers if answer == "CONTINUE"] == [5, 7]


def test_with_synch_those_that_have_ended_are_not_waited_for():
    scheduler = pbt(synch=True)
    loop = loop_of(scheduler, 1, 2, 3)
    for trial in loop.trials[:2]:
        loop.report(trial)
        loop.report(trial)
    last = loop.trials[2]
    assert scheduler.choose_trial_to_run(loop.context) is None
    last.move(Transition.FAIL)
    scheduler.on_trial_error(loop.context, last)
    assert scheduler.choose_trial_to_run(loop.context) in loop.trials[:2]


def test_with_synch_one_that_has_ended_does_not_stand_for_one_that_has_not_come():
    scheduler = pbt(synch=True, quantile_fraction=0)
    context, (first, second, third) = members(scheduler, 3)

    def reach(trial, t):
        assert told(scheduler, context, trial, t, 1.0) == "PAUSE"
        trial.move(Transition.PAUSE)

    for trial in (first, second, third):
        reach(trial, 2)
    assert scheduler.choose_trial_to_run(context) is first, "the second turn begins"
    reach(run_trial(first), 4)
    scheduler.on_trial_remove(context, first)
    first.move(Transition.STOP)
    reach(run_trial(second), 4)
    assert scheduler.choose_trial_to_run(context) is third
    reach(run_trial(third), 4)


def test_with_synch_all_that_will_come_are_waited_for():
    scheduler = pbt(synch=True)
    loop = loop_of(scheduler, 1, 2)
    loop.context.supply = "OPEN"
    for trial in loop.trials:
        loop.report(trial)
        loop.report(trial)
    assert scheduler.choose_trial_to_run(loop.context) is None
    loop.context.supply = "ENDED"
    assert scheduler.choose_trial_to_run(loop.context) is not None


# -- quality, state, files ---------------------------------------------------------------------------------------------


def test_the_toy_problem_is_solved_by_exploring_and_not_without():
    assert share_solved(range(10)) == 1.0
    assert share_solved(range(10), synch=True) == 1.0
    assert solve(0, explores=False) == pytest.approx(0.39, abs=0.005)


def test_files_of_exploits_are_as_in_ray_tune(tmp_path):
    loop = loop_of(pbt(), 1, 8)
    for trial in loop.trials:
        trial.set_directory(str(tmp_path), None)
    for _ in range(8):
        loop.step()
    lines = [json.loads(line) for line in (tmp_path / "pbt_global.txt").read_text().splitlines()]
    exploits = loop.exploits()
    assert len(lines) == len(exploits) >= 2
    assert lines[0][:4] == ["0", "1", 4, 2] or lines[0][:4] == ["0", "1", 2, 2]
    assert lines[0][4] == {"lr": 8.0} or lines[0][4] == {"lr": 8}
    assert [line[5] for line in lines] == [config for _, _, config in exploits]
    policy = [json.loads(line) for line in (tmp_path / "pbt_policy_t0000.txt").read_text().splitlines()]
    assert policy[-1] == lines[-1]
    assert not list(tmp_path.glob("*.tmp"))


def test_nothing_is_written_when_disabled_or_replayed(tmp_path):
    for log_config, is_replaying in ((False, False), (True, True)):
        loop = loop_of(pbt(log_config=log_config), 1, 8)
        loop.context.is_replaying = is_replaying
        for trial in loop.trials:
            trial.set_directory(str(tmp_path), None)
        for _ in range(8):
            loop.step()
        assert loop.exploits()
    assert not list(tmp_path.iterdir())


# -- replay ------------------------------------------------------------------------------------------------------------


def write_policy(path, *lines):
    file = path / "pbt_policy_x.txt"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def replayed(path, iterations):
    """The trial, and for each change the iteration and the new configuration."""
    scheduler = PopulationBasedTrainingReplay(path)
    trial = make_trial(0)
    context = FakeContext([trial])
    scheduler.on_trial_add(context, trial)
    changes = [(0, dict(trial.config))]
    for t in iterations:
        decision = Decision.of(scheduler.on_trial_result(context, trial, {"training_iteration": t}))
        if decision.exploit is not None:
            assert decision.exploit[0] is trial
            assert decision.save
            changes.append((t, decision.exploit[1]))
    return trial, changes


FIRST, THEN = ["2", "3", 4, 4, {"lr": 1}, {"lr": 2}], ["1", "2", 8, 10, {"lr": 2}, {"lr": 3}]


@pytest.mark.parametrize(
    ("lines", "iterations", "expected"),
    [
        # the first is not in the chain: the donor of the next line is another trial
        ([["7", "8", 1, 1, {"lr": 0}, {"lr": 0}], FIRST, THEN], range(1, 15), [(4, 2), (10, 3)]),
        ([FIRST, THEN], [1, 3, 12, 13], [(12, 3)]),  # of several that were passed at once the last counts
        ([["1", "0", 5, 5, {"lr": 1}, {"lr": 2}], ["1", "1", 10, 5, {"lr": 2}, {"lr": 3}]], range(1, 8), [(5, 3)]),
    ],
)
def test_a_replay_follows_the_chain_of_donors(tmp_path, lines, iterations, expected):
    trial, changes = replayed(write_policy(tmp_path, *lines), iterations)
    assert changes == [(0, {"lr": 1}), *((at, {"lr": rate}) for at, rate in expected)]
    assert trial.experiment_tag == "replay_pbt_policy_x.txt@perturbed[lr=3]"


def test_a_replay_with_a_saved_state_goes_on_with_its_trial_alone(tmp_path):
    policy = write_policy(tmp_path, FIRST, THEN)
    first, again = PopulationBasedTrainingReplay(policy), PopulationBasedTrainingReplay(policy)
    context = FakeContext([make_trial(0), make_trial(1)])
    first.on_trial_add(context, context.trials[0])
    first.on_trial_result(context, context.trials[0], {"training_iteration": 4})
    again.set_state(first.get_state())
    with pytest.raises(ValueError, match="a replay trains one trial"):
        again.on_trial_add(context, context.trials[1])
    decision = Decision.of(again.on_trial_result(context, context.trials[0], {"training_iteration": 10}))
    assert decision.exploit[1] == {"lr": 3}
    assert again.debug_string() == "PopulationBasedTraining replay: Step 10, perturb 2"


def test_invalid_replay_is_refused(tmp_path, caplog):
    with pytest.raises(ValueError, match=r"policy_file must be a file that .* has written"):
        PopulationBasedTrainingReplay(tmp_path / "nothing.txt")
    for line in (["1", "2"], ["2", "3", 4, 4, {"lr": 1}, 2], ["2", "3", 4, 4, 1, {"lr": 2}]):
        with pytest.raises(ValueError, match="must be a JSON list of 6 fields"):
            PopulationBasedTrainingReplay(write_policy(tmp_path, line))
    (tmp_path / "broken.txt").write_text("{")
    with pytest.raises(ValueError, match="must be a JSON list of 6 fields"):
        PopulationBasedTrainingReplay(str(tmp_path / "broken.txt"))
    policy = write_policy(tmp_path, FIRST)
    scheduler = PopulationBasedTrainingReplay(policy)
    context = FakeContext([make_trial(0, config={"lr": 5}), make_trial(1)])
    scheduler.on_trial_add(context, context.trials[0])
    assert "gets the configuration of" in caplog.text
    assert context.trials[0].config == {"lr": 1}
    with pytest.raises(ValueError, match="a replay trains one trial"):
        scheduler.on_trial_add(context, context.trials[1])
    with pytest.raises(ValueError, match="must have at least one exploit"):
        PopulationBasedTrainingReplay(write_policy(tmp_path))
