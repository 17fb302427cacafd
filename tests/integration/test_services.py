"""The callbacks for W&B, Comet, Aim and MLflow: what they tell their packages, with stand-ins for these.

The packages themselves are tried in `tests/extras`.
"""

import os
import pickle
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from kit import PauseOnce, cut, deciding, fit, report_state, restored_state, resume, run_path

import minitune as tune
from minitune.integration.aim import AimLoggerCallback
from minitune.integration.comet import CometLoggerCallback
from minitune.integration.mlflow import MLflowLoggerCallback, setup_mlflow
from minitune.integration.wandb import WandbLoggerCallback, setup_wandb

Calls = list[tuple[Any, ...]]


def train(config):
    for step in range(restored_state(), 2):
        report_state(step + 1, {"loss": step / 2, "deep": {"a": 1, "text": "t"}})
    if config.get("fails"):
        raise ValueError("no")


class Recorder:
    """An object of a service: each call of a method is noted with its first arguments and options."""

    def __init__(self, calls, kind):
        self.calls = calls
        self.kind = kind

    def __getattr__(self, method):
        def call(*arguments, **options):
            self.calls.append((f"{self.kind}.{method}", *arguments, *([options] if options else [])))

        return call


def named(calls, name):
    """The arguments of all calls of a method; a single one alone."""
    return [call[1] if len(call) == 2 else call[1:] for call in calls if call[0] == name]


def service(monkeypatch, package, **members):
    module = ModuleType(package)
    vars(module).update(members)
    monkeypatch.setitem(sys.modules, package, module)


# -- W&B ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def wandb(monkeypatch):
    calls = []

    def init(**arguments):
        calls.append(("init", arguments))
        run = Recorder(calls, "run")
        run.config = Recorder(calls, "config")
        return run

    class Artifact(Recorder):
        def __init__(self, name, type):
            super().__init__(calls, f"artifact {type} {name}")

    def settings(**given):
        return SimpleNamespace(**{"mode": None, "api_key": None, **given})

    def login(prompt):
        calls.append(("login", prompt))
        return True

    service(monkeypatch, "wandb", init=init, Settings=settings, login=login, Artifact=Artifact)
    for name in ("WANDB_MODE", "WANDB_PROJECT_NAME", "WANDB_GROUP_NAME", "WANDB_DIR"):
        monkeypatch.delenv(name, raising=False)
    return calls


def test_wandb_gets_a_run_for_each_trial_with_its_numbers_and_its_end(wandb):
    callback = WandbLoggerCallback("mine", excludes="deep", log_config=True, tags=["t"])
    space = {"fails": tune.grid_search([False, True]), "a": {"b": 1}}
    grid = fit(train, space, name="the_run", callbacks=[callback], max_concurrent_trials=1)
    first, second = named(wandb, "init")
    trial_id = grid[0].metrics["trial_id"]
    assert (first["id"], first["name"], first["project"], first["group"]) == (
        trial_id,
        f"train_{trial_id}",
        "mine",
        "the_run",
    )
    assert (first["resume"], first["tags"], first["dir"]) == ("allow", ["t"], grid[0].path)
    assert (first["config"], second["config"]) == ({"fails": False, "a": {"b": 1}}, {"fails": True, "a": {"b": 1}})
    logged = named(wandb, "run.log")
    assert [(one["loss"], one["training_iteration"]) for one in logged] == [(0.0, 1), (0.5, 2)] * 2
    assert not [name for name in logged[0] if name.startswith(("deep", "done", "config"))]
    assert named(wandb, "config.update")[0] == ({"fails": False, "a": {"b": 1}}, {"allow_val_change": True})
    assert (first["settings"].silent, first["settings"].console) == (True, "off"), "stdout is the run's"
    assert named(wandb, "run.finish") == [{"exit_code": 0}, {"exit_code": 1}]
    assert named(wandb, "login") == [False, False]


def test_wandb_gets_its_own_objects_and_leaves_out_what_is_excluded(wandb):
    Picture = type("Picture", (), {"__module__": "wandb.sdk.data_types"})
    Other = type("Other", (), {"__module__": "elsewhere"})
    result = {"loss": 1.0, "deep/a": 1, "deeper": 2, "picture": Picture(), "other": Other(), "done": False}
    run = Recorder(wandb, "run")
    WandbLoggerCallback(excludes=["deep"]).write(run, 1, result)
    (logged,) = named(wandb, "run.log")
    assert logged.keys() == {"loss", "deeper", "picture"}
    assert named(wandb, "config.update") == []


@pytest.mark.parametrize("option", ["upload_checkpoints", "save_checkpoints"])
def test_wandb_takes_variables_a_key_and_checkpoints(wandb, monkeypatch, tmp_path, option):
    monkeypatch.setenv("WANDB_PROJECT_NAME", "by variable")
    monkeypatch.setenv("WANDB_GROUP_NAME", "the group")
    monkeypatch.setenv("WANDB_DIR", "/elsewhere")
    (tmp_path / "key").write_text("  secret \nmore\n")
    callback = WandbLoggerCallback(api_key_file=str(tmp_path / "key"), **{option: True})
    (result,) = fit(train, callbacks=[callback], scheduler=PauseOnce())
    (made,) = named(wandb, "init")
    assert (made["project"], made["group"], made["dir"]) == ("by variable", "the group", "/elsewhere")
    assert (made["settings"].api_key, named(wandb, "login")) == ("secret", [])
    assert named(wandb, "config.update") == [({}, {"allow_val_change": True})], "it goes on after its pause"
    assert b"secret" not in pickle.dumps(callback)
    names = {call[0] for call in wandb if call[0].startswith("artifact")}
    assert names == {f"artifact model checkpoint_train_{result.metrics['trial_id']}.add_dir"}
    assert named(wandb, names.pop())[-1].startswith(result.path)
    with pytest.raises(ValueError, match="only one of api_key and api_key_file"):
        WandbLoggerCallback(api_key="a", api_key_file="b")


def test_setup_wandb_begins_the_run_of_the_trial(wandb):
    def trains(config):
        setup_wandb(config, project="mine")
        tune.report({"loss": 1})

    (result,) = fit(trains, {"lr": 1, "wandb": {"project": "hidden", "trial_name": "mine"}}, name="the_run")
    (made,) = named(wandb, "init")
    assert (made["id"], made["name"], made["project"]) == (result.metrics["trial_id"], "mine", "mine")
    assert (made["group"], made["config"], made["dir"]) == ("the_run", {"lr": 1}, result.path)
    assert named(wandb, "run.finish") == [{"exit_code": 0}]


def test_setup_wandb_takes_a_key_from_the_configuration_or_its_arguments(wandb, tmp_path):
    (tmp_path / "key").write_text("secret\n")

    def trains(config):
        setup_wandb(config)
        setup_wandb({}, api_key="other")
        tune.report({"loss": 1})

    fit(trains, {"wandb": {"api_key_file": str(tmp_path / "key")}})
    assert [made["settings"].api_key for made in named(wandb, "init")] == ["secret", "other"]


def test_setup_wandb_outside_of_a_trial_begins_an_ordinary_run(wandb):
    setup_wandb({"lr": 1, "wandb": {"project": "mine"}}, trial_id="given")
    (made,) = named(wandb, "init")
    assert made["settings"].__dict__ == {"mode": None, "api_key": None}, "W&B's own settings stay"
    del made["settings"]
    assert made == {"config": {"lr": 1}, "project": "mine", "id": "given"}


def test_wandb_keeps_the_settings_of_the_user_and_asks_nothing_offline(wandb):
    mine = SimpleNamespace(mode="offline", api_key=None)
    fit(train, callbacks=[WandbLoggerCallback(settings=mine)])
    assert named(wandb, "init")[0]["settings"] is mine
    assert named(wandb, "login") == []


@pytest.mark.parametrize("has_key", [True, False])
def test_wandb_without_a_key_is_told_before_the_run_of_a_trial(wandb, monkeypatch, caplog, has_key):
    """By a `login` as older versions have it, which would ask on the terminal without its time limit."""

    def login(timeout):
        wandb.append(("login", timeout))
        return has_key

    monkeypatch.setattr(sys.modules["wandb"], "login", login)
    fit(train, callbacks=[WandbLoggerCallback()])
    assert set(named(wandb, "login")) == {1}
    assert ("no API key was found: run `wandb login`" in caplog.text) != has_key
    assert bool(named(wandb, "init")) == has_key


# -- Comet -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def comet(monkeypatch):
    calls = []

    def maker(kind):
        def make(**options):
            calls.append((kind, options))
            return Recorder(calls, "experiment")

        return make

    class Artifact(Recorder):
        def __init__(self, name, artifact_type):
            super().__init__(calls, f"{artifact_type} {name}")

    kinds = ("Experiment", "OfflineExperiment", "ExistingExperiment", "ExistingOfflineExperiment")
    service(monkeypatch, "comet_ml", Artifact=Artifact, **{kind: maker(kind) for kind in kinds})
    service(
        monkeypatch, "comet_ml.config", set_global_experiment=lambda experiment: calls.append(("global", experiment))
    )
    monkeypatch.delenv("COMET_OFFLINE_DIRECTORY", raising=False)
    return calls


def test_comet_gets_an_experiment_for_each_trial_and_a_resumed_run_takes_it_up(comet):
    def callback():
        return CometLoggerCallback(tags=["t"], save_checkpoints=True, project_name="mine", api_key="secret")

    cut(train, {"lr": 0.5}, results=1, callbacks=[callback()])
    (result,) = resume(train, callbacks=[callback()])
    (new,), (old,) = (named(comet, kind) for kind in ("Experiment", "ExistingExperiment"))
    assert new["experiment_key"] == old["previous_experiment"]
    assert 32 <= len(new["experiment_key"]) <= 50
    assert (new["project_name"], new["log_code"], "offline_directory" in new) == ("mine", False, False)
    assert named(comet, "experiment.add_tags") == [["t"]] * 2
    assert named(comet, "experiment.log_parameters")[0] == {"lr": 0.5}
    metrics, options = named(comet, "experiment.log_metrics")[-1]
    assert (metrics["loss"], metrics["deep/a"], options) == (0.5, 1, {"step": 2})
    others = named(comet, "experiment.log_other")
    assert others[:2] == [("Created from", "minitune"), ("trial_id", result.metrics["trial_id"])]
    assert others[-1] == ("end", "finished")
    assert [call[0] for call in comet][-1] == "experiment.end"
    assert any(call[0] == f"model checkpoint_train_{result.metrics['trial_id']}.add" for call in comet)
    assert b"secret" not in pickle.dumps(callback())


# -- Aim ---------------------------------------------------------------------------------------------------------------


def test_comet_needs_no_arguments(comet):
    fit(train, callbacks=[CometLoggerCallback()])
    assert named(comet, "experiment.add_tags") == []
    assert not [call for call in comet if ".add" in call[0]], "no checkpoint is uploaded"


@pytest.mark.parametrize(
    ("option", "variable", "directory"),
    [({"offline_directory": "/mine"}, "/variable", "/mine"), ({}, "/variable", "/variable")],
)
def test_an_offline_experiment_of_comet_is_where_the_user_wants_it(comet, monkeypatch, option, variable, directory):
    monkeypatch.setenv("COMET_OFFLINE_DIRECTORY", variable)
    callback = CometLoggerCallback(online=False, **option)
    fit(train, num_samples=2, callbacks=[callback])
    assert [made["offline_directory"] for made in named(comet, "OfflineExperiment")] == [directory] * 2
    assert callback.experiment_kwargs.get("offline_directory") == option.get("offline_directory")


@pytest.fixture
def aim(monkeypatch):
    calls = []

    class Run(Recorder):
        def __init__(self, run_hash, **options):
            super().__init__(calls, "run")
            self.hash = run_hash or "hash1"
            calls.append(("Run", run_hash, options))

        def __setitem__(self, name, value):
            calls.append((name, value))

    service(monkeypatch, "aim", Run=Run)
    return calls


def test_aim_gets_all_numbers_of_the_user(aim):
    (result,) = fit(train, {"lr": 0.5}, callbacks=[AimLoggerCallback()])
    ((_, options),) = named(aim, "Run")
    assert (options["repo"], options["experiment"]) == (os.path.dirname(result.path), "run")
    assert options["capture_terminal_logs"] is False
    tracked = [(options["name"], value, options["step"]) for value, options in named(aim, "run.track")]
    assert ("ray/tune/loss", 0.5, 2) in tracked
    names = {name for name, _, _ in tracked}
    assert "ray/tune/deep/a" in names
    assert "ray/tune/training_iteration" not in names


def test_aim_gets_a_new_run_where_the_name_of_the_old_one_is_lost(aim):
    cut(train, {"lr": 0.5}, results=1, callbacks=[AimLoggerCallback()])
    (file,) = (path for path in run_path().glob("*/*") if path.is_file() and path.read_bytes() == b"hash1")
    file.unlink()
    resume(train, callbacks=[AimLoggerCallback()])
    assert [name for name, _ in named(aim, "Run")] == [None, None]
    assert file.read_bytes() == b"hash1"


# -- MLflow ------------------------------------------------------------------------------------------------------------


class Server:
    """A server of MLflow, and the part of its package that is used here."""

    def __init__(self):
        self.calls = []
        self.runs = []
        self.experiments = {}

    def client(self, *uris):
        self.calls.append(("client", *uris))
        client = Recorder(self.calls, "client")
        client.get_experiment_by_name = self.experiment
        client.create_experiment = self.create
        client.get_experiment = lambda id: SimpleNamespace(experiment_id=id)
        client.create_run = self.create_run
        client.search_runs = lambda ids, **options: [run for run in self.runs if run.tag in options["filter_string"]]
        return client

    def experiment(self, name):
        return SimpleNamespace(experiment_id=self.experiments[name]) if name in self.experiments else None

    def create(self, name, place):
        return self.experiments.setdefault(name, f"{name} at {place}")

    def create_run(self, experiment_id, tags, run_name):
        self.calls.append(("create_run", experiment_id, tags, run_name))
        run = SimpleNamespace(
            info=SimpleNamespace(run_id=f"run{len(self.runs)}"),
            data=SimpleNamespace(params={}),
            tag=tags["minitune.trial"],
        )
        self.runs.append(run)
        return run


@pytest.fixture
def mlflow(monkeypatch):
    server = Server()
    package = Recorder(server.calls, "mlflow")
    names = ("set_tracking_uri", "set_registry_uri", "end_run", "start_run", "log_params")
    service(monkeypatch, "mlflow", **{name: getattr(package, name) for name in names})
    service(monkeypatch, "mlflow.tracking", MlflowClient=server.client)

    def entity(*values):
        return values

    service(monkeypatch, "mlflow.entities", Param=entity, RunTag=entity, Metric=entity)
    for name in ("MLFLOW_TRACKING_TOKEN", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_EXPERIMENT_ID"):
        monkeypatch.delenv(name, raising=False)
    return server


def changes(context, trial, result):
    if trial.attempt.number == 1:
        trial.set_config({**trial.config, "lr": 9})
        return "PAUSE"
    return "CONTINUE"


def test_mlflow_gets_parameters_once(mlflow):
    callback = MLflowLoggerCallback("uri", registry_uri="registry", tags={"t": 1}, tracking_token="secret")
    space = {"lr": 0.5, "odd name!": "x" * 900}
    (result,) = fit(train, space, callbacks=[callback], scheduler=deciding(changes))
    assert named(mlflow.calls, "client") == [("uri", "registry")]
    ((experiment, tags, name),) = named(mlflow.calls, "create_run")
    trial_id = result.metrics["trial_id"]
    assert (experiment, name) == ("run at None", f"train_{trial_id}")
    assert tags == {"trial_name": name, "t": "1", "minitune.trial": trial_id}
    batches = named(mlflow.calls, "client.log_batch")
    assert batches[0] == ("run0", {"params": [("lr", "0.5"), ("odd name_", "x" * 500)]})
    assert ["params" in options for _, options in batches].count(True) == 1
    metrics = {(name, step): value for _, options in batches for name, value, _, step in options.get("metrics", ())}
    assert (metrics["loss", 1], metrics["loss", 2], metrics["deep/a", 2]) == (0.0, 0.5, 1.0)
    (at_ms,) = {at_ms for _, options in batches[1:2] for _, _, at_ms, _ in options["metrics"]}
    assert at_ms / 1000 == pytest.approx(result.metrics["timestamp"], abs=60), "milliseconds since the epoch"
    assert named(mlflow.calls, "client.set_terminated") == [("run0", "FINISHED")]
    assert named(mlflow.calls, "client.log_artifacts") == []
    assert b"secret" not in pickle.dumps(callback)
    assert "MLFLOW_TRACKING_TOKEN" not in os.environ


@pytest.mark.parametrize(("fails", "status"), [(True, "FAILED"), (False, "FINISHED")])
def test_mlflow_gets_the_end_of_a_trial_with_what_was_asked_for(mlflow, fails, status):
    callback = MLflowLoggerCallback(experiment_name="mine", save_artifact=True)
    (result,) = fit(train, {"fails": fails}, callbacks=[callback])
    calls = [call for call in mlflow.calls if call[0] in ("client.log_artifacts", "client.set_terminated")]
    assert calls == [("client.log_artifacts", "run0", result.path), ("client.set_terminated", "run0", status)]
    assert mlflow.experiments == {"mine": "mine at None"}


def test_setup_mlflow_outside_of_a_trial_begins_an_ordinary_run(mlflow):
    setup_mlflow({"lr": 1}, run_name="mine")
    assert named(mlflow.calls, "mlflow.start_run") == [
        {"experiment_id": "Default at None", "run_name": "mine", "tags": {}}
    ]
    assert named(mlflow.calls, "mlflow.log_params") == [{"lr": "1"}]


def test_mlflow_puts_the_token_of_the_process_back(mlflow, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "before")
    fit(train, callbacks=[MLflowLoggerCallback(tracking_token="secret")])
    assert os.environ["MLFLOW_TRACKING_TOKEN"] == "before"


def test_setup_mlflow_continues_the_run_of_an_earlier_attempt_if_there_is_one(mlflow):
    def trains(config):
        attempt = tune.get_context().get_attempt()
        if attempt == 3:  # the second attempt was the first one that began a run
            mlflow.create_run("run", {"minitune.trial": tune.get_context().get_trial_id()}, "the name")
        setup_mlflow(config)
        if attempt < 3:
            raise ValueError("not yet")
        tune.report({"loss": 1})

    (result,) = fit(trains, max_failures=2)
    assert result.error is None
    first, second, third = named(mlflow.calls, "mlflow.start_run")
    assert first == second != third
    assert third == {"run_id": "run0"}


def test_mlflow_takes_the_experiment_that_another_run_has_just_created(mlflow):
    def create_too_late(name, place):
        mlflow.experiments[name] = "by another run"
        raise RuntimeError("it exists")

    mlflow.create = create_too_late
    fit(train, callbacks=[MLflowLoggerCallback()])
    ((experiment, _, _),) = named(mlflow.calls, "create_run")
    assert experiment == "by another run"


def test_mlflow_takes_the_run_of_a_trial_up_again(mlflow):
    cut(train, {"lr": 0.5}, results=1, callbacks=[MLflowLoggerCallback()])
    resume(train, callbacks=[MLflowLoggerCallback()])
    assert len(mlflow.runs) == 1
    assert named(mlflow.calls, "client.update_run") == [("run0", {"status": "RUNNING"})]
    assert named(mlflow.calls, "client.set_terminated") == [("run0", "KILLED"), ("run0", "FINISHED")]


def test_setup_mlflow_begins_the_run_of_the_trial(mlflow, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "before")

    def trains(config):
        setup_mlflow(config, tracking_uri="uri", tracking_token="token", tags={"t": 2}, artifact_location="/a")
        tune.report({"token": os.environ["MLFLOW_TRACKING_TOKEN"]})
        if config["fails"]:
            raise ValueError("no")

    space = {"lr": 1, "fails": tune.grid_search([False, True]), "mlflow": {"registry_uri": "registry"}}
    grid = fit(trains, space, max_concurrent_trials=1)
    assert grid[0].metrics["token"] == "token"
    assert named(mlflow.calls, "mlflow.set_tracking_uri") == ["uri"] * 2
    assert named(mlflow.calls, "mlflow.set_registry_uri") == ["registry"] * 2
    begun = named(mlflow.calls, "mlflow.start_run")[0]
    trial_id = grid[0].metrics["trial_id"]
    tags = {"t": "2", "trial_name": f"trains_{trial_id}", "minitune.trial": trial_id}
    assert begun == {"experiment_id": "run at /a", "run_name": f"trains_{trial_id}", "tags": tags}
    assert named(mlflow.calls, "mlflow.log_params")[0] == {"lr": "1", "fails": "False"}
    ends = [call[1:] for call in mlflow.calls if call[0] == "mlflow.end_run"]
    assert ends == [(), ("FINISHED",), (), ("FAILED",)]
    with pytest.raises(ValueError, match="MLflow has no experiment 'none': create it, or pass create_experiment"):
        setup_mlflow({}, experiment_name="none")
