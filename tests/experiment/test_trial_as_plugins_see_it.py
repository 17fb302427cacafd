"""The members of `Trial` that users' schedulers, callbacks and stoppers read, set and call."""

import json
import pickle
from pathlib import Path

import pytest
from kit import fit, report_state

from minitune import Result
from minitune.checkpoint import CheckpointRecord
from minitune.experiment.trial import Trial


def test_a_trial_by_itself_has_ray_tunes_defaults():
    trial = Trial("train")
    assert (trial.status, trial.config, trial.evaluated_params, trial.experiment_tag) == (Trial.PENDING, {}, {}, "")
    assert (trial.checkpoint, trial.error_file, trial.num_failures) == (None, None, 0)
    assert not trial.has_checkpoint()
    assert not (trial.is_finished())
    assert (trial.metric_analysis, trial.stopping_criterion) == ({}, {})
    assert len(trial.trial_id) == len(Trial.generate_id()) == 8
    assert trial != Trial("train", trial_id=trial.trial_id)
    assert str(trial) == repr(trial) == f"train_{trial.trial_id}"


@pytest.mark.parametrize(("env", "middle"), [("Cart/Pole", "_Cart_Pole"), (Path, "_Path"), (3, "_3")])
def test_the_name_holds_the_environment(env, middle):
    assert str(Trial("train", trial_id="ab", config={"env": env})) == f"train{middle}_ab"


def test_a_trial_has_the_paths_of_its_run():
    trial = Trial("train", config={"lr": 2}, experiment_path="/runs/one")
    trial.set_name(f"lr{trial.config['lr']}")
    trial.set_directory("/runs/one", f"{trial.custom_trial_name}_dir")
    assert str(trial) == "lr2"
    assert trial.path == trial.local_path == "/runs/one/lr2_dir"
    assert (trial.experiment_dir_name, trial.local_experiment_path) == ("one", "/runs/one")


def test_a_logger_makes_the_directory_of_a_trial(tmp_path):
    trial = Trial("train", experiment_path=str(tmp_path))
    for _ in range(2):
        trial.init_local_path()
    assert Path(trial.local_path).is_dir()


def test_paths_have_their_old_names_too():
    trial = Trial("train", trial_id="ab", experiment_path="/runs/one")
    assert trial.logdir == trial.local_path
    assert trial.local_dir == "/runs/one"


def test_plug_ins_may_keep_something_on_it():
    trial = Trial("train")
    trial.seen_by_me = 3
    trial.set_config({"lr": 1})
    trial.set_experiment_tag("0_lr=1")
    again = pickle.loads(pickle.dumps(trial))
    assert (again.seen_by_me, again.config, again.experiment_tag) == (3, {"lr": 1}, "0_lr=1")


def test_a_failed_trial_has_the_path_of_its_error(tmp_path):
    trial = Trial("train", experiment_path=str(tmp_path))
    trial.num_failures = 1
    assert trial.error_file == str(tmp_path / trial.name / "error.txt")


def test_a_configuration_can_be_replaced_but_not_changed():
    trial, other = Trial("train", config={"lr": 0.1}), Trial("train")
    with pytest.raises(TypeError, match=r"read-only; replace it by trial\.set_config"):
        trial.config["lr"] = 0.2
    with pytest.raises(TypeError, match="read-only"):
        trial.config.update(lr=0.2)
    other.set_config(trial.config)
    trial.config = {**trial.config, "lr": 0.3}
    assert (trial.config, other.config) == ({"lr": 0.3}, {"lr": 0.1})
    assert json.dumps(other.config) == '{"lr": 0.1}'


def test_the_result_of_a_checkpoint_is_not_done_because_the_trial_is():
    (result,) = fit(lambda config: report_state(1, {"n": 1}))
    for each in (result, Result.from_path(result.path)):
        ((_, metrics),) = each.best_checkpoints
        assert (metrics["done"], each.metrics["done"]) == (False, True)


def test_what_a_plug_in_reads_of_a_trial_is_its_own():
    trial = Trial("train", config={"net": {"sizes": [1]}})
    trial.record_result({"eval": {"losses": [2], "loss": 2}})
    kept = trial.record_checkpoint(CheckpointRecord(0, 1, 1, 0))
    wanted = {"eval": {"losses": [2], "loss": 2}, "config": {"net": {"sizes": [1]}}}
    for _ in range(2):
        for found in (trial.last_result, kept.result):
            assert found == wanted
            found["eval"]["losses"].append(3)
            found["config"]["net"]["sizes"].append(3)
            found.clear()
        trial.config["net"]["sizes"].append(3)
        trial.metric_analysis["eval/loss"]["max"] = 99
    assert trial.config == wanted["config"]
    assert trial.metric_analysis["eval/loss"]["max"] == 2


def test_people_see_the_configuration_of_the_last_result():
    trial = Trial("train", config={"lr": 2})
    trial.record_result({"loss": 1})
    trial.set_config({"lr": 1})
    assert trial.last_result == {"loss": 1, "config": {"lr": 2}}
    assert trial.reported_config == {"lr": 2}
    assert (trial.shown_parameter("lr"), trial.shown_parameter("x", 4)) == (2, 4)


def test_a_trial_goes_back_to_a_checkpoint_as_often_as_it_fails():
    trial = Trial("train", config={"lr": 1})
    trial.record_result({"n": 0})
    trial.record_result({"n": 1})
    kept = trial.record_checkpoint(CheckpointRecord(0, 1, 1, 0))
    before = trial.metric_analysis
    for _ in range(2):
        for n in (7, 8):
            trial.record_result({"n": n})
        assert trial.metric_analysis["n"]["max"] == 8
        trial.roll_back()
        assert (trial.progress.num_reports, trial.last_result["n"], trial.metric_analysis) == (2, 1, before)
        assert kept.result == {"n": 1, "config": {"lr": 1}}
    trial.checkpoints.clear()
    trial.roll_back()
    assert (trial.progress.num_reports, trial.last_result, trial.metric_analysis) == (0, {}, {})
    assert trial.next_checkpoint == 1, "no number comes again"
