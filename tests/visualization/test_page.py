"""The page of a run: its data, its file, and the plots that show parts of it. In a browser: `extras/report`."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import os
import re
from pathlib import Path

import pytest
from kit import (
    EndAfter,
    deciding,
    fit,
    listening,
    raiser,
    report_n,
    report_state,
    restore,
    restored_state,
    run_path,
    table_in,
)

import minitune as tune
from minitune import grid_search, report
from minitune import visualization as plots
from minitune.base import clock
from minitune.base.clock import VirtualClock
from minitune.commands import cli
from minitune.executors.devices import Machine
from minitune.executors.inline import InlineTrialExecutor
from minitune.experiment.decision import PAUSE, Decision
from minitune.schedulers import AsyncHyperBandScheduler
from minitune.view.history import RunHistory
from minitune.view.runs import RunList
from minitune.visualization.page import run_data

OBJECTIVE = {"metric": "loss", "mode": "min"}
HOSTILE = "</script><script>document.title='owned'</script><b>/*DATA*/<!--TITLE-->\ud800"


def data_of(page):
    """The data in a page."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found[1])


def page_of(run=None, **choices):
    """The report of a run, by default of this test's."""
    target = run_path().parent / "report.html"
    return Path(plots.write_report(run or run_path(), target, **choices)).read_text(encoding="utf-8")


def run_of(run=None, **choices):
    """The data of a run in its report."""
    (found,) = data_of(page_of(run, **choices))["runs"]
    return found  # type: ignore[no-any-return]


def test_axes_come_from_the_search_space():
    space = {
        "drop": tune.uniform(0, 0.7),
        "lr": tune.loguniform(1e-5, 1e-1),
        "layers": tune.randint(1, 6),
        "even": tune.qrandint(2, 9, 2),
        "width": tune.lograndint(8, 512),
        "act": tune.choice(["tanh", "relu"]),
        "size": grid_search([32, 8]),
        "noise": tune.randn(),
        "twice": tune.sample_from(lambda config: 2 * config["drop"]),
    }
    fit(lambda config: {"loss": 1}, space, **OBJECTIVE)

    assert run_of()["scales"] == {
        "drop": {"kind": "linear", "low": 0, "high": 0.7},
        "lr": {"kind": "log", "low": 1e-5, "high": 0.1},
        "layers": {"kind": "integer", "low": 1, "high": 5},
        "even": {"kind": "integer", "low": 2, "high": 8},
        "width": {"kind": "integer log", "low": 8, "high": 511},
        "act": {"kind": "category", "values": ["tanh", "relu"]},
        "size": {"kind": "category", "values": [32, 8]},
    }


def test_categories_of_any_kind_are_plain_in_the_record():
    odd = [True, 1, 10**400, math.nan, "\ud800", (1, 2), "x" * 500, print]
    fit(lambda config: {"loss": 1.0}, {"odd": grid_search(odd), "\ud800": 1}, **OBJECTIVE)

    run = run_of()
    values = run["scales"]["odd"]["values"]
    assert values[:2] == [True, 1]
    assert len(values[6]) < 300
    assert [trial["params"]["odd"] for trial in run["trials"]] == values, "so each value has its place on the axis"


def test_a_resumed_run_has_a_page():
    fit(report_n(2, loss=1), {"x": tune.uniform(0, 1)}, stop={"training_iteration": 1}, **OBJECTIVE)
    restore(report_n(2, loss=1)).fit()
    assert run_of()["scales"]["x"]["kind"] == "linear"


def curve(config):
    print("hello", config["i"])
    for step in range(4):
        report({"loss": -config["i"] * (step + 1), "other": config["i"]})
        if config["i"] == 9:
            raise ValueError(HOSTILE)


@pytest.fixture
def stopped():
    """A run of three trials: one fails, one finishes, one is stopped."""
    scheduler = AsyncHyperBandScheduler(grace_period=2, max_t=4, reduction_factor=2)
    return fit(curve, {"i": grid_search([9, 2, 1]), "c": {"deep": [1, None, True]}}, scheduler=scheduler, **OBJECTIVE)


def test_a_trial_has_its_curve_and_its_end(stopped):
    run = run_of(stopped)

    failed, finished, cut = run["trials"]
    assert [trial["status"] for trial in run["trials"]] == ["failed", "finished", "stopped"]
    assert (finished["curve"], finished["steps"]) == ([-2, -4, -6, -8], None)
    assert cut["ended"] == "stopped at 2 by ASHA"
    assert cut["facts"].keys() >= {"rank", "of", "cutoff"}
    assert finished["facts"] == {"rung": 4}, "those of its last decision"
    assert finished["metrics"]["other"] == 2
    assert finished["details"]["config"] == {"i": 2, "c": {"deep": [1, None, True]}}
    assert "hello" not in str(cut["details"]["error"])
    assert "Traceback" in failed["details"]["error"]
    assert "document.title" in failed["error"]


def test_the_page_has_the_seed_the_times_and_the_counts_of_the_run():
    def waits(config):
        clock.current.sleep(config["s"])
        report({"loss": 1 / 3, "training_iteration": 10})
        if config["s"] == 2:
            shown.append(run_of())
        clock.current.sleep(1)
        report({"loss": math.nan, "training_iteration": 20})

    shown = []
    slow = listening(on_trial_start=lambda **info: clock.current.sleep(5))
    space = {"s": grid_search([2, 3, 4])}
    with clock.use(VirtualClock(1e9)):  # before the run begins, because its record has the time
        executor = InlineTrialExecutor(Machine({"CPU": 1}, ()), clock.current)
        fit(waits, space, executor=executor, seed=7, callbacks=[slow], max_concurrent_trials=1, **OBJECTIVE)
    run = run_of()
    assert (run["seed"], len(run["trials"]), run["is_live"], run["best"]) == (7, 3, False, None)
    assert run["counts"] == {"finished": 3}
    assert run["worked_s"] == pytest.approx(27)
    assert [trial["reported_s"] - run["begun_s"] for trial in run["trials"]] == pytest.approx([8, 17, 27], abs=1)
    assert [trial["total_s"] for trial in run["trials"]] == [trial["courses"]["seconds"][-1] for trial in run["trials"]]
    assert [(trial["curve"], trial["steps"]) for trial in run["trials"]] == [([0.3333333, None], [10, 20])] * 3
    (live,) = shown
    assert (live["is_live"], len(live["trials"]), live["counts"]) == (True, 1, {"running": 1, "pending": 2})


def test_a_trial_tells_its_attempt_its_whole_output_and_its_last_decisions():
    def fails(config):
        for _ in range(restored_state(), 30):
            report_state(1, {"loss": 1})
        raise ValueError("no")

    def all_go_on(context, trial, result):
        return Decision("CONTINUE", f"reason {result['training_iteration']}")

    space = {"c": {"deep": [1, print]}}
    (result,) = fit(fails, space, scheduler=deciding(all_go_on), max_failures=1, **OBJECTIVE)
    for name in ("stdout", "stderr"):
        Path(result.path, name).write_text(f"to {name}\n")
    (trial,) = run_of()["trials"]
    details = trial["details"]
    assert details["attempt"] == 2
    assert details["output"] == "to stdout\nto stderr"
    assert details["config"] == {"c": {"deep": [1, "<built-in function print>"]}}
    assert len(details["decisions"]) == 20
    assert "failed for good" in details["decisions"][-1]
    checkpoint = details["checkpoints"][-1]
    assert checkpoint["iteration"] == 59
    assert checkpoint["bytes"] == sum(file.stat().st_size for file in Path(checkpoint["path"]).iterdir())


@pytest.mark.parametrize(("character", "count"), [("x", 50), ("é", 25)])
def test_where_there_is_too_much_output_each_trial_has_an_equal_part(character, count, monkeypatch):
    monkeypatch.setattr("minitune.visualization.page._FILE_OUTPUT_BYTES", 400)
    for result in fit(curve, {"i": grid_search([2, 8, 5, 9])}, **OBJECTIVE):
        Path(result.path, "stdout").write_text(character * 1000, encoding="utf-8")
    assert [len(trial["details"]["output"]) for trial in run_of()["trials"]] == pytest.approx([count] * 4, abs=1)


def test_a_copy_is_told_with_its_donor_and_its_step():
    def trains(config):
        for step in range(restored_state(), 4):
            report_state(step + 1, {"loss": -config["i"]})

    def exploit(context, trial, result):
        donor = context.get_trials()[1]
        if trial.number == 0 and result["training_iteration"] == 3 and trial.attempt.number == 1:
            return Decision(PAUSE, exploit=(donor, {"i": 3}))
        return "CONTINUE"

    fit(trains, {"i": grid_search([1, 2])}, scheduler=deciding(exploit), **OBJECTIVE)
    assert [trial["copies"] for trial in run_of()["trials"]] == [[[1, 3]], []]


def test_a_long_error_is_cut_at_its_end():
    fit(raiser(ValueError("the reason, " + "and more " * 100)), **OBJECTIVE)

    (trial,) = data_of(page_of())["runs"][0]["trials"]

    assert trial["error"].startswith("ValueError: the reason, and more")
    assert len(trial["error"]) == 300


def test_the_output_of_a_trial_is_in_the_file_up_to_a_limit():
    grid = fit(curve, {"i": 1}, executor="local", **OBJECTIVE)
    path = Path(grid[0].path)
    (path / "stdout").write_text("".join(f"line {i}\n" for i in range(10_000)))

    (trial,) = run_of(grid)["trials"]

    output = trial["details"]["output"]
    assert output.endswith("line 9999")
    assert output.startswith("line "), "whole lines"
    assert len(output) < 4_000


def test_texts_of_a_run_never_become_markup(stopped, tmp_path):
    page = page_of(stopped)

    assert page.count("<script") == page.count("</script>") == 2
    assert "<b>" not in page
    assert data_of(page)["runs"][0]["trials"][0]["details"]["error"].count("<!--TITLE-->") >= 1
    named = page_of(Path(stopped.experiment_path).rename(tmp_path / "<b>&<!--TITLE-->"))
    assert "<title>minitune: &lt;b&gt;&amp;&lt;!--TITLE--&gt;</title>" in named


def test_the_page_allows_only_its_own_script_and_style(stopped):
    page = page_of(stopped)

    found = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert found
    policy = found[1]
    script = page[page.rindex("<script>") + len("<script>") : page.rindex("</script>")]
    style = page[page.index("<style>") + len("<style>") : page.index("</style>")]
    for kind, text in (("script", script), ("style", style)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none';")
    assert "connect-src" not in policy
    assert not re.search(r"(?:src|href)=|https?://(?!www\.w3\.org)|url\((?!#)", page), "it loads nothing"


def test_the_report_is_written_by_the_command(stopped, tmp_path, capsys):
    target = tmp_path / "mine.html"

    assert cli.main(["report", stopped.experiment_path, "-o", str(target)]) == 0
    assert capsys.readouterr().out == f"{target}\n"
    assert target.stat().st_size < 200_000
    assert stopped.to_html(target) == str(target)
    assert cli.main(["report", str(tmp_path / "none")]) == 1
    assert cli.main(["report", stopped.experiment_path, "-o", str(tmp_path / "none" / "report.html")]) == 1


def test_runs_side_by_side_are_in_one_page():
    fit(report_n(2, loss=1), {"x": grid_search([1, 2])}, name="some", **OBJECTIVE)
    fit(raiser(ValueError("no luck")), {"x": 1.0}, name="none", **OBJECTIVE)

    some, none = data_of(page_of([run_path("some"), run_path("none")]))["runs"]
    assert (some["name"], some["best"], none["name"], none["best"]) == ("some", 0, "none", None)


def test_the_page_says_what_the_repeats_of_the_best_trial_gave(capsys):
    values = iter([1, 2, 3, 7, 8, 9])
    grid = fit(lambda config: {"loss": next(values)}, {"x": grid_search([1, 2, 3])}, **OBJECTIVE, confirm=1)

    found = run_of()
    assert (found["confirmed"], found["remark"]) == (7, "7 in one repeat (1 seen)")
    first = grid._run.trials[0].trial_id
    assert [trial["repeats"] for trial in found["trials"]][:4] == [None, None, None, first]

    (row,) = RunList(os.path.dirname(grid.experiment_path)).rows()
    assert (row["best"], found["compared"]["best"]) == (7, "7"), "not the lucky value"
    assert cli.main(["ls", grid.experiment_path, grid.experiment_path]) == 0
    assert [row["best"] for row in table_in(capsys.readouterr().out)] == ["7", "7"]


def test_several_objectives_are_all_there_and_the_first_one_is_shown():
    values = [(1, 1), (2, 3), (0, 0), (math.nan, 9)]
    fit(
        lambda config: dict(zip("ab", config["ab"], strict=True)),
        {"ab": grid_search(values)},
        metric=["a", "b"],
        mode=["min", "max"],
    )

    run = run_of()
    assert (run["metric"], run["mode"], run["objectives"]) == ("a", "min", {"a": "min", "b": "max"})
    assert [(trial["value"], trial["metrics"]["b"]) for trial in run["trials"][:3]] == values[:3]
    assert run["importances"].keys() == {"a", "b"}


def test_a_report_of_a_killed_run_says_how_to_continue_it():
    fit(lambda config: {"loss": config["a"]}, {"a": tune.uniform(0, 1)}, num_samples=12, name="my run", **OBJECTIVE)
    journal = run_path("my run") / "journal"
    journal.write_bytes(journal.read_bytes()[: journal.stat().st_size * 2 // 3])

    run = run_of(run_path("my run"))
    assert run["state"] == "killed"
    assert run["resume"] == f"minitune resume '{run_path('my run')}'"


PLOTS = [
    plots.plot_optimization_history,
    plots.plot_intermediate_values,
    plots.plot_parallel_coordinate,
    plots.plot_slice,
    plots.plot_contour,
    plots.plot_param_importances,
]


@pytest.mark.parametrize("plot", PLOTS, ids=lambda plot: plot.__name__)
def test_each_plot_takes_a_grid_or_a_path(plot, stopped, tmp_path):
    made = plot(stopped)

    assert data_of(made.html)["only"]["view"]
    assert made == plot(stopped.experiment_path)
    assert Path(made.write_html(tmp_path / "plot.html")).read_text(encoding="utf-8") == made.html
    frame = made._repr_html_()
    assert repr(made) == "Plot()"
    assert frame.startswith('<iframe sandbox="allow-scripts allow-downloads" ')
    assert html.escape(made.html) in frame
    with pytest.raises(FileNotFoundError, match=r"there is no run in .*, its name below the storage path, or 'last'"):
        plot("/nowhere/at/all")
    with pytest.raises(ValueError, match="mode"):
        plot(stopped, mode="best")
    (run,) = data_of(plot(stopped, metric="other", mode="max").html)["runs"]
    assert (run["metric"], run["mode"], run["best"]) == ("other", "max", 1)


@pytest.mark.parametrize(
    ("made", "only"),
    [
        (lambda run: plots.plot_optimization_history(run), {"view": "history", "by": "trial"}),
        (lambda run: plots.plot_optimization_history(run, by="time"), {"view": "history", "by": "end"}),
        (lambda run: plots.plot_contour(run, params=["i"]), {"view": "contour", "params": ["i"]}),
        (lambda run: plots.plot_slice(run, params=["i"]), {"view": "slice", "params": ["i"]}),
        (lambda run: plots.plot_parallel_coordinate(run), {"view": "parallel"}),
        (lambda run: plots.plot_param_importances(run), {"view": "importances"}),
    ],
)
def test_a_plot_begins_with_its_arguments(made, only, stopped):
    data = data_of(made(stopped).html)
    assert data["only"] == only


def test_the_history_takes_several_runs():
    for name in ("one", "two"):
        fit(report_n(2, loss=1), {"x": 1}, name=name, **OBJECTIVE)
    made = plots.plot_optimization_history([run_path("one"), run_path("two")], metric="loss", mode="max")
    assert [(run["name"], run["mode"]) for run in data_of(made.html)["runs"]] == [("one", "max"), ("two", "max")]


def test_the_page_has_seven_words_for_the_states_of_trials():
    def train(config):
        for step in range(3):
            report({"loss": step})
            if config["i"] == 0:
                raise ValueError("no")

    fit(train, {"i": grid_search([0, 1, 2, 3])}, stop=EndAfter(6), max_concurrent_trials=1, **OBJECTIVE)
    run = run_data(RunHistory(run_path()))
    assert [trial["status"] for trial in run["trials"]][:3] == ["failed", "finished", "interrupted"]
    assert {trial["status"] for trial in run["trials"][3:]} <= {"not started"}
    assert run["counts"] == {"failed": 1, "finished": 1, "interrupted": 1, "not started": 1}
    (group,) = run["errors"]
    assert (group["error"], group["trials"]) == ("ValueError: no", [0])
    assert group["rerun"] == f"minitune rerun {run_path()} 0 --pdb"


def test_while_a_run_goes_on_its_page_has_the_time():
    found = []

    def look(trial, result, **info):
        if result["training_iteration"] == 3:
            found.append(run_data(RunHistory(run_path())))

    def train(config):
        for step in range(4):
            clock.current.sleep(5)
            report({"loss": step})

    with clock.use(VirtualClock(1e9)):
        executor = InlineTrialExecutor(Machine({"CPU": 1}, ()), clock.current)
        callbacks = [listening(on_trial_result=look)]
        space = {"i": grid_search([0, 1])}
        fit(train, space, executor=executor, callbacks=callbacks, max_concurrent_trials=1, **OBJECTIVE)
    first, second = found
    assert (first["is_live"], first["worked_s"]) == (True, 15)
    (trial,) = (one for one in first["trials"] if one["status"] == "running")
    assert trial["reported_s"] == pytest.approx(1e9 + 10, abs=5)
    assert second["rest_s"] == pytest.approx(35 / 1.5 * 0.5), "one has ended, and one counts as a half"
    whole = run_data(RunHistory(run_path()))
    assert [one["total_s"] for one in whole["trials"]] == [20, 20]


def test_the_page_is_shown_in_a_cell_of_a_notebook(stopped):
    with pytest.raises(ValueError, match="height must be a number of pixels >= 100"):
        stopped.show(height=0)
    shown = stopped.show(height=700)
    assert 'height="700"' in shown._repr_html_()
    data = data_of(shown.html)
    assert data["only"] is None, "the whole page"
    assert "details" in data["runs"][0]["trials"][0]


def test_a_plot_refuses_unknown_names(stopped):
    with pytest.raises(ValueError, match=r"params must be some of i, but got 'j'"):
        plots.plot_slice(stopped, params=["j"])
    with pytest.raises(ValueError, match="by"):
        plots.plot_optimization_history(stopped, by="moon")
    for modes in (["min", "max"], ["max", "min"]):
        front = data_of(plots.plot_pareto_front(stopped, ["loss", "other"], modes).html)["runs"][0]
        assert front["objectives"] == dict(zip(["loss", "other"], modes, strict=True))
        assert (front["metric"], front["mode"]) == ("loss", modes[0])
    with pytest.raises(ValueError, match="mode must be"):
        plots.plot_pareto_front(stopped, ["loss", "other"], ["min", "best"])
    for metrics, modes in ((["loss"], ["min"]), (["loss"], ["min", "max"]), (["loss", "other"], ["min"])):
        with pytest.raises(ValueError, match="two of each"):
            plots.plot_pareto_front(stopped, metrics, modes)
    with pytest.raises(ValueError, match=r"no trial of 3 has reported 'sizes'; reported were: "):
        plots.plot_pareto_front(stopped, ["loss", "sizes"], ["min", "max"])
