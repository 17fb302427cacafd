"""The files of the loggers, byte by byte where it matters."""

import csv
import errno
import json
import math
import os
import pickle
import re
from pathlib import Path

import pytest
from kit import Scalar, fit, make_trial, raiser, run_trial

from minitune.error import DiskError
from minitune.logger import (
    CSVLoggerCallback,
    JsonLoggerCallback,
    LoggerCallback,
    pretty_print,
)
from minitune.logger.logger import step_of


class Odd:
    """An object whose `repr` and `shape` raise."""

    def __repr__(self):
        raise RuntimeError("no text")

    @property
    def shape(self):
        raise RuntimeError("no shape")


def nested(depth):
    inner = {"leaf": 1}
    for _ in range(depth):
        inner = {"in": inner}
    return inner


def strict_load(line):
    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    return json.loads(line, parse_constant=refuse)


def log(logger, trial, result):
    logger.on_trial_result(iteration=0, trials=[trial], trial=trial, result=result)


def start(logger, trial):
    logger.on_trial_start(iteration=0, trials=[trial], trial=trial)


def end(logger, trial):
    logger.on_trial_complete(iteration=0, trials=[trial], trial=trial)


def write(logger, trial, *results):
    """A whole trial with these results."""
    start(logger, trial)
    for result in results:
        log(logger, trial, result)
    end(logger, trial)


@pytest.fixture
def trial(tmp_path):
    return make_trial(config={"lr": 0.1, "arch": {"layers": 3}}, experiment_path=str(tmp_path))


def lines(trial):
    return [strict_load(line) for line in Path(trial.local_path, "result.json").read_text("ascii").splitlines()]


def table(trial):
    with open(Path(trial.local_path, "progress.csv"), newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert {len(row) for row in rows} == {len(rows[0])}, "every row has all columns"
    return [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]


# -- json ------------------------------------------------------------------------------------------------------------


def test_result_json_has_one_line_per_report_in_the_order_of_the_keys(trial):
    write(
        JsonLoggerCallback(),
        trial,
        {"loss": 0.5, "eval": {"acc": 1}, "done": False, "config": trial.config, "pid": 7},
        {"loss": 0.25, "done": True, "config": trial.config},
    )
    text = Path(trial.local_path, "result.json").read_text("ascii")
    assert text == (
        '{"loss": 0.5, "eval": {"acc": 1}, "done": false, "config": {"lr": 0.1, "arch": {"layers": 3}}, "pid": 7}\n'
        '{"loss": 0.25, "done": true, "config": {"lr": 0.1, "arch": {"layers": 3}}}\n'
    )


def test_json_holds_any_report(trial):
    cycle = []
    cycle.append(cycle)
    logger = JsonLoggerCallback()
    start(logger, trial)
    reports = [
        (math.nan, None),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        ([1.0, math.nan], [1.0, None]),
        ((1, 2), [1, 2]),
        (Scalar(0.5), 0.5),
        (Scalar(math.nan), None),
        (Scalar(True), True),
        (..., "Ellipsis"),
        ({1: "a", (2, 3): "b", None: "c", False: "d"}, {"1": "a", "(2, 3)": "b", "null": "c", "false": "d"}),
        (nested(1000), dict),
        (nested(150), dict),
        ("\ud800", "\ud800"),
        ("ä\n", "ä\n"),
        (10**400, 10**400),
        (10**5000, re.compile("bits")),
        (b"\xff" * 1000, re.compile(r"^(?=b.\\xff).{,200}$")),
        (Odd(), "<Odd>"),
        ({"deep": [Odd()]}, {"deep": ["<Odd>"]}),
        (cycle, ["<list, nested in itself or more than 100 deep>"]),
        ({1, 2}, "{1, 2}"),
        (Path("a/b"), "a/b"),
        ("x" * 10_000, "x" * 10_000),
    ]
    for value, _ in reports:
        log(logger, trial, {"value": value, "after": 1})
    end(logger, trial)
    written = lines(trial)
    assert len(written) == len(reports)
    for (_, wanted), line in zip(reports, written, strict=True):
        found = line["value"]
        assert line["after"] == 1
        if isinstance(wanted, re.Pattern):
            assert wanted.search(found)
        else:
            assert isinstance(found, wanted) if isinstance(wanted, type) else repr(found) == repr(wanted)


def test_a_logger_goes_on_after_the_end_of_a_run(trial):
    """As one does that is passed to two runs, of which the second resumes the first."""
    for logger in (JsonLoggerCallback(), CSVLoggerCallback()):
        for loss in (1, 2):
            start(logger, trial)
            log(logger, trial, {"loss": loss})
            logger.on_experiment_end(trials=[trial])
    assert lines(trial) == [{"loss": 1}, {"loss": 2}]
    assert [row["loss"] for row in table(trial)] == ["1", "2"]


def test_a_torn_last_line_is_cut_off_at_the_next_start(trial):
    for logger in (JsonLoggerCallback(), CSVLoggerCallback()):
        write(logger, trial, {"loss": 1})
    for name in ("result.json", "progress.csv"):
        with open(Path(trial.local_path, name), "a") as file:
            file.write('{"loss": 2')
    for logger in (JsonLoggerCallback(), CSVLoggerCallback()):
        write(logger, trial, {"loss": 3})
    assert lines(trial) == [{"loss": 1}, {"loss": 3}]
    assert [row["loss"] for row in table(trial)] == ["1", "3"]


def test_params_are_written_at_each_start(trial):
    logger = JsonLoggerCallback()
    trial.config = {"b": math.nan, "a": print, "c": {"z": 1, "y": (1, 2)}}
    write(logger, trial)
    text = Path(trial.local_path, "params.json").read_text("ascii")
    assert text.startswith('{\n  "a": "<built-in function print>",\n  "b": null,\n  "c": {\n    "y": [')
    trial.config = {"lr": 1}
    write(logger, trial)
    assert json.loads(Path(trial.local_path, "params.json").read_text()) == {"lr": 1}


def test_large_values_of_a_configuration_are_short_texts_in_the_files(trial):
    numbers = list(range(100_000))
    trial.config = {"lr": 1, "data": "x" * 2_000_000, "inner": {"tuple": (numbers, 2)}}
    logger = JsonLoggerCallback()
    start(logger, trial)
    log(logger, trial, {"loss": math.nan, "config": trial.config})
    params = json.loads(Path(trial.local_path, "params.json").read_text())
    assert params["data"].startswith("xxx")
    assert params["inner"]["tuple"][0].startswith("[0, 1, 2")
    assert len(str(params)) < 1_000
    assert lines(trial) == [{"loss": None, "config": params}]
    logger.update_config(trial, {"lr": 2})
    assert json.loads(Path(trial.local_path, "params.json").read_text()) == {"lr": 2}
    end(logger, trial)


@pytest.mark.parametrize(("kind", "name"), [(JsonLoggerCallback, "result.json"), (CSVLoggerCallback, "progress.csv")])
def test_a_logger_can_be_recorded_with_its_run_and_writes_after_that(kind, name, trial, caplog):
    logger = pickle.loads(pickle.dumps(kind()))
    write(logger, trial, {"a": 1})
    assert "1" in Path(trial.local_path, name).read_text()
    fit(lambda config: {"a": 1}, callbacks=[kind()])
    assert caplog.messages == []


# -- csv ---------------------------------------------------------------------------------------------------------------


def test_a_table_is_flat_and_has_no_config(trial):
    write(
        CSVLoggerCallback(),
        trial,
        {"loss": 0.5, "eval": {"acc": 1, "by": {"x": 2}}, "done": False, "config": {"lr": 1}},
    )
    assert Path(trial.local_path, "progress.csv").read_text() == "loss,done,eval/acc,eval/by/x\n0.5,False,1,2\n"


def test_a_trial_without_reports_has_no_table(trial):
    logger = CSVLoggerCallback()
    write(logger, trial)
    assert not os.path.exists(os.path.join(trial.local_path, "progress.csv"))
    log(logger, trial, {"config": {"lr": 1}})
    log(logger, trial, {"a": 1})
    end(logger, trial)
    assert table(trial) == [{"a": "1"}], "a report without metrics is no row"


def test_a_missing_value_is_empty_and_a_new_key_gets_its_column(trial):
    write(
        CSVLoggerCallback(),
        trial,
        {"a": 1, "b": 2},
        {"a": 3},
        {"a": 4, "c": "x,y"},
        {"d": 5, "b": None},
        {"b": "two\nlines"},
    )
    assert table(trial) == [
        {"a": "1", "b": "2", "c": "", "d": ""},
        {"a": "3", "b": "", "c": "", "d": ""},
        {"a": "4", "b": "", "c": "x,y", "d": ""},
        {"a": "", "b": "", "c": "", "d": "5"},
        {"a": "", "b": "two\\nlines", "c": "", "d": ""},
    ]


def test_a_new_column_is_there_at_once_until_there_are_many(trial, monkeypatch):
    monkeypatch.setattr("minitune.logger.csv._MOST_COLUMNS", 3)
    logger = CSVLoggerCallback()
    start(logger, trial)
    log(logger, trial, {"a": 1})
    log(logger, trial, {"a": 2, "b": 3})
    assert table(trial) == [{"a": "1", "b": ""}, {"a": "2", "b": "3"}]
    log(logger, trial, {"a": 4, "c": 5, "d": 6})
    log(logger, trial, {"e": 7, "c": 8})
    assert [tuple(row.values()) for row in table(trial)[2:]] == [("4", "", "5"), ("", "", "8")]
    end(logger, trial)


@pytest.mark.parametrize("make", [JsonLoggerCallback, CSVLoggerCallback])
def test_a_directory_that_was_removed_during_a_run_is_not_made_again(make, trial, caplog):
    trial.attempt.number = 1
    write(make(), trial, {"loss": 1}, {"loss": 2})
    assert not os.path.exists(trial.local_path)
    assert caplog.text.count("could not be written (No such file or directory") > 0


def test_a_new_driver_reads_the_header_back(trial):
    first, second = CSVLoggerCallback(), CSVLoggerCallback()
    write(first, trial, {"a": 1, 'odd, "name"': 2})
    write(second, trial, {'odd, "name"': 4, "a": 3, "new": 5})
    assert table(trial) == [
        {"a": "1", 'odd, "name"': "2", "new": ""},
        {"a": "3", 'odd, "name"': "4", "new": "5"},
    ]


def test_a_table_holds_any_report(trial):
    logger = CSVLoggerCallback()
    start(logger, trial)
    values = [
        1,
        math.nan,
        "two\nlines\r",
        Odd(),
        [1, 2],
        {},
        "\ud800",
        "ä",
        10**5000,
        {3: 4},
        nested(1000),
        Scalar(0.5),
        "a\0b",
        "x" * 200_000,
    ]
    for value in values:
        log(logger, trial, {"value": value, "after": 1})
    end(logger, trial)
    rows = table(trial)
    assert len(rows) == len(values)
    assert all(row["after"] == "1" for row in rows)
    assert [row["value"] for row in rows[:9]] == [
        *("1", "nan", "two\\nlines\\r", "<Odd>", "[1, 2]", "{}", "\\ud800", "ä"),
        rows[8]["value"],
    ]
    assert rows[9]["value/3"] == "4"
    assert rows[11]["value"] == "0.5"
    assert rows[12]["value"] == "a\\0b"
    assert rows[13]["value"] == "x" * 99_997 + "...", "Python's reader takes no more than 131,072 characters"


# -- files -------------------------------------------------------------------------------------------------------------


def open_descriptors():
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors in /proc")
@pytest.mark.parametrize("make", [JsonLoggerCallback, CSVLoggerCallback])
def test_two_hundred_live_trials_need_few_descriptors(make, tmp_path):
    logger = make()
    trials = [make_trial(number, experiment_path=str(tmp_path)) for number in range(200)]
    before = open_descriptors()
    for one in trials:
        start(logger, one)
    for number in range(3):
        for one in trials:
            log(logger, one, {"loss": number})
    assert open_descriptors() - before <= 64
    logger.on_experiment_end(trials=trials)
    assert open_descriptors() == before
    read = lines if make is JsonLoggerCallback else table
    assert {len(read(one)) for one in trials} == {3}


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors in /proc")
@pytest.mark.parametrize("make", [JsonLoggerCallback, CSVLoggerCallback])
@pytest.mark.parametrize("how", ["complete", "error"])
def test_files_are_closed_when_a_trial_ends(make, how, trial):
    logger = make()
    before = open_descriptors()
    start(logger, trial)
    log(logger, trial, {"loss": 1})
    run_trial(trial)
    hook = {"complete": logger.on_trial_complete, "error": logger.on_trial_error}[how]
    hook(iteration=1, trials=[trial], trial=trial)
    assert open_descriptors() == before
    write(logger, trial, {"loss": 2})
    assert open_descriptors() == before


@pytest.mark.parametrize("make", [JsonLoggerCallback, CSVLoggerCallback])
def test_an_unwritable_file_is_warned_about_once(make, trial, caplog, monkeypatch):
    name = "result.json" if make is JsonLoggerCallback else "progress.csv"
    logger = make()
    start(logger, trial)
    monkeypatch.setattr(os, "write", raiser(PermissionError(errno.EPERM, os.strerror(errno.EPERM))))
    log(logger, trial, {"loss": 1})
    log(logger, trial, {"loss": 2})
    assert [record.message.count(f"{name} could not be written (Operation") for record in caplog.records] == [1]
    end(logger, trial)


@pytest.mark.parametrize("make", [JsonLoggerCallback, CSVLoggerCallback])
def test_a_line_for_which_there_is_no_space_is_not_there_in_part(make, trial, monkeypatch):
    logger = make()
    start(logger, trial)
    log(logger, trial, {"loss": 1})
    files = {path.name: path.read_bytes() for path in Path(trial.local_path).glob("[rp]*[sn]*")}
    write = os.write
    calls = []

    def full(descriptor, data):
        calls.append(data)
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data[: len(data) // 2])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(DiskError, match=f"{trial.local_path}/.* could not be written: No space left on device"):
            log(logger, trial, {"loss": 2})
    assert len(calls) == 2
    assert {path.name: path.read_bytes() for path in Path(trial.local_path).glob("[rp]*[sn]*")} == files
    end(logger, trial)


# -- base and pretty_print -----------------------------------------------------------------------------------------


def test_a_users_logger_needs_five_methods(trial):
    calls = []

    class Mine(LoggerCallback):
        def log_trial_start(self, trial):
            calls.append("start")

        def log_trial_restore(self, trial):
            calls.append("restore")

        def log_trial_save(self, trial):
            calls.append("save")

        def log_trial_result(self, iteration, trial, result):
            calls.append((iteration, result))

        def log_trial_end(self, trial, failed=False):
            calls.append(failed)

    logger, info = Mine(), {"iteration": 4, "trials": [trial], "trial": trial, "more": 1}
    for hook in ("start", "restore", "save", "complete", "error"):
        getattr(logger, f"on_trial_{hook}")(**info)
    logger.on_trial_result(**info, result={"loss": 1})
    assert calls == ["start", "restore", "save", False, True, (4, {"loss": 1})]


@pytest.mark.parametrize(
    ("total", "step"),
    [
        *[(500, 500), (-3, -3), (2.5, 2)],
        *[(value, 4) for value in (None, 0, math.nan, math.inf, 10**400, "many", [1], Odd())],
    ],
)
def test_the_step_is_that_of_the_user_if_it_is_a_number(total, step):
    assert step_of({"timesteps_total": total, "training_iteration": 4}) == step
    assert step_of({"timesteps_total": total}) == (step if step != 4 else 0)


def test_pretty_print_is_sorted_and_leaves_out_long_values():
    result = {
        "loss": 0.5,
        "config": {"lr": 1},
        "hist_stats": [1],
        "none": None,
        "eval": {"b": [1, 2], "a": {"deep": 1.5}, "e": {}},
        "name": "two\nwords",
        "done": True,
    }
    assert pretty_print(result, exclude={"done"}) == (
        "eval:\n  a:\n    deep: 1.5\n  b: [1, 2]\n  e: {}\nloss: 0.5\nname: two words\n"
    )
    assert pretty_print({}) == pretty_print({"config": {"lr": 1}}) == "{}\n"
