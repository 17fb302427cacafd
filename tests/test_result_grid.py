"""ResultGrid and Result."""

import json
import math
import shutil
from pathlib import Path

import pytest
from kit import deciding, fit, report_n, report_state, restore, restored_state

from minitune import (
    Checkpoint,
    ExperimentAnalysis,
    Result,
    ResultGrid,
    TrialError,
    get_context,
    grid_search,
    report,
    with_resources,
)
from minitune.error import JournalCorruptError
from minitune.experiment.decision import Decision


def test_a_grid_is_a_sequence_in_order_of_submission(grid):
    assert [result.config["i"] for result in grid[:2]] == [0, 1]
    assert grid[-1].config["i"] == 2
    assert grid[1] in grid
    assert repr(grid).startswith("ResultGrid<[\n  Result(metrics={")
    assert repr(grid).endswith(")\n]>")
    assert Path(grid.experiment_path).name == "run"


def test_trials_of_a_grid_can_be_grouped(grid):
    analysis = grid._experiment_analysis  # the name that scripts for Ray Tune use
    assert isinstance(analysis, ExperimentAnalysis)
    assert [trial.config for trial in analysis.trials] == [result.config for result in grid]
    some = ExperimentAnalysis(
        analysis.experiment_path, trials=analysis.trials[1:], default_metric="loss", default_mode="min"
    )
    assert ResultGrid(some).get_best_result(scope="all").config["i"] == 1


def test_values_that_are_not_finite_count_only_if_asked_for(grid):
    assert grid.get_best_result().config["i"] == 0
    assert grid.get_best_result(filter_nan_and_inf=False).config["i"] == 2
    values = [math.nan, 1.0]
    first = fit(lambda config: {"loss": values[config["i"]]}, {"i": grid_search([0, 1])}, name="nan comes first")
    for filters, best in ((False, 0), (True, 1)):
        assert first.get_best_result("loss", "min", filter_nan_and_inf=filters).config["i"] == best


def test_an_unreported_metric_is_refused_with_some_of_the_reported_ones():
    grid = fit(lambda config: {"loss": 1, "eval": {"acc": 2}, **{f"m{i}": i for i in range(30)}})
    with pytest.raises(RuntimeError, match=r"loss, .* m8 and 22 more\. Did you mean 'loss'\?$"):
        grid.get_best_result("lss", "min")
    with pytest.raises(RuntimeError, match="Did you mean 'eval/acc'"):
        grid.get_best_result("eval/ac", "min")


@pytest.mark.parametrize(
    ("values", "metric", "text"),
    [
        ([math.nan, 1j], "loss", "a finite number as 'loss', but nan. Check how it is computed, and report a number, "),
        ([math.inf], "loss", "such as float(x)"),
        (["0.5", "0.7"], "loss", "but '0.5'. "),
        ([True], "loss", "but True. "),
        (
            [..., ...],
            "loss",
            "no trial of 2 has reported anything. Call report({'loss': ...}) in the trainable, or return",
        ),
        ([..., 1], "lss", "no trial of 2 has reported 'lss'; reported were: loss. Did you mean 'loss'?"),
        (
            [1, 1],
            "_metric",
            "no trial of 2 has reported a bare number, which counts where no metric is named; reported ",
        ),
        ([1, 1], "_metric", "reported were: loss. Name the metric, such as metric='loss'"),
    ],
)
def test_missing_best_trial_is_explained(values, metric, text, caplog):
    def train(config):
        value = values[config["i"]]
        if value is not ...:
            report({"loss": value})

    grid = fit(train, {"i": {"grid_search": list(range(len(values)))}})
    with pytest.raises(RuntimeError) as caught:
        grid.get_best_result(metric, "min")
    assert text in str(caught.value)
    analysis = ExperimentAnalysis(grid.experiment_path, default_metric=metric, default_mode="min")
    with pytest.raises(ValueError) as caught_by_analysis:
        _ = analysis.best_result
    assert text in str(caught_by_analysis.value)
    assert caplog.messages == [], "what is raised is not logged as well"
    assert analysis.get_best_trial(metric, "min") is None
    (logged,) = caplog.messages
    assert text in logged


def test_a_bare_number_has_no_name_of_its_own():
    grid = fit(lambda config: config["i"], {"i": {"grid_search": [2, 1]}})
    with pytest.raises(
        RuntimeError, match=r"has reported 'loss': the trainable returns a bare number. Return {'loss': "
    ):
        grid.get_best_result("loss", "min")


@pytest.mark.parametrize("settings", [{}, {"mode": "max"}])
def test_the_only_trial_is_the_best_one_but_not_by_a_metric_that_it_lacks(settings):
    grid = fit(lambda config: {"loss": 1}, **settings)
    assert grid.get_best_result() is grid.get_best_result("loss") is grid[0]
    for mode in (None, "min"):
        with pytest.raises(RuntimeError, match=r"no trial of 1 has reported 'los'; reported were: loss"):
            grid.get_best_result("los", mode)


def test_failed_trials_and_earlier_values_are_pointed_to():
    def train(config):
        report({"loss": 1.0})
        report({"loss": math.nan})
        raise ValueError("diverged")

    grid = fit(train, {"i": {"grid_search": [0, 1]}})
    with pytest.raises(RuntimeError, match="earlier results had finite values, which scope='all' uses") as caught:
        grid.get_best_result("loss", "min")
    assert caught.value.__cause__ is grid.errors[0]
    assert grid.get_best_result("loss", "min", scope="all").metrics["config"] == {"i": 0}

    def fails(config):
        if config["i"]:
            raise ValueError("at once")
        report({"acc": 1})

    for space, words in ([1, 1], "anything: all of them have failed"), ([0, 1], "acc"):
        with pytest.raises(RuntimeError, match=words) as caught:
            fit(fails, {"i": {"grid_search": space}}, name="fails").get_best_result("loss", "min")


def test_a_result_has_its_metrics_configuration_and_best_checkpoints(grid):
    result = grid[0]
    assert result.metrics["config"] == result.config
    assert result.metrics["training_iteration"] == 3
    assert [metrics["loss"] for _, metrics in result.best_checkpoints] == [3.0, 1.0, 2.0]
    assert result.get_best_checkpoint("loss", "min") == result.best_checkpoints[1][0]
    assert result.get_best_checkpoint("eval/step", "max") == result.checkpoint


@pytest.mark.parametrize(
    ("order", "keeps", "kept"),
    [("min", None, [9, 2, 3, 1]), ("max", None, [9, 1, 3, 2]), ("max", 2, [3, 2]), ("min", 2, [3, 1])],
)
def test_kept_checkpoints_are_ordered_by_their_score(order, keeps, kept):
    def saves(config):
        for step, loss in ((9, math.nan), (1, 1.0), (2, 3.0), (3, 2.0)):
            report_state(step, {"loss": loss, "eval": {"step": step}})

    scored = {"checkpoint_score_attribute": "loss", "checkpoint_score_order": order, "num_to_keep": keeps}
    (result,) = fit(saves, **scored)
    assert [metrics["eval"]["step"] for _, metrics in result.best_checkpoints] == kept
    assert result.metrics["loss"] == 2.0
    again = restore(saves).get_results()[0]
    assert [metrics["eval"]["step"] for _, metrics in again.best_checkpoints] == kept


def test_a_configuration_of_a_result_can_be_changed(grid):
    grid[0].config["i"] = "changed"
    assert grid._experiment_analysis.trials[0].config["i"] == 0


def test_a_page_is_that_of_the_objective_that_is_named(grid, tmp_path):
    page = Path(grid.to_html(tmp_path / "page.html", "eval/step", "max")).read_text(encoding="utf-8")
    assert '"metric": "eval/step", "mode": "max"' in page


KEPT = [
    (Checkpoint("/run/a/checkpoint_000000"), {"loss": 2.0, "eval": {"acc": 1}}),
    (Checkpoint("/run/a/checkpoint_000001"), {"loss": 1.0, "eval": {"acc": 3}}),
    (Checkpoint("/run/a/checkpoint_000002"), {"loss": math.nan, "eval": {"acc": 2}}),
]


@pytest.mark.parametrize(
    ("metric", "mode", "number"),
    [("loss", "min", 1), ("loss", "max", 0), ("eval/acc", "min", 0), ("eval/acc", "max", 1)],
)
def test_the_best_of_the_kept_checkpoints_is_that_with_the_best_finite_value(metric, mode, number):
    result = Result({"loss": 9}, None, None, "/run/a", best_checkpoints=KEPT)
    assert result.get_best_checkpoint(metric, mode) == KEPT[number][0]


def test_a_result_without_a_fitting_checkpoint_says_what_there_is():
    none = r"^/run/a has no checkpoint; a trial saves one by report\(..., checkpoint=...\)$"
    with pytest.raises(RuntimeError, match=none):
        Result({"loss": 9}, None, None, "/run/a").get_best_checkpoint("loss", "min")
    other = Result({"loss": 9, "eval": {"acc": 1}}, None, None, "/run/a", best_checkpoints=KEPT)
    text = "^none of the 3 kept checkpoints of /run/a has a value of 'f1'; the metrics are \\['eval/acc', 'loss'\\]$"
    with pytest.raises(RuntimeError, match=text):
        other.get_best_checkpoint("f1", "min")
    with pytest.raises(RuntimeError, match=r"has a value of 'f1'$"):
        Result({}, None, None, "/run/a", best_checkpoints=KEPT).get_best_checkpoint("f1", "min")


def test_a_result_of_nothing_is_empty_and_shares_nothing():
    one, other = (Result(None, None, None, "/a") for _ in range(2))
    assert (one.metrics, one.config, one.best_checkpoints) == ({}, {}, [])
    assert (one.checkpoint, one.error) == (None, None)
    one.best_checkpoints.append(KEPT[0])
    assert other.best_checkpoints == []
    given = Result({"config": {"x": 1}}, None, None, "/a", config={"x": 2})
    assert (given.config, given.log_dir) == ({"x": 2}, Path("/a"))
    assert Result({"config": {"x": 1}}, None, None, "/a", config={}).config == {}


def test_the_text_of_a_result_has_no_automatic_keys():
    metrics = {"loss": 1, "pid": 2, "date": "x", "config": {}, "done": True, "trial_id": "t", "experiment_tag": "0"}
    result = Result(metrics, KEPT[0][0], ValueError("no"), "/a")
    shown = "{'loss': 1, 'done': True, 'trial_id': 't', 'experiment_tag': '0'}"
    assert repr(result) == (
        f"Result(metrics={shown}, error=ValueError('no'), checkpoint={KEPT[0][0]!r}, log_dir={Path('/a')!r})"
    )


def test_a_grid_counts_trials_by_their_ends(grid):
    assert (len(grid), grid.num_errors, grid.num_terminated, grid.num_not_started) == (3, 1, 2, 0)
    assert [str(error) for error in grid.errors] == [str(grid[2].error)]
    assert grid.seed == ExperimentAnalysis(grid.experiment_path).seed
    again = ResultGrid(ExperimentAnalysis(grid.experiment_path), interrupted=True)
    assert (again.interrupted, grid.interrupted) == (True, False)


def test_each_trial_has_its_best_row(grid):
    assert [row["loss"] for row in grid.get_rows("loss", "max")] == [3.0, 5.0, 4.0]
    assert [row["loss"] for row in grid.get_rows("loss", "min")] == [1.0, 2.0, -math.inf]
    unknown = r"no trial of 3 has reported 'los'; reported were: loss, eval/step. Did you mean 'loss'\?"
    for mode in ("min", None):
        with pytest.raises(ValueError, match=unknown):
            grid.get_rows("los", mode)
    assert [row["eval/step"] for row in grid.get_rows("loss")] == [2, 2, 1]


def test_a_flag_of_an_early_report_has_a_best_row():
    def train(config):
        report({"loss": 2, "is_new": True})
        report({"loss": 1})

    grid = fit(train, {})
    assert [row["loss"] for row in grid.get_rows("is_new", "max")] == [2]
    assert [row["loss"] for row in grid.get_rows("is_new")] == [1]


def test_rows_need_no_loggers(monkeypatch):
    monkeypatch.setenv("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
    grid = fit(report_n(3, a={"b": 1, "empty": {}}, none={}), {"x": 5})
    (row,) = grid.get_rows()
    assert (row["a/b"], row["config/x"]) == (1, 5)
    assert not {"a/empty", "none"} & row.keys()
    assert Path(row["logdir"]).is_dir()
    assert [row["training_iteration"] for row in grid[0].get_rows()] == [1, 2, 3]


# -- files of the user's own ------------------------------------------------------------------------------------------


def writing_files_of_its_own(config):
    """Its files have the names of those that loggers write."""
    directory = Path(get_context().get_trial_dir())
    for step in range(2):
        report({"loss": config["i"] + step})
    (directory / "result.json").write_text(json.dumps({"mine": 1, "loss": -7, "config": {"i": 9}}) + "\n")
    if config["i"] == 1:
        raise ValueError("at the end")


def test_results_of_a_run_come_from_its_journal():
    grid = fit(writing_files_of_its_own, {"i": grid_search([0, 1])}, metric="loss", mode="min")
    analysis = ExperimentAnalysis(grid.experiment_path, default_metric="loss", default_mode="min")

    for i, result in enumerate(grid):
        read = Result.from_path(result.path)
        assert (read.metrics["loss"], read.config) == (i + 1, {"i": i})
        for rows in (result.get_rows(), read.get_rows()):
            assert [(row["loss"], row["config/i"]) for row in rows] == [(i, i), (i + 1, i)]
            assert not any("mine" in row for row in rows)
    for of_the_run in (grid, analysis):
        assert [row["loss"] for row in of_the_run.get_rows()] == [1, 2]
        assert [row["loss"] for row in of_the_run.get_rows("loss", "min")] == [0, 1]
    assert analysis.best_config == {"i": 0}


class Odd:
    """JSON cannot hold it."""

    def __str__(self):
        return "as text"

    __repr__ = __str__


def test_values_are_plain_also_without_the_file():
    def odd(config):
        report({"odd": Odd(), "pair": (1, (2, math.inf)), "nan": math.nan, "by_number": {1: [Odd()]}, 2: {3}})

    (result,) = fit(odd, {"thing": Odd()})
    with_file = result.get_rows()
    Path(result.path, "result.json").unlink()
    for (row,) in (with_file, result.get_rows()):
        assert (row["odd"], row["by_number/1"], row["config/thing"]) == ("as text", ["as text"], "as text")
        assert (row["pair"], math.isnan(row["nan"])) == ([1, [2, "Infinity"]], True)
        json.dumps(row)


# -- from_path --------------------------------------------------------------------------------------------------------


def everything(result):
    kept = [(checkpoint, metrics["eval"]) for checkpoint, metrics in result.best_checkpoints]
    return result.config, result.checkpoint, result.path, kept, result.get_rows()[:1], result.metrics["loss"]


@pytest.mark.usefixtures("forbid_unpickling")
def test_a_result_can_be_read_from_its_directory(grid):
    assert everything(Result.from_path(Path(grid[0].path))) == everything(grid[0])
    assert math.isnan(Result.from_path(grid[1].path).metrics["loss"])
    failed = Result.from_path(grid[2].path)
    assert failed.metrics["loss"] == -math.inf
    assert isinstance(failed.error, TrialError)
    assert "two is too many" in str(failed.error)
    assert Result.from_path(grid[0].path).error is None


def test_a_directory_without_a_record_of_its_run_is_no_result(grid, tmp_path):
    copied = shutil.copytree(grid[0].path, tmp_path / Path(grid[0].path).name)
    for path in (copied, Path(grid.experiment_path), Path(shutil.copytree(copied, f"{grid[0].path}_copy"))):
        with pytest.raises(RuntimeError, match=r"must be inside that of its run, but .* result\.json"):
            Result.from_path(path)
    journal = Path(grid.experiment_path, "journal")
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([lines[0], b"damaged\n", *lines[2:]]))
    for read in (grid[0].get_rows, lambda: Result.from_path(grid[0].path)):
        with pytest.raises(JournalCorruptError, match="bad line at byte"):
            read()


def test_a_trial_that_never_reported_has_its_id_and_error():
    def failing(config):
        if config["i"] == 0:
            raise KeyError("early")
        report({"a": 1})

    grid = fit(failing, {"i": {"grid_search": [0, 1]}})
    assert grid[0].metrics == {"trial_id": grid[0].metrics["trial_id"]}
    read = Result.from_path(grid[0].path)
    assert read.config == {"i": 0}
    assert "KeyError" in str(read.error)


def test_a_trial_that_failed_before_its_start_counts_as_failed_alone():
    asks = with_resources(lambda config: None, lambda config: {"cpu": config["cpus"]})
    grid = fit(asks, {"cpus": grid_search([1, 1000])})
    assert (grid.num_terminated, grid.num_errors, grid.num_not_started) == (1, 1, 0)


def test_the_best_row_has_the_configuration_of_its_report():
    """The scheduler changes the configuration after the first report, which was the best one."""

    def explore(context, trial, result):
        return Decision("PAUSE", exploit=(trial, {"a": 2})) if result["n"] == 1 else "CONTINUE"

    def train(config):
        for n in range(restored_state() + 1, 3):
            report_state(n, {"loss": config["a"], "n": n})

    grid = fit(train, {"a": 1}, scheduler=deciding(explore))
    for mode, value in (("min", 1), ("max", 2)):
        (row,) = grid.get_rows("loss", mode)
        assert (row["loss"], row["config/a"]) == (value, value)


def test_rows_have_the_real_values_of_the_last_configuration():
    def train(config):
        report({"loss": 1})
        report({"loss": 2})

    grid = fit(train, {"f": grid_search([print, len])})
    for rows in (grid.get_rows(), grid.get_rows("loss", "max")):
        assert [row["config/f"] for row in rows] == [print, len]


def test_a_name_of_optuna_is_told_what_a_grid_has():
    grid = fit(lambda config: {"loss": 1})
    with pytest.raises(AttributeError, match=r"no 'best_params': write get_best_result\(\).config, or .metrics"):
        grid.best_params  # noqa: B018
    with pytest.raises(AttributeError, match=r"^'ResultGrid' object has no attribute 'trials'$"):
        grid.trials  # noqa: B018
