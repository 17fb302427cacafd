"""`minitune ls`, `show`, `best`, `watch`, `logs` on a run that has ended; their texts are in `tests/view`."""

from __future__ import annotations

import json
import math
import pickle
import re
import shlex
import socket
from pathlib import Path

import pytest
from command_runs import fit_three, grows_record_by_record, train
from kit import fit, listening, make_tuner, raiser, restore, table_in

import minitune as tune
from minitune import ResultGrid
from minitune.analysis import ExperimentAnalysis
from minitune.base import clock
from minitune.base.clock import VirtualClock
from minitune.base.text import without_codes
from minitune.executors.devices import Machine
from minitune.executors.inline import InlineTrialExecutor
from minitune.record.past_run import read_curves
from minitune.record.reading import read_earlier
from minitune.view import runs
from minitune.view.history import RunHistory


def rows(minitune, *arguments):
    """The trials of `ls --json`."""
    status, out, _ = minitune("ls", "run", "--json", *arguments)
    assert status == 0
    return json.loads(out)["trials"]


def test_a_run_is_named_by_path_or_name_and_the_newest_is_the_default(minitune, storage):
    by_path = minitune("ls", storage / "run")

    assert by_path == minitune("ls", "run")
    # The newest run may be in another storage path, so a line says which one is meant.
    assert minitune("ls", "last") == (*by_path[:2], f"minitune: last is {storage / 'run'}\n")
    assert minitune("best")[2] == f"minitune: last is {storage / 'run'}\n"
    assert by_path[1].startswith(f"{storage / 'run'}: 3 trials, finished\n")


@pytest.mark.parametrize(
    ("options", "trials"),
    [
        (["--sort", "loss"], [0, 1, 2]),
        (["--sort", "status"], [2, 0, 1]),
        (["--filter", "status == failed"], [2]),
        (["--filter", "loss <= 1"], [0]),
        (["--filter", 'status != "failed"'], [0, 1]),
        (["--filter", "done == TRUE"], [0, 1]),
        (["--filter", "x > 0 and status != failed loss >= 2"], [1]),
        (["--filter", "failed iter >= 1"], [2]),
        (["--filter", "zerodivisionerror"], [2]),
        (["--filter", 'error_message = "ZeroDivisionError: nothing left"'], [2]),
        (["--filter", "run"], []),
    ],
)
def test_rows_are_filtered_and_sorted(minitune, options, trials):
    assert [row["trial"] for row in rows(minitune, *options)] == trials
    heading = minitune("ls", "run", *options)[1].splitlines()[0]
    assert heading.endswith(": 3 trials, finished" + (f"; shown: {len(trials)}" if len(trials) < 3 else ""))


def test_values_of_any_kind_are_sorted_numbers_first_and_missing_ones_last(minitune, tmp_path):
    values = [10, "b", math.nan, 9, "a", None]

    def odd(config):
        return {"odd": values[config["x"]]}

    fit(odd, {"x": tune.grid_search(list(range(6)))}, storage_path=tmp_path, name="odd")
    for options, trials in ((["--sort", "odd"], [3, 0, 4, 1, 2, 5]), (["--filter", "odd != 9"], [0, 1, 2, 4, 5])):
        found = json.loads(minitune("ls", tmp_path / "odd", "--json", *options)[1])["trials"]
        assert [row["trial"] for row in found] == trials


def test_a_column_is_found_in_any_case_and_by_its_last_part(minitune, tmp_path):
    def gain(config):
        return {"gain": config["opt"]["lr"], "a/same": 1, "b/same": 2}

    fit(gain, {"opt": {"lr": tune.grid_search([1, 2])}}, storage_path=tmp_path, name="deep")
    run = tmp_path / "deep"
    asked = ("--filter", "LR < 2", "--sort", "Gain", "--columns", "trial,lr")
    status, out, _ = minitune("ls", run, "--json", *asked)
    assert (status, json.loads(out)["trials"]) == (0, [{"trial": 0, "config/opt/lr": 1}])
    assert minitune("ls", run, "--sort", "same")[::2] == (
        1,
        "minitune: same is a/same or b/same: write more of its name\n",
    )


def test_the_nodes_of_a_cluster_are_listed(minitune, tmp_path, monkeypatch):
    class Moves(tune.Callback):
        def on_trial_complete(self, **info):
            monkeypatch.setenv("MINITUNE_NODE_IP", "10.0.0.2")  # the address is that of this process

    space = {"x": tune.grid_search([0, 1])}
    fit(train, space, storage_path=tmp_path, name="two", max_concurrent_trials=1, callbacks=[Moves()])
    assert re.findall(r"\b(?:127\.0\.0\.1|10\.0\.0\.2)(?= +\|)", minitune("ls", tmp_path / "two")[1]) == [
        "127.0.0.1",
        "10.0.0.2",
    ]
    assert "node_ip" not in minitune("ls", "run")[1]


class Odd(tune.schedulers.TrialScheduler):
    """Stops every other trial at once."""

    def on_trial_result(self, tune_controller, trial, result):
        return self.STOP if trial.number % 2 else self.CONTINUE


def four(config):
    for step in range(4):
        tune.report({"loss": config["x"] + step})


@pytest.mark.parametrize(
    ("scheduler", "name"),
    [
        (Odd(), "Odd"),
        (tune.schedulers.ASHAScheduler(max_t=9), "ASHA"),
        (tune.schedulers.HyperBandScheduler(max_t=9), "HyperBand"),
        (
            tune.schedulers.MedianStoppingRule("training_iteration", grace_period=0, min_samples_required=1),
            "median rule",
        ),
    ],
)
def test_a_trial_that_a_scheduler_has_stopped_says_which(minitune, tmp_path, scheduler, name):
    space = {"x": tune.grid_search([0, 9])}
    run = {"metric": "loss", "mode": "min", "stop": {"training_iteration": 3}, "max_concurrent_trials": 1}
    fit(four, space, scheduler=scheduler, storage_path=tmp_path, name="run", **run)
    listed = minitune("ls", tmp_path / "run", "--json", "--columns", "ended,training_iteration")[1]
    one, other = json.loads(listed)["trials"]
    assert one == {"ended": "finished", "training_iteration": 3}, "the stop criterion is no scheduler"
    assert other["ended"] == f"stopped at {other['training_iteration']} by {name}"


UNKNOWN = [["--sort", "lass"], ["--filter", "lass < 1"], ["--columns", "lass"]]
FOR_RUNS = [["--errored"], ["--restart-errored"], ["--add-samples", "1"]]


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (["ls", "rum"], 1, "did you mean run?"),
        (["ls", "nowhere"], 1, "there is no run 'nowhere'"),
        *((["ls", "run", *words], 1, "there is no column 'lass'; there are trial, trial_id, ") for words in UNKNOWN),
        (["show", "run", "7"], 1, "there is no trial '7'; pass one of 0: "),
        (["best", "run", "--metric", "acc"], 1, "no trial of 3 has reported 'acc'; reported were: loss"),
        (["best", "run", "--metric", "los", "--mode", "min", "--config", "json"], 1, "has reported 'los'"),
        (["logs", "run", "0"], 1, "(inline) print to its console"),
        (["rerun", "run", "0_"], 1, "0_"),
        (["resume", "train_it.py"], 1, "there is no script"),
        (["ls", "run", "--filter", "x>="], 2, "--filter: a value is missing after x >="),
        (["ls", "run", "--filter", "not failed"], 2, "not cannot be read: a filter is `name < value` and words"),
        (["show", "run", "1", "--why"], 2, "--why is for a run"),
        (["show", "run", "--config", "json"], 2, "name one, such as `best`"),
        *((["resume", *words, __file__], 2, "are for runs: pass the run's directory") for words in FOR_RUNS),
    ],
)
def test_mistakes_are_told_in_one_line_with_the_way_out(minitune, arguments, status, text):
    found, out, err = minitune(*arguments)

    assert (found, out) == (status, "")
    *usage, last = err.splitlines(keepends=True)
    assert bool(usage) == (status == 2), "wrong arguments are told below the usage"
    assert last.startswith("minitune: ")
    assert text in last


def test_functions_take_the_names_of_runs_as_commands_do(storage, monkeypatch):
    monkeypatch.setenv("MINITUNE_STORAGE_PATH", str(storage))
    path = str(storage / "run")
    for name in ("run", "last", path):
        assert tune.Tuner.can_restore(name)
        assert tune.Tuner.restore(name, train).get_results().experiment_path == path
        assert ExperimentAnalysis(name).experiment_path == path
        assert RunHistory(name).path == path
        assert len(read_curves(name)) == 3
        assert [earlier.path for earlier in read_earlier([name])] == [path]
    assert not tune.Tuner.can_restore("rum")
    with pytest.raises(FileNotFoundError, match=r"there is no run in .*rum"):
        tune.Tuner.restore("rum", train)
    monkeypatch.chdir(storage.parent)
    assert ExperimentAnalysis(f"{storage.name}/run").experiment_path == path, "a path comes before a name"


def test_a_command_says_that_there_is_no_run(minitune, tmp_path, monkeypatch):
    monkeypatch.setenv("MINITUNE_STORAGE_PATH", str(tmp_path))
    assert minitune("ls") == (0, f"{tmp_path}: 0 runs\n", "")
    for command in ("show", "best", "watch"):
        status, out, err = minitune(command)
        assert (status, out, err.startswith(f"minitune: there is no run below {tmp_path} yet; ")) == (1, "", True)


def waits(config):
    clock.current.sleep(3600)
    tune.report({"loss": config["x"]})


@pytest.mark.parametrize(
    ("arguments", "cells"),
    [
        (["ls", "run"], ["\x1b[32mfinished\x1b[0m", "\x1b[31mfailed\x1b[0m"]),
        (["ls", "run", "--columns", "ended,loss"], ["\x1b[32mfinished\x1b[0m", "\x1b[31mfailed\x1b[0m"]),
        (["ls"], ["\x1b[32mfinished\x1b[0m"]),
        (["watch", "run"], ["\x1b[32mfinished\x1b[0m", "\x1b[31mfailed\x1b[0m"]),
    ],
)
def test_states_have_colours_and_nothing_else_changes(minitune, monkeypatch, arguments, cells):
    plain = minitune(*arguments)[1]
    monkeypatch.setenv("FORCE_COLOR", "1")
    bright = minitune(*arguments)[1]

    assert without_codes(bright) == plain != bright
    assert set(re.findall(r"\x1b\[\d+m\w+\x1b\[0m", bright)) == set(cells)


def test_a_trial_is_shown_by_number_id_name_or_directory(minitune, storage):
    trial = ExperimentAnalysis(storage / "run").trials[2]
    shown = minitune("show", "run", "2")

    assert shown == minitune("show", "run", trial.trial_id[-5:]) == minitune("show", trial.local_path)
    assert "failed for good: ZeroDivisionError: nothing left\n" in shown[1]
    assert 'raise ZeroDivisionError("nothing left")\n' in shown[1]
    assert "minitune/trainable" not in shown[1]


def test_a_choice_none_is_shown_in_chosen_columns_and_a_missing_parameter_is_not(minitune, tmp_path):
    space = {"opt": tune.grid_search([None, "sgd"]), "depth": tune.choice([None])}
    fit(lambda config: {"loss": 1}, space, storage_path=tmp_path, name="none")
    usual = table_in(minitune("ls", tmp_path / "none")[1])
    chosen = table_in(minitune("ls", tmp_path / "none", "--columns", "depth,opt,error_message")[1])
    assert chosen == [{name: row[name] for name in ("config/depth", "config/opt")} for row in usual]
    assert [row["config/opt"] for row in chosen] == ["None", "sgd"]
    only = table_in(minitune("ls", tmp_path / "none", "--columns", "opt", "--filter", "opt = none")[1])
    assert only == [{"config/opt": "None"}]


def test_the_best_is_that_of_the_grid_with_its_step_and_checkpoint(minitune, storage):
    grid = ResultGrid(ExperimentAnalysis(storage / "run", default_metric="loss", default_mode="min"))
    for scope in ("last", "all", "avg"):
        best = grid.get_best_result(scope=scope)
        told = json.loads(minitune("best", "run", "--scope", scope, "--json")[1])
        assert (told["config"], told["directory"]) == (best.config, best.path)
        assert told["best_checkpoint"]["path"] == best.get_best_checkpoint("loss", "min").path

    told = json.loads(minitune("best", "run", "--scope", "all", "--json")[1])
    assert told["value"] == 0
    assert (told["best_checkpoint"]["iteration"], told["last_checkpoint"]["iteration"]) == (2, 3)


def peak(config):
    """Trial 0 ends with the best loss. Trial 1 was better in its second step."""
    for loss in config["losses"]:
        tune.report({"loss": loss, "accuracy": 1 - loss})


def test_the_best_configuration_is_printed_for_a_file_or_a_command_line(minitune, tmp_path):
    config = {"lr": 1e-05, "optimizer": {"name": "it's", "betas": [0.9, 1e-08]}, "a b": None, "odd": [math.nan]}
    path = fit(lambda config: {"loss": 1}, config, metric="loss", mode="min", storage_path=tmp_path).experiment_path
    status, out, err = minitune("best", path, "--config", "json")
    assert (status, err, json.loads(out)) == (0, "", {**config, "odd": [None]})
    status, out, err = minitune("best", path, "--config", "args")
    words = ["--lr", "1e-05", "--a b", "None", "--odd", "[NaN]"]
    words += ["--optimizer.name", "it's", "--optimizer.betas", "[0.9, 1e-08]"]
    assert (status, err, shlex.split(out)) == (0, "", words)
    assert minitune("best", "run", "--config", "json") == (0, '{\n  "x": 0\n}\n', "")
    assert minitune("show", "run", "1", "--config", "args")[1] == "--x 1\n"


def test_the_mode_of_another_metric_must_be_given(minitune, tmp_path, caplog):
    space = {"losses": tune.grid_search([[0.5], [0.9]])}
    grid = fit(peak, space, metric="loss", mode="min", storage_path=tmp_path)
    path = grid.experiment_path

    for command in (["best", path], ["show", path]):
        status, out, err = minitune(*command, "--metric", "accuracy")
        assert (status, out) == (1, "")
        assert "optimises loss (min), which gives 'accuracy' no mode; pass --mode min or --mode max" in err
        assert minitune(*command, "--metric", "accuracy", "--mode", "max")[0] == 0
        assert minitune(*command, "--metric", "loss")[0] == 0
    for run in (path, grid):
        with pytest.raises(ValueError, match="which gives 'accuracy' no mode; pass --mode min"):
            RunHistory(run, metric="accuracy")
    assert grid.get_best_result("accuracy").config == {"losses": [0.9]}, "the run's mode, as in Ray Tune"
    assert caplog.messages[-1:] == [
        "the mode of metric='accuracy' is not given; 'min' is used, which is that of loss (min)"
    ]


def third(config):
    return {"loss": (config["x"] + 1) / 3, "curve": [1 / 3, 0.25]}


@pytest.mark.parametrize(
    ("options", "out", "err"),
    [
        (["0"], "to stdout\n", ""),
        (["0", "--stderr"], "to std\ufffderr\n", ""),
        (["1"], "", "trial 1 has printed nothing to stdout; --stderr shows its stderr"),
        (["2", "--stderr"], "", "trial 2 has printed nothing to stderr; without --stderr you see its stdout"),
    ],
)
def test_logs_shows_one_output_of_a_trial_and_names_the_other_if_it_is_empty(minitune, tmp_path, options, out, err):
    outputs = [(b"to stdout\n", b"to std\xfferr\n"), (b"", b"to stderr\n"), (b"to stdout\n", b"")]
    for result, texts in zip(fit_three(tmp_path, third), outputs, strict=True):
        for name, text in zip(("stdout", "stderr"), texts, strict=True):
            Path(result.path, name).write_bytes(text)
    assert minitune("logs", tmp_path / "run", *options) == (0, out, f"minitune: {err}\n" if err else "")


def test_the_output_of_a_trial_that_has_ended_is_not_followed_while_the_run_goes_on(minitune, tmp_path, monkeypatch):
    told = []

    def look(trial, **info):
        if trial.number == 1:
            Path(trials[0].local_path, "stdout").write_text("all of it")
            told.append(minitune("logs", tmp_path / "live", "0", "--follow"))
        trials.append(trial)

    trials = []
    monkeypatch.setattr("minitune.commands.watch.time.sleep", raiser(AssertionError("it waits")))
    space = {"x": tune.grid_search([0, 1])}
    looking = listening(on_trial_complete=look)
    fit(third, space, callbacks=[looking], max_concurrent_trials=1, storage_path=tmp_path, name="live")
    assert told == [(0, "all of it", "")]


def test_output_is_followed_on_after_its_trial_truncated_it(minitune, tmp_path, monkeypatch):
    told = []

    def look(trial, **info):
        file = Path(trial.local_path, "stdout")
        file.write_text("first words")
        later = iter(["first", "first and last"])

        def wait(seconds):
            if (text := next(later, None)) is None:
                raise KeyboardInterrupt
            file.write_text(text)

        with monkeypatch.context() as patched:
            patched.setattr("minitune.commands.watch.time.sleep", wait)
            told.append(minitune("logs", tmp_path / "live", "0", "--follow"))

    fit(third, {"x": 1}, callbacks=[listening(on_trial_result=look)], storage_path=tmp_path, name="live")
    assert [out for _, out, _ in told] == ["first words and last"]


def test_a_run_is_watched_record_by_record(minitune, tmp_path, monkeypatch):
    path = Path(fit_three(tmp_path).experiment_path)
    left = grows_record_by_record(path, monkeypatch)

    status, out, err = minitune("watch", path)
    assert (status, err) == (3, "")
    assert " s: 2 finished, 1 failed" in out

    monkeypatch.setattr("minitune.commands.watch.time.sleep", raiser(KeyboardInterrupt()))
    left.append(b"")
    status, _, err = minitune("watch", path)
    assert (status, err.splitlines()[0]) == (
        130,
        f"minitune: the run continues; `minitune watch {path}` shows it again",
    )


@pytest.mark.parametrize("options", [[], ["--no-browser"]])
def test_the_page_is_opened_in_a_browser_unless_told_otherwise(minitune, monkeypatch, options):
    opened = []
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr("minitune.visualization.server.PageServer.serve", raiser(KeyboardInterrupt()))
    status, out, _ = minitune("watch", "run", "--web", "--port", str(port), *options)
    assert status == 0
    assert out.startswith(f"http://127.0.0.1:{port}/")
    assert opened == ([] if options else [out.splitlines()[0]])


def test_looking_unpickles_nothing(minitune, storage, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("something is unpickled")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    for arguments in (
        ["ls"],
        ["ls", "run"],
        ["show"],
        ["show", "run", "2"],
        ["best"],
        ["watch"],
        ["show", "run", "--why"],
    ):
        assert minitune(*arguments)[2] in ("", f"minitune: last is {storage / 'run'}\n")


def seconds_of(text):
    """The durations in the output of a run or of `watch`."""
    return list(map(float, re.findall(r" trials? in ([\d.]+) s", text)))


@pytest.mark.parametrize("parts", [1, 2])
def test_driver_and_watch_give_one_duration(minitune, tmp_path, capsys, parts):
    """For a resumed run, it is the duration of the last part."""
    tuner = make_tuner(train, {"x": 1}, name="timed", storage_path=tmp_path, verbose=None)
    for part in range(parts):
        (restore(train, path=tmp_path / "timed", add_samples=1) if part else tuner).fit()
        (total,) = seconds_of(capsys.readouterr().out)
    assert seconds_of(minitune("watch", tmp_path / "timed")[1]) == [total]


def fails_at_length(config):
    raise ValueError("the shapes do not fit\n  left:  3\n  right: 4")


def test_an_error_of_many_lines_is_told_by_its_first(minitune, tmp_path):
    run = str(tmp_path / "run")
    fit_three(tmp_path, fails_at_length)

    for command in (["show", run], ["show", run, "0"], ["show", run, "--why"], ["rerun", run, "0"]):
        assert ": ValueError: the shapes do not fit\n" in minitune(*command)[1]


class Grows(tune.Trainable):
    """Its height grows by its rate; the other parameters come from the donor of its last checkpoint."""

    def setup(self, config):
        self.height = 0.0

    def step(self):
        self.height += self.config["rate"]
        return {"height": self.height, "used": [self.config["size"], self.config["layers"][0]]}

    def save_checkpoint(self, checkpoint_dir):
        return {"height": self.height}

    def load_checkpoint(self, checkpoint):
        self.height = checkpoint["height"]


@pytest.mark.parametrize("steps", [6, 7])
def test_all_views_show_the_parameters_of_the_last_report(steps, minitune, tmp_path, capsys):
    population = tune.schedulers.PopulationBasedTraining(
        "training_iteration", perturbation_interval=2, hyperparam_mutations={"rate": tune.uniform(0, 1)}
    )
    space = {
        "rate": tune.grid_search([0.1, 0.2, 0.8, 0.9]),
        "size": tune.randint(100, 1000),
        "layers": [tune.randint(100, 1000), 3],
    }
    grid = fit(
        Grows,
        space,
        metric="height",
        mode="max",
        scheduler=population,
        stop={"training_iteration": steps},
        seed=1,
        storage_path=tmp_path,
        name="grown",
        verbose=1,
    )
    best = grid.get_best_result()
    run = tmp_path / "grown"
    used = {result.metrics["trial_id"]: result.metrics["used"] for result in grid}
    assert len({tuple(values) for values in used.values()}) < 4, "no trial took over another's parameters"

    for text in (capsys.readouterr().out, minitune("watch", run)[1]):
        assert f"size={best.config['size']}, layers=[{best.config['layers'][0]}, 3] (trial" in text
        cells = [line.split() for line in text.splitlines() if line.startswith("| Grows")]
        assert {line[1].rpartition("Grows_")[2]: [line[9], line[5]] for line in cells} == {
            trial: [str(size), str(layer)] for trial, (size, layer) in used.items()
        }
    listed = json.loads(minitune("ls", run, "--json")[1])["trials"]
    assert {row["trial_id"]: [row["config/size"], row["config/layers/0"]] for row in listed} == used
    frame_rows = ExperimentAnalysis(run).get_rows()
    assert {row["trial_id"]: [row["config/size"], row["config/layers"][0]] for row in frame_rows} == used
    for row in ExperimentAnalysis(run).get_rows("height", "min"):  # each from before the first exchange
        assert [row["config/size"], row["config/layers"][0]] == row["used"]
    shown = json.loads(minitune("best", run, "--json")[1])
    assert [shown["config"]["size"], shown["config"]["layers"][0]] == used[shown["trial_id"]]
    assert {one.trial.trial_id: [one.params["size"], one.params["layers/0"]] for one in RunHistory(grid).trials} == used
    for result in grid:
        assert [result.config["size"], result.config["layers"][0]] == used[result.metrics["trial_id"]]
    for trial in grid._run.trials:  # what plug-ins read is the present configuration
        assert trial.evaluated_params["size"] == trial.config["size"]
        assert trial.evaluated_params["layers/0"] == trial.config["layers"][0]


def test_a_run_that_cannot_be_read_hides_no_other(minitune, tmp_path, monkeypatch):
    fit_three(tmp_path)
    fit_three(tmp_path, name="other")
    real = runs.read_standing

    def read(path):
        if path.endswith("/run"):
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(runs, "read_standing", read)
    found = json.loads(minitune("ls", tmp_path, "--json")[1])["runs"]
    assert [(row["name"], row["state"]) for row in found] == [("other", "finished"), ("run", "damaged")]
    assert minitune("ls", tmp_path)[1].endswith(f"run is damaged: [Errno 13] Permission denied: '{tmp_path}/run'\n")


def test_a_file_that_a_trial_lacks_is_told(minitune, tmp_path):
    (result, *_) = fit_three(tmp_path, third)
    for path in Path(result.path).iterdir():
        path.unlink()
    status, out, err = minitune("logs", tmp_path / "run", "0")
    assert (status, out) == (1, "")
    assert err.startswith(f"minitune: there is no {result.path}/stdout: trials that run in the process of the script ")


def test_a_long_output_is_shown_whole_with_characters_of_several_bytes(minitune, tmp_path, monkeypatch):
    monkeypatch.setattr("minitune.commands.watch._CHUNK_BYTES", 3)
    text = "é日本😀" * 50 + "\n"
    (result, *_) = fit_three(tmp_path, third)
    Path(result.path, "stdout").write_text(text, encoding="utf-8")
    assert minitune("logs", tmp_path / "run", "0") == (0, text, "")


def test_a_table_of_chosen_columns_has_these_in_their_order(minitune):
    (row, *_) = table_in(minitune("ls", "run", "--columns", "loss,trial, x", "--sort", "x")[1])
    assert list(row.items()) == [("loss", "1"), ("trial", "0"), ("config/x", "0")]
    head = minitune("ls", "run", "--columns", "repeats")[1]
    assert head.count("\n") == 1, "a column without a value is no column"


def test_runs_are_chosen_as_trials_are(minitune, tmp_path):
    for name in ("one", "two"):
        fit_three(tmp_path, name=name)
    names = [row["name"] for row in json.loads(minitune("ls", tmp_path, "--json", "--filter", "name = one")[1])["runs"]]
    assert names == ["one"]
    told = json.loads(minitune("ls", tmp_path, "--json", "--sort", "name", "--columns", "name,failed")[1])
    assert told["runs"] == [{"name": "one", "failed": 1}, {"name": "two", "failed": 1}]
    assert table_in(minitune("ls", tmp_path, "--sort", "age", "--columns", "name")[1]) == [
        {"name": "one"},
        {"name": "two"},
    ]
    assert told["directory"] == str(tmp_path)
    assert minitune("ls", tmp_path, "--filter", "name = one")[1].startswith(f"{tmp_path}: 2 runs; shown: 1\n")


def test_runs_side_by_side_have_names_that_differ_and_their_own_objectives(minitune, tmp_path):
    for storage, metric in (("a", "loss"), ("b", "height")):
        values = {metric: 3.5}
        fit(lambda config, values=values: values, {"x": 1}, metric=metric, mode="max", storage_path=tmp_path / storage)
    fit(raiser(ValueError("no")), name="none", metric="loss", mode="min", storage_path=tmp_path)
    paths = [next((tmp_path / storage).iterdir()) for storage in "ab"]
    table = table_in(minitune("ls", *paths, tmp_path / "none")[1])
    assert [row["name"] for row in table] == [*map(str, paths), str(tmp_path / "none")]
    assert [(row["metric"], row["best"], row["failed"]) for row in table] == [
        ("loss (max)", "3.5", ""),
        ("height (max)", "3.5", ""),
        ("loss (min)", "", "1"),
    ]
    assert [row["config/x"] for row in table] == ["1", "1", ""]


def test_a_run_that_goes_on_is_shown_with_the_time_that_it_will_take(minitune, tmp_path):
    told = []

    def look(trial, **info):
        if trial.number == 1:
            told.append(json.loads(minitune("show", tmp_path / "run", "--json")[1]))
            told.append(minitune("show", tmp_path / "run")[1])

    with clock.use(VirtualClock(1e9)):
        executor = InlineTrialExecutor(Machine({"CPU": 1}, ()), clock.current)
        settings = {"executor": executor, "max_concurrent_trials": 1, "metric": "loss", "mode": "min"}
        space = {"x": tune.grid_search([0, 1, 2])}
        fit(waits, space, callbacks=[listening(on_trial_start=look)], storage_path=tmp_path, name="run", **settings)
    data, text = told
    assert (data["state"], data["worked_s"], data["rest_s"], data["ending"]) == ("running", 3600, 3600, None)
    assert data["best"]["expected"] is None, "while it goes on, nothing is certain"
    assert list(data["commands"].values()) == [f"minitune {word} {tmp_path}/run" for word in ("watch", "stop")]
    assert "\nrest            about 1 h\n" in text
