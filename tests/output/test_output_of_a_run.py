"""The output of a run: files of loggers, the console, a notebook, tracebacks; and the variables that control it."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from kit import Listed, fit, listening, make_tuner, run_path

import minitune as tune
from minitune import CLIReporter, Result
from minitune.logger import CSVLoggerCallback, JsonLoggerCallback
from minitune.output.live_reporter import JupyterNotebookReporter


def train(config):
    if config.get("x") == 2:
        raise ValueError("no <good> ünïcode")
    for i in range(2):
        tune.report({"loss": i + config.get("x", 0), "nested": {"a": i}})


def talk(config):
    print("to stdout")
    print("to stderr", file=sys.stderr)
    names = ("TUNE_ORIG_WORKING_DIR", "MINITUNE_ORIG_WORKING_DIR")
    tune.report({"here": os.getcwd(), "variables": {name: os.environ.get(name) for name in names}})


def fit_train(space=None, **settings):
    return fit(train, space, metric="loss", mode="min", **settings)


def lines_of(result, name):
    return Path(result.path, name).read_text(encoding="utf-8").splitlines()


# -- loggers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variable", ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "MINITUNE_DISABLE_AUTO_CALLBACK_LOGGERS"])
def test_a_variable_leaves_only_the_loggers_that_were_passed(variable, monkeypatch):
    monkeypatch.setenv(variable, "1")
    (result,) = fit_train(callbacks=[CSVLoggerCallback()])
    assert Path(result.path, "progress.csv").exists()
    assert not Path(result.path, "result.json").exists()
    assert result.metrics["loss"] == 1


def test_a_logger_that_was_passed_is_not_doubled():
    class Mine(CSVLoggerCallback):
        def log_trial_result(self, iteration, trial, result):
            super().log_trial_result(iteration, trial, {"only": result["loss"]})

    (result,) = fit_train(callbacks=[JsonLoggerCallback(), Mine()])
    assert len(lines_of(result, "result.json")) == 2
    assert lines_of(result, "progress.csv") == ["only", "0", "1"]


# -- errors and output of trials ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_full", [False, True])
def test_tracebacks_hide_our_own_frames_unless_asked_for(is_full, monkeypatch):
    monkeypatch.setenv("RAY_AIR_FULL_TRACEBACKS", str(int(is_full)))
    (result,) = fit_train({"x": 2})
    text = "\n".join(lines_of(result, "error.txt"))
    assert text.startswith("Failure # 1 (occurred at 2")
    assert text.endswith("ValueError: no <good> ünïcode")
    assert "in train" in text
    assert ("function_runner.py" in text) is is_full


@pytest.mark.parametrize("is_cause", [False, True])
def test_tracebacks_of_linked_errors_hide_our_own_frames_too(is_cause):
    def with_cause(config):
        try:
            tune.report({"lock": threading.Lock()})
        except TypeError as error:
            raise ValueError("no luck") from error

    def with_context(config):
        try:
            tune.report({"lock": threading.Lock()})
        except TypeError:
            raise ValueError("no luck")  # noqa: B904  # its context is shown

    (result,) = fit(with_cause if is_cause else with_context)
    text = str(result.error)
    assert "TypeError: " in text
    assert text.count("  File ") == 2


def test_refused_report_shows_the_line_of_its_call():
    def train(config):
        metrics = {"number": 3, "lock": {"x": threading.Lock()}, "path": {"x": 1}}[config["kind"]]
        tune.report(metrics, checkpoint="not one" if config["kind"] == "path" else None)  # type: ignore[arg-type]

    for result in fit(train, {"kind": tune.grid_search(["number", "lock", "path"])}):
        text = str(result.error)
        assert text.count("  File ") == 1
        assert "in train" in text
        assert text.splitlines()[-1].startswith("TypeError: ")


@pytest.mark.parametrize(
    ("log_to_file", "names"), [("both.log", ("both.log", "both.log")), (("out", "err"), ("out", "err"))]
)
def test_output_of_a_trial_has_the_names_that_were_given(log_to_file, names):
    (result,) = fit(talk, executor="local", log_to_file=log_to_file)
    assert "to stdout" in lines_of(result, names[0])
    assert "to stderr" in lines_of(result, names[1])


@pytest.mark.parametrize(
    ("stdout", "is_reused", "changes"), [("stdout", False, True), ("all.log", False, True), ("all.log", True, False)]
)
def test_trials_may_share_a_file_for_their_output(stdout, is_reused, changes, tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_CHDIR_TO_TRIAL_DIR", str(int(changes)))
    shared = tmp_path / "all.log"
    names = (stdout if stdout == "stdout" else str(tmp_path / stdout), str(shared))
    space = {"x": tune.grid_search([1, 2])}
    results = fit(talk, space, executor="local", log_to_file=names, reuse_actors=is_reused)
    assert shared.read_text(encoding="utf-8").count("to stderr") == 2
    assert all(Path(result.path, "params.json").exists() for result in results)


def test_a_name_of_a_file_for_output_has_no_directory():
    with pytest.raises(ValueError, match="a file name"):
        fit(talk, log_to_file="below/it.log")


@pytest.mark.parametrize("changes", [True, False])
def test_a_trial_knows_where_the_driver_works(changes, monkeypatch):
    monkeypatch.setenv("RAY_CHDIR_TO_TRIAL_DIR", str(int(changes)))
    (result,) = fit(talk, executor="local")
    assert (result.metrics["here"] == os.getcwd()) is not changes
    assert set(result.metrics["variables"].values()) == {os.getcwd()}


def test_chdir_to_trial_dir_names_its_variable(caplog):
    analysis = tune.run(talk, chdir_to_trial_dir=False, name="run", verbose=0)
    assert analysis.trials[0].last_result["here"] == os.getcwd()
    assert caplog.text.count("set RAY_CHDIR_TO_TRIAL_DIR=0 in the environment") == 1


# -- console -----------------------------------------------------------------------------------------------------------


def test_level_0_prints_nothing(capfd):
    for reporter in (None, CLIReporter()):
        fit_train({"x": tune.grid_search([1, 2])}, progress_reporter=reporter)
    assert capfd.readouterr() == ("", "")


def test_an_interrupted_run_tells_how_to_resume_it_in_a_shell(caplog):
    interrupt = listening(on_trial_result=lambda **info: os.kill(os.getpid(), signal.SIGINT))
    fit_train(callbacks=[interrupt], name="my run")
    path = run_path("my run")
    assert caplog.messages[-1:] == [
        f"interrupted by SIGINT; resume with Tuner.restore('{path}', trainable).fit(), or on the command line: "
        f"minitune resume '{path}'",
    ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_told_with_the_time_that_is_left_and_only_ctrl_c_with_the_second_one(number, caplog, monkeypatch):
    monkeypatch.setenv("MINITUNE_FORCE_TRIAL_CLEANUP_S", "7")
    before = signal.signal(signal.SIGTERM, lambda number, frame: None)
    try:
        fit_train(callbacks=[listening(on_trial_result=lambda **info: os.kill(os.getpid(), number))])
    finally:
        signal.signal(signal.SIGTERM, before)
    shortcut = "; a second Ctrl-C kills them at once" if number is signal.SIGINT else ""
    assert f"{number.name}: no new trials start; running trials have 7 s to end{shortcut}" in caplog.messages


def test_a_run_that_ends_before_a_result_or_without_a_trial_gets_no_hint(capsys):
    fit_train(callbacks=[listening(on_trial_start=lambda **info: os.kill(os.getpid(), signal.SIGINT))], verbose=1)
    assert "Ended early: interrupted by SIGINT" in (shown := capsys.readouterr().out)
    assert "hint: " not in shown
    fit_train({"x": tune.uniform(0, 1)}, search_alg=Listed(), name="none", num_samples=2, verbose=1)
    assert re.search(r"0 of 2 trials in \S+ s: 2 not started\n", shown := capsys.readouterr().out)
    assert "hint: " not in shown


def test_columns_of_wide_characters_stay_in_line(capsys):
    fit_train({"x": tune.grid_search([1, 3]), "text": tune.grid_search(["日本語", "äö"])}, verbose=1)
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| train_")]
    assert len(rows) == 4
    assert {len(line) + 3 * line.count("日本語") for line in rows} == {max(map(len, rows))}


def test_a_best_trial_that_has_failed_is_marked(capfd):
    def fails(config):
        tune.report({"loss": config["x"]})
        if config["x"] == 0:
            raise ValueError("no 0")

    grid = fit(fails, {"x": tune.grid_search([1, 0])}, metric="loss", mode="min", verbose=1)
    best = grid.get_best_result()
    assert best.error is not None, "as in Ray Tune"
    assert f"Best: loss=0 with x=0 (trial {best.metrics['trial_id']}, which has failed)\n" in capfd.readouterr().out


def reads(config):
    tune.report({"n": 1})
    with open(config["path"], "w" if "new" in config["path"] else "r"):
        pass


def test_a_relative_path_gets_a_hint_where_the_file_is(capfd, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.txt").write_text("here")
    (tmp_path / "out").mkdir()
    meant = {
        "data.txt": tmp_path / "data.txt",
        "out/new.txt": tmp_path / "out" / "new.txt",
        "nowhere.txt": None,
        str(tmp_path / "nowhere.txt"): None,
    }
    grid = fit(reads, {"path": tune.grid_search(list(meant))}, executor="local", verbose=1)
    shown = capfd.readouterr().out
    hint = "hint: the working directory of each trial is its own directory; use the absolute path, "
    for result, place in zip(grid, meant.values(), strict=True):
        line = f"\n{hint}{place}, or set MINITUNE_CHDIR_TO_TRIAL_DIR=0\n"
        if result is grid[0]:  # shown once for all four, which fail at one place
            assert shown.count(line) == shown.count("hint:") == 1
        for text in (f"{result.error}\n", Path(result.path, "error.txt").read_text()):
            assert "FileNotFoundError: " in text
            assert text.count(line) == text.count("hint:") == (place is not None)
        again = Result.from_path(result.path).error  # from the text alone
        assert again.summary() == result.error.summary() == f"FileNotFoundError: {result.error.__cause__}"


def test_the_hint_is_told_once_where_the_error_is_raised(capfd, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.txt").write_text("here")
    with pytest.raises(tune.TuneError) as caught:
        make_tuner(reads, {"path": "data.txt"}, executor="local", verbose=1).fit(raise_on_failed_trial=True)
    assert "hint:" not in capfd.readouterr().out
    assert str(caught.value.__cause__).count("hint:") == 1


@pytest.mark.parametrize("where", ["in this process", "in the working directory"])
def test_a_trial_that_works_in_the_drivers_directory_gets_no_hint_about_its_own(where, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("MINITUNE_CHDIR_TO_TRIAL_DIR", str(int(where == "in this process")))
    executor = "inline" if where == "in this process" else "local"
    (result,) = fit(reads, {"path": "data/missing.txt"}, executor=executor)
    assert "missing.txt" in str(result.error)
    assert "hint:" not in str(result.error)


def asks(config):
    input("why? ")


def debugs(config):
    import pdb

    pdb.set_trace()
    tune.report({"loss": 1})


def test_a_debugger_in_a_worker_gets_a_hint(capfd):
    for trainable in (asks, debugs):
        (result,) = fit(trainable, executor="local", verbose=1)
        for text in (capfd.readouterr().out, str(result.error)):
            assert text.count("hint: a trial's process has no terminal; MINITUNE_EXECUTOR=inline runs") == 1


# -- notebook ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def notebook(monkeypatch):
    """An IPython that notes each display and each update."""
    shown = []

    class Handle:
        def update(self, data, raw):
            shown.append(f"update {data['text/html']}")

    def display(data, raw, display_id):
        shown.append(f"display {data['text/html']}")
        return Handle()

    package, module = ModuleType("IPython"), ModuleType("IPython.display")
    vars(package).update(get_ipython=lambda: SimpleNamespace(config={"IPKernelApp": {}}), display=module)
    vars(module).update(display=display, clear_output=lambda wait: shown.append("clear"))
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    return shown


def test_a_notebook_reporter_shows_the_columns_that_the_user_chose(notebook, capsys):
    reporter = JupyterNotebookReporter(metric_columns=["loss"], max_progress_rows=1)
    reporter.add_parameter_column("text", "<i>")
    fit_train({"x": tune.grid_search([1, 3]), "text": "<b>"}, verbose=1, progress_reporter=reporter)
    assert notebook[0] == "clear"
    assert "<th>Trial name</th>" in notebook[-1]
    assert '<th>&lt;i&gt;</th><th class="number">loss</th>' in notebook[-1]
    assert "<td>&lt;b&gt;</td>" in notebook[-1]
    assert "... 1 more: minitune ls" in notebook[-1]
    assert capsys.readouterr().out == ""
