"""The HTML of a run, its results and a study in a notebook."""

from __future__ import annotations

import html
import math
import re
from html.parser import HTMLParser

import pytest
from kit import fit

import minitune as tune
from minitune import ExperimentAnalysis
from minitune.base.table import Column, Table, curve
from minitune.experiment.goal import Goal
from minitune.output.live import RunSnapshot, render_html

BAD = "<script>alert('x')</script>&amp;"


class _Checker(HTMLParser):
    """Notes the tags, and checks that each one is closed."""

    def __init__(self):
        super().__init__()
        self.open = []
        self.seen = []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.seen.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def checked(text):
    """Check that HTML is well formed, shows the user's text as text, and loads nothing. Return it."""
    checker = _Checker()
    checker.feed(text)
    assert checker.open == []
    assert not {"script", "img", "link", "iframe", "b"} & set(checker.seen)
    assert "http" not in text
    assert "url(" not in text
    return text


def rows(text):
    """The cells of all tables."""
    found = re.findall(r"<tr>(.*?)</tr>", text)
    return [[html.unescape(cell) for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row)] for row in found]


def train(config):
    if config["x"] == 3:
        raise ValueError(f"no {BAD}")
    tune.report({"loss": config["x"], BAD[:9]: 1})


def grid(count=4):
    space = {"x": tune.grid_search(list(range(count))), "text": tune.grid_search([BAD])}
    return fit(train, space, metric="loss", mode="min")


def test_a_grid_and_an_analysis_show_their_trials():
    found = grid()
    for one in (found, ExperimentAnalysis(found.experiment_path, default_metric="loss", default_mode="min")):
        text = checked(one._repr_html_())
        head, *body = rows(text)
        assert head[:4] == ["Trial name", "status", "text", "x"]
        assert [row[1] for row in body] == ["finished"] * 3 + ["failed"]
        assert [row[3] for row in body] == ["0", "1", "2", "3"]
        assert "4 trials: 3 finished, 1 failed" in text
        assert "Best: loss=0 with " in text
        assert found.experiment_path in text
        assert text.count("<circle ") == 3


def test_where_more_is_better_the_largest_value_comes_first():
    found = ExperimentAnalysis(grid().experiment_path, default_metric="loss", default_mode="max")
    assert [row[3] for row in rows(found._repr_html_())[1:]] == ["2", "1", "0", "3"], "the failed one is the last"


def test_without_a_metric_a_grid_shows_the_trials_in_their_order():
    text = checked(fit(train, {"x": tune.grid_search([2, 1])})._repr_html_())
    assert [row[2] for row in rows(text)[1:]] == ["2", "1"]
    assert "Best: " not in text
    assert "<svg" not in text


def test_a_tuner_shows_its_run():
    config = tune.TuneConfig(metric="loss", mode="min")
    text = repr(tune.Tuner(train, param_space={"x": 1}, tune_config=config))
    assert text == (
        "Tuner(train, param_space={'x': 1}, tune_config=TuneConfig(mode='min', metric='loss'), run_config=RunConfig())"
    )


def test_the_live_view_escapes_text_of_users():
    row = {"trial": 1, "trial_name": BAD, "status": "finished", "ended": "finished", "loss": 1.0, BAD: BAD}
    row[f"config/{BAD}"] = BAD
    snapshot = RunSnapshot(
        BAD,
        1.0,
        {"running": 3},
        total=3,
        goal=Goal(BAD, "min"),
        curve=curve([(0, 1.0), (1, 2.0)], BAD, "min"),
        best=[row],
        running=[{**row, "trial": 2}],
        params={BAD: BAD},
        metrics={BAD: BAD, "loss": "loss"},
        errors=[(1, BAD)],
        starting="starting",
    )
    text = checked(render_html(snapshot))
    assert "... 2 more running" in text
    assert "<svg" in text
    assert ">starting<" in text
    assert f">1 error: {html.escape(BAD)}<" in text


def test_a_curve_is_drawn_of_finite_values_within_its_frame():
    values = [(float(n), 1 / (n + 1)) for n in range(3000)]
    text = checked(curve([*values, (3000.0, math.nan), (3001.0, math.inf), (3002.0, 1e300)], BAD, "min"))
    dots = [(float(x), float(y)) for x, y in re.findall(r'cx="([^"]*)" cy="([^"]*)"', text)]
    assert 100 < len(dots) <= 500
    assert all(0 <= x <= 520 and 0 <= y <= 150 for x, y in dots)
    assert curve([(0, 1.0)], "loss", "min") == curve([(0, math.nan), (1, 1.0)], "loss", "min") == ""


@pytest.mark.parametrize(("mode", "corners"), [("min", 2), ("max", 1)])
def test_the_line_of_the_best_has_a_step_for_each_better_value(mode, corners):
    text = curve([(0, 2.0), (1, 1.0), (2, 2.5), (3, 0.5)], "loss", mode)
    (line,) = re.findall(r'd="(M76[^"]*)"', text)
    assert line.count("V") == corners
    assert line.endswith("H514.0")


def test_numbers_stand_to_the_right():
    text = Table([Column("a", [1, 2.5]), Column("b", ["x", None])]).html()
    assert '<th class="number">a</th><th>b</th>' in text
