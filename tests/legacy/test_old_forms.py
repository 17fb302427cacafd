"""Forms that Ray Tune has dropped: functions, classes, loggers and keywords of old scripts still work."""

import functools
import os
from pathlib import Path

import pytest
from kit import run_path

import minitune as tune
from minitune.base import text


@pytest.fixture(autouse=True)
def inline_runs(monkeypatch):
    monkeypatch.setenv("MINITUNE_EXECUTOR", "inline")


def run(trainable, **settings):
    return tune.run(trainable, name="run", verbose=0, **{"metric": "n", "mode": "max", **settings})


def steps_until(config, checkpoint_dir=None, data=0):
    """Counts to 4 from its checkpoint; the first attempt fails after a checkpoint that no report followed."""
    start = int(Path(checkpoint_dir, "n").read_text()) if checkpoint_dir else 0
    for n in range(start + 1, 5):
        with tune.checkpoint_dir(step=n) as directory:
            Path(directory, "n").write_text(str(n))
        if (n, start) == (3, 0):
            raise RuntimeError("the first attempt fails here")
        tune.report(n=n, start=start, data=data)


def test_a_function_goes_on_from_checkpoint_dir():
    trial = run(functools.partial(steps_until, data=7), max_failures=1).trials[0]
    assert [trial.last_result[key] for key in ("n", "start", "data")] == [4, 2, 7]
    assert [kept.progress.num_reports for kept in trial.checkpoints] == [1, 2, 3, 4]
    assert Path(trial.checkpoint.value, "n").read_text() == "4"


def test_a_checkpoint_that_no_report_follows_is_recorded_by_itself():
    def train(config, checkpoint_dir=None):
        tune.report(n=1)
        for n in (1, 2):
            with tune.checkpoint_dir(n) as directory:
                Path(directory, "n").write_text(str(n))

    analysis = run(train)
    trial = analysis.trials[0]
    assert trial.last_result["training_iteration"] == 1
    assert [Path(kept.record.directory).name for kept in trial.checkpoints] == [
        "checkpoint_000000",
        "checkpoint_000001",
    ]
    again = tune.ExperimentAnalysis(analysis.experiment_path).trials[0]
    assert Path(again.checkpoint.value, "n").read_text() == "2"
    assert Path(analysis.best_checkpoint, "n").is_file()


def test_a_checkpoint_whose_block_fails_does_not_count():
    def train(config):
        try:
            with tune.checkpoint_dir(0):
                raise KeyError("half written")
        except KeyError:
            tune.report(n=1)

    trial = run(train).trials[0]
    assert trial.checkpoints == []
    assert [name for name in os.listdir(trial.local_path) if "checkpoint" in name or name.startswith(".tmp")] == []


def test_outside_of_a_trial_checkpoint_dir_is_a_temporary_directory():
    with tune.checkpoint_dir(0) as directory:
        assert os.path.isdir(directory)
    assert not os.path.exists(directory)
    assert not tune.is_session_enabled()


def test_a_function_reports_by_its_reporter_and_by_keywords():
    def with_reporter(config, reporter):
        reporter(n=1, where=reporter.logdir, name=reporter.trial_name, id=reporter.trial_id)
        tune.report(n=2)

    trial = run(with_reporter).trials[0]
    first = next(iter(tune.ExperimentAnalysis(str(run_path())).trials)).metric_analysis["n"]
    assert (first["min"], first["max"]) == (1, 2)
    assert trial.last_result["n"] == 2


def test_parameters_that_are_bound_stay_the_users():
    def train(config, reporter, checkpoint_dir):
        return {"n": reporter, "dir": checkpoint_dir}

    bound = tune.with_parameters(functools.partial(train, checkpoint_dir="mine"), reporter=3)
    result = run(bound).trials[0].last_result
    assert (result["n"], result["dir"]) == (3, "mine")


def test_bound_values_reach_a_function_of_an_old_form():
    def train(config, data, checkpoint_dir):
        return {"n": sum(data), "dir": checkpoint_dir}

    assert run(tune.with_parameters(train, data=[1, 2])).trials[0].last_result["n"] == 3


def test_an_optional_reporter_after_other_arguments_is_not_the_old_form():
    def old(config, reporter=None):
        reporter(n=1)

    def of_a_library(config, data, size, reporter=None):
        return {"n": data if reporter is None else -1}

    assert run(old).trials[0].last_result["n"] == 1
    assert run(tune.with_parameters(of_a_library, data=2, size=3)).trials[0].last_result["n"] == 2


def test_libraries_name_trials_by_a_private_argument_of_ray_tune(inline):
    creators = {"trial_name_creator": lambda trial: "named", "trial_dirname_creator": lambda trial: "placed"}
    tuner = tune.Tuner(lambda config: {"n": 1}, run_config=tune.RunConfig(verbose=0), _tuner_kwargs=creators)
    (result,) = tuner.fit()
    assert os.path.basename(result.path) == "placed"
    with pytest.raises(TypeError, match="nonsense"):
        tune.Tuner(lambda config: {"n": 1}, _tuner_kwargs={"nonsense": 1})


class Old(tune.Trainable):
    """Its `_save` returns the path of a file, and `_restore` gets this path."""

    def _setup(self, config):
        self.n = 0

    def _train(self):
        self.n += 1
        if self.n == 2 and not os.path.exists(self.config["flag"]):
            Path(self.config["flag"]).touch()
            raise RuntimeError("the first attempt fails here")
        return tune.TrainingResult(n=self.n, done=self.n == 3, mean_loss=None)

    def _save(self, checkpoint_dir):
        path = Path(checkpoint_dir, "model.pt")
        path.write_text(str(self.n))
        return str(path)

    def _restore(self, path):
        self.n = int(Path(path).read_text())


class Oldest(tune.Trainable):
    """As in the first versions: `_setup` takes no configuration."""

    def _setup(self):
        self.n = self.config["start"]

    def _train(self):
        return {"n": self.n, "done": True}


def test_a_mean_loss_is_reported_as_a_reward_too():
    class WithLoss(tune.Trainable):
        def _train(self):
            return {"mean_loss": 3, "done": True}

    def reports(config, reporter):
        reporter(mean_loss=3)

    def reports_both(config, reporter):
        reporter(mean_loss=4, neg_mean_loss=-3)

    def reports_a_text(config, reporter):
        reporter(mean_loss="unknown", neg_mean_loss=-3)

    for trainable in (WithLoss, reports, reports_both, reports_a_text):
        assert run(trainable, metric="neg_mean_loss").trials[0].last_result["neg_mean_loss"] == -3


class Later(Old):
    """Overrides only one of the old methods."""

    def _train(self):
        return {**super()._train(), "later": True}


def test_the_old_methods_of_a_class_are_called(tmp_path):
    config = {"flag": str(tmp_path / "flag")}
    old = r"checkpoint_freq is deprecated: pass checkpoint_frequency in run"
    with pytest.warns(DeprecationWarning, match=old) as warned:
        trial = run(Later, config=config, checkpoint_freq=1, max_failures=1).trials[0]
    assert {one.filename for one in warned} == {__file__}
    assert (trial.last_result["n"], trial.last_result["later"], trial.num_failures) == (3, True, 1)
    assert sorted(os.listdir(trial.checkpoint.value))[-1] == "model.pt"
    assert "mean_loss" not in trial.last_result


def test_a_class_may_have_a_setup_without_a_configuration():
    assert run(Oldest, config={"start": 3}).trials[0].last_result["n"] == 3


def test_private_helpers_of_a_modern_class_are_left_alone():
    class Modern(tune.Trainable):
        def step(self):
            return {"n": self._train()}

        def _train(self):
            return 5

        def _save(self):
            raise AssertionError("a helper of the user's")

    assert Modern.save_checkpoint is tune.Trainable.save_checkpoint
    assert Modern().train()["n"] == 5


def test_a_spec_of_old_may_set_checkpoints():
    spec = {"run": Old, "config": {"flag": os.devnull, "x": 1}, "checkpoint_freq": 1, "checkpoint_at_end": True}
    old = {"keep_checkpoints_num": 1, "checkpoint_score_attr": "min-n"}
    with pytest.warns(DeprecationWarning, match="in run") as warned:
        (trial,) = tune.run_experiments({"old": {**spec, **old}}, verbose=0)
    named = {str(warning.message).partition(" is deprecated")[0] for warning in warned}
    assert named == {*old, "checkpoint_freq", "checkpoint_at_end"}
    kept = sorted(path.name for path in Path(trial.local_path).glob("checkpoint_*"))
    assert kept == ["checkpoint_000000", "checkpoint_000002"]  # the best one, and the newest one to continue from


def test_keywords_of_old_are_translated_or_named(caplog):
    def train(config):
        return {"n": 1}

    analysis = run(train, repeat=2, trial_resources={"cpu": 2}, queue_trials=True)
    assert [trial.placement_group_factory.bundles for trial in analysis.trials] == [[{"CPU": 2}]] * 2
    assert "run(queue_trials=...) has no effect on one machine" in caplog.messages
    trials = tune.run_experiments({"e": {"run": train, "repeat": 3}}, verbose=0, search_alg="random")
    assert len(trials) == 3
    with pytest.raises(TypeError, match="takes no argument 'samples'"):
        run(train, samples=2)
    with pytest.raises(TypeError, match="takes no loggers: pass subclasses of LoggerCallback in callbacks"):
        run(train, loggers=[])


def test_functions_of_spec_are_called_in_run_experiments(caplog):
    def train(config):
        return {"n": config["inner"]["double"], "kept": config["kept"](1)}

    space = {"x": tune.grid_search([2, 3]), "inner": {"double": lambda spec: 2 * spec.config.x}, "kept": lambda x: -x}
    trials = tune.run_experiments({"e": {"run": train, "config": space}}, verbose=0)
    assert [(trial.last_result["n"], trial.last_result["kept"]) for trial in trials] == [(4, -1), (6, -1)]
    said = [text for text in caplog.messages if "function of spec" in text]
    assert said == ["config['inner/double'] is a function of spec, and each trial calls it: write sample_from(...)"]


def test_reward_attr_is_a_metric_to_maximise():
    scheduler = tune.schedulers.AsyncHyperBandScheduler(reward_attr="reward")
    assert not scheduler.set_search_properties("other", "min")
    assert scheduler.metric == "reward"


def test_a_scheduler_with_a_metric_alone_maximises_it(caplog, monkeypatch):
    def train(config):
        for n in range(3):
            tune.report({"reward": config["x"] * (n + 1)})

    def lengths(**mode):
        scheduler = tune.ASHAScheduler(metric="reward", max_t=3, reduction_factor=2)
        space = {"x": tune.grid_search([3, 2, 1])}
        trials = tune.run(train, config=space, scheduler=scheduler, verbose=0, **mode).trials
        return [trial.last_result["training_iteration"] for trial in trials]

    monkeypatch.setattr(text, "_said", set())
    assert lengths() == [3, 1, 1]
    (said,) = [message for message in caplog.messages if "has no mode" in message]
    assert said.startswith(
        "AsyncHyperBandScheduler(metric='reward') has no mode, and neither has the run, so it is 'max'"
    )
    assert lengths(mode="min") == [3, 3, 3]
    with pytest.raises(ValueError, match="needs a metric and a mode, but got metric='reward', mode=None"):
        tune.run(train, config={"x": 1}, scheduler=tune.ASHAScheduler(), metric="reward", verbose=0)


def test_formats_for_the_export_of_a_model_have_no_effect(caplog, monkeypatch):
    monkeypatch.setattr(text, "_said", set())
    for _ in range(2):
        assert run(lambda config: {"n": 1}, export_formats=["onnx"]).trials[0].status == "TERMINATED"
    assert [message.partition(":")[0] for message in caplog.messages if "export_formats" in message] == [
        "export_formats is ignored"
    ]
