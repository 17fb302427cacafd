"""Plots, importances and the report, with plotly and scikit-learn; the report as a browser shows it."""

from __future__ import annotations

import json
import math
import random
import re
import shutil
import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from kit import SavedCounter, fit, raiser, run_path

from minitune import ResultGrid, choice, cli, grid_search, loguniform, report, sample_from, uniform
from minitune import visualization as plots
from minitune.schedulers import AsyncHyperBandScheduler, PopulationBasedTraining

OBJECTIVE = {"metric": "loss", "mode": "min"}
HOSTILE = "</script><script>document.title='owned'</script><b>/*DATA*/"
TRIALS = 60


def noisy(config: dict[str, Any]) -> None:
    for step in range(4):
        loss = (math.log10(config["lr"]) + 2) ** 2 + (0.5 if config["act"] == "relu" else 0) + 1 / (step + 1)
        report({"loss": loss, "size": config["idle"]})
        if config["lr"] > 0.05:
            raise ValueError(HOSTILE)


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> ResultGrid:
    """A run of 60 trials: most are stopped early, some fail, some have a parameter that others do not have."""
    space = {
        "lr": loguniform(1e-4, 1e-1),
        "act": choice(["relu", "tanh"]),
        "idle": uniform(0, 1),
        "only": sample_from(lambda config: 1.5 if config["act"] == "relu" else None),
    }
    scheduler = AsyncHyperBandScheduler(grace_period=2, max_t=4, reduction_factor=2)
    storage = str(tmp_path_factory.mktemp("runs"))
    return fit(noisy, space, num_samples=TRIALS, seed=3, scheduler=scheduler, storage_path=storage, **OBJECTIVE)


PLOTS = [
    plots.plot_optimization_history,
    plots.plot_intermediate_values,
    plots.plot_parallel_coordinate,
    plots.plot_slice,
    plots.plot_contour,
    plots.plot_rank,
    plots.plot_edf,
    plots.plot_timeline,
    plots.plot_lineage,
    plots.plot_param_importances,
]


@pytest.mark.parametrize("plot", PLOTS, ids=lambda plot: plot.__name__)
def test_each_plot_takes_a_grid_or_a_path(plot: Callable[..., Any], grid: ResultGrid) -> None:
    figure = plot(grid)

    assert figure.data
    assert figure.to_json() == plot(grid.experiment_path).to_json()
    with pytest.raises(FileNotFoundError, match=r"there is no run in .*, its name below the storage path, or 'last'"):
        plot("/nowhere/at/all")
    with pytest.raises(ValueError, match="mode"):
        plot(grid, mode="best")


def test_the_page_names_a_trial_that_was_once_better(tmp_path: Path) -> None:
    def peak(config: dict[str, Any]) -> None:
        for loss in config["losses"]:
            report({"loss": loss, "accuracy": 1 - loss})

    fit(peak, {"losses": grid_search([[0.5, 0.4], [0.0749, 0.8]])}, name="peak", **OBJECTIVE)

    path = str(run_path("peak"))
    for runs, count in (([path], 1), ([path, path], 4)):  # in the table of two runs, and with each run
        text = Path(plots.write_report(runs, tmp_path / "report.html")).read_text()
        assert text.count("trial 1 was at 0.0749 in step 1") == count
    with pytest.raises(ValueError, match="pass --mode min or --mode max"):
        plots.get_param_importances(path, metric="accuracy")


def test_runs_side_by_side_name_their_best_trial_if_there_is_one(tmp_path: Path) -> None:
    fit(noisy, {"lr": grid_search([0.001, 0.01, 0.02]), "act": "tanh", "idle": 1}, name="some", **OBJECTIVE)
    fit(raiser(ValueError("no luck")), {"lr": 1.0}, name="none", **OBJECTIVE)

    text = Path(plots.write_report([run_path("some"), run_path("none")], tmp_path / "report.html")).read_text()
    rows = re.findall(r"<tr><td>(some|none)</td><td>(\d+)</td><td>(\d+)</td><td>([^<]*)</td><td>([^<]*)</td>", text)
    assert rows == [("some", "3", "0", "loss=0.25", "1"), ("none", "1", "1", "", "")]


def test_the_history_shows_each_value_and_the_best_so_far(grid: ResultGrid) -> None:
    values, best = plots.plot_optimization_history(grid).data

    scored = [result.metrics["loss"] for result in grid if result.error is None]
    assert list(values.y) == scored
    assert best.y[-1] == min(scored)
    assert list(best.y) == sorted(best.y, reverse=True)


def test_learning_curves_are_told_apart_by_their_end(grid: ResultGrid) -> None:
    names = [trace.name.partition(" (")[0] for trace in plots.plot_intermediate_values(grid).data]

    assert names[:-1] == ["failed", "finished", "stopped"]
    assert names[-1].startswith("best: trial")


def test_an_axis_over_powers_of_ten_is_logarithmic_and_missing_values_have_a_place(grid: ResultGrid) -> None:
    figure = plots.plot_slice(grid, params=["lr", "act", "only"])

    assert "1e-3" in figure.layout.xaxis.ticktext
    assert max(figure.data[0].x) < 0
    assert list(figure.layout.xaxis2.ticktext) == ["relu", "tanh"]
    assert "None" in figure.layout.xaxis3.ticktext
    with pytest.raises(ValueError, match=r"params must be some of act, idle, lr, only, but got 'rl'"):
        plots.plot_slice(grid, params=["rl"])


def test_a_pareto_front_has_no_trial_that_another_one_dominates(grid: ResultGrid) -> None:
    figure = plots.plot_pareto_front(grid, ["loss", "size"], ["min", "max"])

    front = next(trace for trace in figure.data if trace.name == "front")
    others = [(x, y) for trace in figure.data for x, y in zip(trace.x, trace.y, strict=True)]
    for x, y in zip(front.x, front.y, strict=True):
        assert not [other for other in others if other[0] <= x and other[1] >= y and other != (x, y)]
    with pytest.raises(ValueError, match="two of each"):
        plots.plot_pareto_front(grid, ["loss"], ["min"])
    with pytest.raises(ValueError, match=r"no trial of 60 has reported 'sizes'; reported were: loss, size"):
        plots.plot_pareto_front(grid, ["loss", "sizes"], ["min", "max"])


def test_trials_with_equal_values_are_on_the_front_together() -> None:
    values = [(1, 1), (2, 3), (1, 1), (2, 0), (0, 0), (2, 3), (-(10**400), 9), (math.nan, 9)]
    grid = fit(lambda config: dict(zip("ab", config["ab"], strict=True)), {"ab": grid_search(values)})
    front = next(
        trace for trace in plots.plot_pareto_front(grid, ["a", "b"], ["min", "max"]).data if trace.name == "front"
    )

    assert [*zip(front.x, front.y, strict=True)] == [(1, 1), (2, 3), (1, 1), (0, 0), (2, 3)]


def test_the_timeline_has_no_two_trials_on_one_worker_at_a_time(grid: ResultGrid) -> None:
    bars = [
        (row, begin, begin + length)
        for trace in plots.plot_timeline(grid).data
        for row, begin, length in zip(trace.y, trace.base, trace.x, strict=True)
    ]

    assert len(bars) == TRIALS
    by_row = sorted(bars)
    for (row, _, end), (next_row, begin, _) in pairwise(by_row):
        assert row != next_row or end <= begin + 1e-6


class Population(SavedCounter):
    """Its loss falls with its learning rate."""

    def step(self) -> dict[str, Any]:
        return {**super().step(), "loss": -self.config["lr"] * self.n}


def test_the_lineage_of_a_population_shows_its_copies() -> None:
    scheduler = PopulationBasedTraining(
        time_attr="training_iteration", perturbation_interval=2, hyperparam_mutations={"lr": [1, 2]}, synch=True
    )
    grid = fit(
        Population, {"lr": grid_search([1, 2])}, scheduler=scheduler, stop={"training_iteration": 4}, **OBJECTIVE
    )

    copies = next(trace for trace in plots.plot_lineage(grid).data if trace.name == "copies")

    assert list(copies.x) == [2, 2, None]
    assert list(copies.y) == [1, 0, None]


def test_importances_find_what_matters_and_say_how_sure_they_are(grid: ResultGrid) -> None:
    found = grid.importances()

    assert next(iter(found.mean)) == "lr"
    assert sum(found.mean.values()) == pytest.approx(1)
    assert found.mean["lr"] > 5 * found.mean["idle"]
    assert found.std["lr"] > 0
    assert found.r2 > 0.5
    assert found.confidence.startswith("reliable: the model explains")
    assert grid.importances() == found, "the same seed gives the same"
    with pytest.raises(ValueError, match=r"metric and mode must be the ones of the RunHistory \(loss, min\)"):
        plots.get_param_importances(plots.RunHistory(grid), metric="size")


def test_importances_of_noise_are_called_unreliable() -> None:
    def noise(config: dict[str, Any]) -> None:
        report({"loss": random.Random(config["a"]).random()})

    found = fit(noise, {"a": uniform(0, 1), "b": uniform(0, 1)}, num_samples=40, seed=1, **OBJECTIVE).importances()

    assert found.confidence.startswith("unreliable")


def test_importances_need_trials_and_a_parameter() -> None:
    few = fit(lambda config: {"loss": config["a"]}, {"a": uniform(0, 1)}, num_samples=3, **OBJECTIVE)
    with pytest.raises(ValueError, match="need at least 10 trials with a finite objective; this run has 3"):
        few.importances()
    same = fit(lambda config: {"loss": 1}, {"a": 1}, num_samples=10, name="same", **OBJECTIVE)
    with pytest.raises(ValueError, match="need a parameter with more than one value"):
        same.importances()


def test_the_commands_write_a_report_and_print_importances(
    grid: ResultGrid, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "report.html"

    assert cli.main(["report", grid.experiment_path, "-o", str(target)]) == 0
    assert capsys.readouterr().out == f"{target}\n"
    assert target.stat().st_size > 1_000_000
    assert cli.main(["importance", grid.experiment_path, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert next(iter(told["importances"])) == "lr"
    assert cli.main(["report", str(tmp_path / "none")]) == 1
    assert cli.main(["report", grid.experiment_path, "-o", str(tmp_path / "none" / "report.html")]) == 1


def test_a_report_shows_parameters_of_any_kind(tmp_path: Path) -> None:
    odd = [True, 1, 10**400, math.nan, "\ud800", (1, 2)]
    grid = fit(lambda config: {"loss": 1.0}, {"odd": grid_search(odd), "\ud800": 1, "few": grid_search([1, 2])})

    axis = plots.plot_slice(grid, params=["odd"], metric="loss", mode="min").layout.xaxis
    assert {"1", "True", "\ud800", "(1, 2)", "nan"} < set(axis.ticktext)
    assert len(axis.ticktext) == len(odd)
    plots.write_report(grid, tmp_path / "report.html", metric="loss", mode="min")


def test_a_report_of_a_killed_run_is_written(tmp_path: Path) -> None:
    fit(lambda config: {"loss": config["a"]}, {"a": uniform(0, 1)}, num_samples=12, **OBJECTIVE)
    journal = next(run_path().glob("*journal*"))
    journal.write_bytes(journal.read_bytes()[: journal.stat().st_size * 2 // 3])

    text = Path(plots.write_report(run_path(), tmp_path / "report.html")).read_text(encoding="utf-8")

    assert "killed: its process died before the end" in text


# -- in a browser ------------------------------------------------------------------------------------------------------

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

PROBE = """
<script>
window.errors = [];
window.addEventListener("error", (event) => errors.push(event.message));
const told = console.error;
console.error = (...all) => { errors.push(all.join(" ")); told(...all); };
</script>
"""
"""Added at the top of the page: notes errors."""

ACTIONS = """
<script>
window.addEventListener("load", () => setTimeout(() => {
  const place = document.querySelector(".trials"), input = place.querySelector("input");
  const first = () => [...place.querySelectorAll("tr:nth-child(2) td")].map((cell) => cell.textContent);
  const count = () => place.querySelector(".count").textContent;
  const seen = { counts: [count()], best: first() };
  input.value = "lr < 0.001";
  input.dispatchEvent(new Event("input"));
  seen.counts.push(count());
  input.value = "failed";
  input.dispatchEvent(new Event("input"));
  seen.counts.push(count());
  input.value = "";
  input.dispatchEvent(new Event("input"));
  place.querySelector("th").click();
  seen.sorted = first();
  document.querySelectorAll(".plot").forEach((plot) => plot.scrollIntoView());
  setTimeout(() => {
    seen.title = document.title;
    seen.errors = errors;
    seen.undrawn = [...document.querySelectorAll(".plot")].filter((plot) => !plot.querySelector(".main-svg")).length;
    seen.plots = document.querySelectorAll(".plot").length;
    document.body.dataset.seen = JSON.stringify(seen);
  }, 3000);
}, 300));
</script>
"""
"""Added at the end of the page: acts like a reader, and stores its observations in the page."""


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here; on Debian: apt-get install chromium")
def test_a_browser_draws_all_plots_and_the_table_can_be_sorted_and_filtered(
    grid: ResultGrid, tmp_path: Path, bound_s: Callable[[float], float]
) -> None:
    page = Path(grid.to_html(tmp_path / "report.html"))
    text = page.read_text(encoding="utf-8").replace("<head>", f"<head>{PROBE}", 1)
    end = text.rindex("</body>")
    page.write_text(text[:end] + ACTIONS + text[end:], encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--use-gl=swiftshader", "--enable-unsafe-swiftshader"]
    options += ["--window-size=1200,8000", "--virtual-time-budget=15000", f"--user-data-dir={tmp_path / 'profile'}"]

    done = subprocess.run(
        [str(BROWSER), *options, "--dump-dom", page.as_uri()],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=bound_s(120),
    )

    found = re.search(r'data-seen="([^"]*)"', done.stdout)
    assert found, done.stderr[-2000:]
    seen = json.loads(found[1].replace("&quot;", '"').replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    assert seen["errors"] == []
    assert (seen["undrawn"], seen["plots"]) == (0, 7)
    assert seen["title"] == "minitune: run", "no text of the user's is run as script"
    small = sum(result.config["lr"] < 0.001 for result in grid)
    assert seen["counts"] == [f"{n} of {TRIALS} trials" for n in (TRIALS, small, grid.num_errors)]
    assert float(seen["best"][3]) == pytest.approx(min(r.metrics["loss"] for r in grid if r.metrics), rel=1e-4)
    assert seen["sorted"][0] == "0"
