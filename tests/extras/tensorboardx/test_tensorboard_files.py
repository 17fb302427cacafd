"""Event files as tensorboardX itself reads them back. Needs tensorboardX and numpy."""

from __future__ import annotations

import logging
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit import fit, report_n
from tensorboardX.proto.event_pb2 import Event

from minitune.experiment.lifecycle import Transition
from minitune.experiment.trial import Trial
from minitune.logger import TBXLoggerCallback
from minitune.logger.tensorboardx import TBXLoggerCallback as SameLogger


def events_of(directory: Path) -> list[Event]:
    """All events in a directory's files: each is a length, its checksum, the event, its checksum."""
    events = []
    for path in sorted(directory.glob("events.out.tfevents.*")):
        data, at = path.read_bytes(), 0
        while at < len(data):
            (length,) = struct.unpack_from("<Q", data, at)
            event = Event()
            event.ParseFromString(data[at + 12 : at + 12 + length])
            events.append(event)
            at += 16 + length
    return events


def scalars(directory: Path) -> dict[str, list[tuple[int, float]]]:
    found: dict[str, list[tuple[int, float]]] = {}
    for event in events_of(directory):
        for value in event.summary.value:
            if value.HasField("simple_value"):
                found.setdefault(value.tag, []).append((event.step, value.simple_value))
    return found


def tags(directory: Path) -> set[str]:
    return {v.tag for event in events_of(directory) for v in event.summary.value if v.HasField("histo")}


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    made = Trial("train", trial_id="t0", evaluated_params={"lr": 0.1, "opt/name": "sgd", "on": True, "n": np.int64(3)})
    made.set_directory(str(tmp_path), None)
    Path(made.local_path).mkdir()
    made.move(Transition.START)
    made.move(Transition.TRAIN)
    return made


def result(iteration: int, **metrics: Any) -> dict[str, Any]:
    return {**metrics, "training_iteration": iteration, "time_total_s": 1.0, "pid": 7, "timestamp": 1, "config": {}}


def test_numbers_lists_and_hyperparameters_are_written(trial: Trial) -> None:
    logger = TBXLoggerCallback()
    logger.log_trial_start(trial)
    for i in (1, 2):
        metrics = {"loss": 1.0 / i, "eval": {"acc": np.float32(0.5)}, "nan": float("nan"), "text": "x", "flag": True}
        logger.log_trial_result(i, trial, result(i, **metrics, weights=[1.0, 2.0], array=np.arange(4), empty=[]))
    logger.log_trial_end(trial)
    directory = Path(trial.local_path)
    found = scalars(directory)
    assert found["ray/tune/loss"][:2] == [(1, 1.0), (2, 0.5)]
    assert found["ray/tune/eval/acc"][:2] == [(1, 0.5), (2, 0.5)]
    assert found["ray/tune/flag"][0] == (1, 1.0)
    assert set(found) == {"ray/tune/loss", "ray/tune/eval/acc", "ray/tune/flag"}
    assert tags(directory) == {"ray/tune/weights", "ray/tune/array"}
    raw = b"".join(path.read_bytes() for path in directory.glob("events*"))
    assert all(word in raw for word in (b"hparams", b"opt/name", b"sgd"))


def test_hyperparameters_are_shown_as_numbers_or_short_text(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    parameters = {
        "sizes": [1, 2],
        "many": list(range(2_000)),
        "text": "x" * 1_001,
        "object": object(),
        "n": np.int64(3),
    }
    made = Trial("train", trial_id="t0", evaluated_params=parameters, experiment_path=str(tmp_path))
    logger = TBXLoggerCallback()
    logger.log_trial_start(made)
    logger.log_trial_result(1, made, result(1, loss=1.0))
    logger.log_trial_end(made)
    raw = b"".join(path.read_bytes() for path in Path(made.local_path).glob("events*"))
    assert b"[1, 2]" in raw
    assert b"many" in raw
    assert b", 1500," not in raw
    assert b"object at" not in raw
    assert b"x" * 1_001 not in raw
    assert caplog.text == ""


def test_a_list_of_dicts_is_left_out_without_a_warning(trial: Trial, caplog: pytest.LogCaptureFixture) -> None:
    logger = TBXLoggerCallback()
    logger.log_trial_result(1, trial, result(1, loss=1.0, layers=[{"size": 1}], empty=[], none=np.zeros(0)))
    logger.log_trial_end(trial)
    assert tags(Path(trial.local_path)) == set()
    assert caplog.text == ""


def test_a_directory_that_was_removed_during_a_run_is_not_made_again(
    trial: Trial, caplog: pytest.LogCaptureFixture
) -> None:
    Path(trial.local_path).rmdir()
    trial.attempt.number = 1
    logger = TBXLoggerCallback()
    for iteration in (1, 2):
        logger.log_trial_result(iteration, trial, result(iteration, loss=1.0))
    logger.log_trial_end(trial)
    assert not Path(trial.local_path).exists()
    assert caplog.text.count("is not shown in TensorBoard") == 1


def test_the_step_is_the_users_timesteps_if_there_are_any(trial: Trial) -> None:
    logger = TBXLoggerCallback()
    for iteration, total in ((1, 500), (2, float("nan")), (3, 10**400)):
        logger.log_trial_result(iteration, trial, result(iteration, loss=1.0, timesteps_total=total))
    logger.log_trial_end(trial)
    assert [step for step, _ in scalars(Path(trial.local_path))["ray/tune/loss"][:3]] == [500, 2, 3]


def test_invalid_histogram_is_logged_once(trial: Trial, caplog: pytest.LogCaptureFixture) -> None:
    logger = TBXLoggerCallback()
    with caplog.at_level(logging.WARNING, "minitune"):
        for i in (1, 2):
            logger.log_trial_result(i, trial, result(i, bad=["a", "b"], loss=1.0))
    logger.log_trial_end(trial)
    assert caplog.text.count("ray/tune/bad is not shown") == 1
    assert len(scalars(Path(trial.local_path))["ray/tune/loss"]) >= 2


def test_an_int_of_any_size_is_a_number(trial: Trial) -> None:
    logger = TBXLoggerCallback()
    logger.log_trial_start(trial)
    logger.log_trial_result(1, trial, {"training_iteration": 1, "many": 10**30, "more": 10**400, "less": -(10**400)})
    logger.log_trial_end(trial)
    found = scalars(Path(trial.local_path))
    assert found["ray/tune/many"] == [(1, pytest.approx(1e30))]
    assert (found["ray/tune/more"], found["ray/tune/less"]) == ([(1, float("inf"))], [(1, float("-inf"))])


def test_a_retry_writes_a_second_file_of_the_same_run(trial: Trial) -> None:
    logger = TBXLoggerCallback()
    logger.log_trial_start(trial)
    logger.log_trial_result(1, trial, result(1, loss=1.0))
    logger.log_trial_start(trial)
    logger.log_trial_result(2, trial, result(2, loss=0.5))
    logger.on_experiment_end([trial])
    assert [step for step, _ in scalars(Path(trial.local_path))["ray/tune/loss"]] == [1, 2]


def test_hundreds_of_trials_need_few_threads(tmp_path: Path) -> None:
    logger, trials = TBXLoggerCallback(), []
    for number in range(200):
        trials.append(Trial("train", trial_id=f"t{number}", experiment_path=str(tmp_path)))
        Path(trials[-1].local_path).mkdir()
        logger.log_trial_start(trials[-1])
        logger.log_trial_result(1, trials[-1], result(1, loss=1.0))
    assert threading.active_count() < 100
    logger.log_trial_result(2, trials[0], result(2, loss=2.0))
    logger.on_experiment_end(trials)
    assert [step for step, _ in scalars(Path(trials[0].local_path))["ray/tune/loss"]] == [1, 2]


def test_a_run_writes_event_files_only_when_asked() -> None:
    assert SameLogger is TBXLoggerCallback
    plain = fit(report_n(1), {}, name="plain")
    assert not [*Path(plain.experiment_path).glob("*/events.out.tfevents.*")]
    asked = fit(report_n(1), {}, name="asked", callbacks=[TBXLoggerCallback()])
    assert len([*Path(asked.experiment_path).glob("*/events.out.tfevents.*")]) == 1


def test_importing_minitune_does_not_load_it() -> None:
    text = "import sys, minitune, minitune.logger, minitune.tuner; print('tensorboardX' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout == "False\n"
