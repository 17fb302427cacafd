"""The callbacks for experiment trackers, with a tracker in memory instead of a package."""

import importlib
import logging
import sys
import threading
from types import SimpleNamespace

import pytest
from kit import CutAfter, PauseOnce, fit, report_n, resume

import minitune as tune
from minitune.integration._tracking import TrackerCallback, begins_with, numbers_in, plain_config


class Memory(TrackerCallback):
    """Keeps its calls and the names of their threads."""

    tracker = "memory"

    def __init__(self, upload_timeout=60.0):
        super().__init__(upload_timeout)
        self.told = []
        self.threads = set()

    def open(self, facts):
        self.threads.add(threading.current_thread().name)
        self.told.append(("open", facts.trial_id, facts.is_new, facts.config))
        return facts.trial_id

    def restart(self, record, facts):
        self.told.append(("restart", record))

    def write(self, record, step, result):
        self.told.append(("write", record, step, result["n"]))

    def close(self, record, facts, end):
        self.told.append(("close", record, end.name))

    def verbs(self):
        return [event[0] for event in self.told]


def test_a_trial_that_pauses_has_one_record_written_on_another_thread():
    memory = Memory()
    space = {"a": {"b": 3}, "f": print}
    (result,) = fit(report_n(3), space, callbacks=[memory], scheduler=PauseOnce())
    assert result.error is None
    assert memory.verbs() == ["open", "write", "restart", "write", "write", "write", "close"]
    assert memory.told[0][2:] == (True, {"a/b": 3, "f": "<built-in function print>"})
    assert [event[2] for event in memory.told if event[0] == "write"][-1] == 3
    assert memory.told[-1][2] == "FINISHED"
    assert memory.threads == {"minitune-memory"}
    assert "minitune-memory" not in [thread.name for thread in threading.enumerate()]


def test_a_total_of_timesteps_that_is_no_number_ends_no_run():
    memory = Memory()
    grid = fit(report_n(2, timesteps_total=float("nan")), callbacks=[memory])
    assert grid.num_terminated == 1
    assert [event[2] for event in memory.told if event[0] == "write"] == [1, 2]


def test_a_failed_trial_ends_as_failed_and_a_retry_goes_on():
    def fail(config):
        tune.report({"n": 1})
        raise ValueError("no")

    memory = Memory()
    fit(fail, callbacks=[memory], max_failures=1)
    assert memory.verbs() == ["open", "write", "restart", "write", "close"]
    assert memory.told[-1][2] == "FAILED"


def test_a_restored_run_takes_its_record_up_again():
    memory = Memory()
    with pytest.raises(tune.TuneError):
        fit(report_n(4), callbacks=[CutAfter(2), memory])
    assert (memory.told[-1][0], memory.told[-1][2]) == ("close", "INTERRUPTED")
    other = Memory()
    resume(report_n(4), callbacks=[CutAfter(99), other])
    assert other.told[0][:3] == ("open", memory.told[0][1], False)
    assert other.told[-1][2] == "FINISHED"


class Opener(tune.Callback):
    """Lets the tracker continue when all trials have ended."""

    def __init__(self, gate):
        self.gate = gate

    def on_experiment_end(self, trials, **info):
        self.gate.set()


def test_a_tracker_that_hangs_does_not_hold_up_the_run():
    gate = threading.Event()

    class Slow(Memory):
        def open(self, facts):
            gate.wait()
            return super().open(facts)

        def __getstate__(self):
            return {}

    slow = Slow()
    grid = fit(report_n(3), num_samples=3, callbacks=[Opener(gate), slow])
    assert len(grid) == 3
    assert slow.verbs().count("write") == 9


def test_the_end_of_a_run_waits_no_longer_than_it_is_told(caplog):
    gate = threading.Event()

    class Stuck(Memory):
        def write(self, record, step, result):
            gate.wait()
            super().write(record, step, result)

        def __getstate__(self):
            return {}

    stuck = Stuck(upload_timeout=0.01)
    grid = fit(report_n(3), callbacks=[stuck])
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "minitune-memory"]
    gate.set()
    thread.join()
    assert grid.num_errors == 0
    assert "Stuck was too slow: " in caplog.text
    assert stuck.verbs() == ["open", "write"]


@pytest.mark.parametrize("at", ["open", "write", "restart", "close"])
def test_a_tracker_that_fails_costs_one_warning(at, caplog):
    class Failing(Memory):
        pass

    def fails(self, *args):
        raise OSError("no\nnetwork")

    setattr(Failing, at, fails)
    with caplog.at_level(logging.WARNING, logger="minitune"):
        callback = Failing()
        grid = fit(report_n(3), num_samples=3, callbacks=[callback], scheduler=PauseOnce())
    assert (len(grid), grid.num_errors) == (3, 0)
    assert [line for line in caplog.messages if "OSError: no network" in line] == [
        line for line in caplog.messages if line.startswith("Failing ")
    ]
    assert len([line for line in caplog.messages if line.startswith("Failing ")]) == 1
    if at == "write":
        assert callback.verbs().count("close") == 3


def test_trackers_get_the_numbers_of_a_result():
    result = {"loss": 1, "on": True, "text": "a", "list": [1], "config/x": 2, "done": True, "nan": float("nan")}
    assert list(numbers_in(result)) == ["loss", "on", "nan"]
    assert begins_with("a/b", ("a",))
    assert not begins_with("ab", ("a",))


def test_trackers_get_the_configuration_as_plain_values():
    scalar = SimpleNamespace(shape=(), item=lambda: 3)
    config = {"size": scalar, "net": {"layers": [1, 2]}, "none": None}
    assert plain_config(config) == {"size": 3, "net/layers": "[1, 2]", "none": None}


CALLBACKS = [
    ("air.integrations.wandb", "WandbLoggerCallback", "wandb"),
    ("tune.logger.wandb", "WandbLoggerCallback", "wandb"),
    ("air.integrations.mlflow", "MLflowLoggerCallback", "mlflow"),
    ("tune.logger.mlflow", "MLflowLoggerCallback", "mlflow"),
    ("air.integrations.comet", "CometLoggerCallback", "comet_ml"),
    ("tune.integration.comet", "CometLoggerCallback", "comet_ml"),
    ("tune.logger.aim", "AimLoggerCallback", "aim"),
    ("air.integrations.wandb", "setup_wandb", "wandb"),
    ("tune.integration.mlflow", "setup_mlflow", "mlflow"),
]


@pytest.mark.parametrize(("path", "name", "package"), CALLBACKS)
def test_a_package_that_is_not_there_is_named_with_the_way_to_install_it(path, name, package, monkeypatch):
    made = getattr(importlib.import_module(f"minitune.{path}"), name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"{name}.* needs {package}.*pip install {package}$"):
        made()
