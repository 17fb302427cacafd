"""Reports as lines of a program's output."""

import math
import os
import re

import pytest
from kit import Scalar

from minitune.trainable.printed import MARK, own_name, print_report, report_in


class Strange:
    def __str__(self):
        return "strange"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('{"loss": 0.5, "n": 3, "text": "a", "on": true}', {"loss": 0.5, "n": 3, "text": "a", "on": True}),
        ('  {"loss": 0.5}  ', {"loss": 0.5}),
        ("{}", None),
        ("[1]", None),
        ('{"loss": ', None),
        ("{" * 100_000, None),
        ("loss: 0.5", None),
        ("", None),
        ("report loss=0.5 n=3 act=relu", {"loss": 0.5, "n": 3, "act": "relu"}),
        ("  report  loss=-1e-3 ", {"loss": -0.001}),
        ("report name='a b' x=inf", {"name": "a b", "x": math.inf}),
        ("report loss = 0.5", None),
        ("report loss=0.5 done", None),
        ("report name='a", None),
        ("report loss=0.5 text='a b' more", None),
        ("report", None),
        ("reported loss=0.5", None),
        ("the report loss=0.5", None),
        (
            '{"done": true, "config": 1, "config/lr": 2, "loss": 3}',
            {"done_": True, "config_": 1, "config_/lr": 2, "loss": 3},
        ),
        (
            "report training_iteration=3 time_total_s=1 timesteps_this_iter=4",
            {"training_iteration_": 3, "time_total_s_": 1, "timesteps_this_iter_": 4},
        ),
        (f'text{MARK}{{"loss": 0.5, "done": true}}', {"loss": 0.5, "done": True}),
        (f"{MARK}broken", None),
        (f'{MARK}{{"a": 1}}', {"a": 1}),
    ],
)
def test_the_metrics_of_a_line_are_found(line, found):
    metrics = report_in(line)
    assert metrics == found
    for value, wanted in zip((metrics or {}).values(), (found or {}).values(), strict=True):
        assert type(value) is type(wanted)


@pytest.mark.parametrize(
    ("pattern", "line", "found"),
    [
        (r"loss (?P<loss>[\d.]+)", "epoch 3: loss 0.5", {"loss": 0.5}),
        (r"loss (?P<loss>[\d.]+)( acc (?P<acc>\S+))?", "loss 1", {"loss": 1}),
        (r"(?P<done>\d) of (?P<loss>\w+)", "3 of many", {"done_": 3, "loss": "many"}),
        (r"loss (?P<loss>[\d.]+)$", "loss 2", {"loss": 2}),
        (r"loss (?P<loss>[\d.]+)\n", "loss 2", {"loss": 2}),
        (r"loss (?P<loss>[\d.]+)", '{"loss": 3}', None),
        (r"loss", "loss", None),
        (r"loss (?P<loss>[\d.]+)", f'loss 1{MARK}{{"loss": 4}}', {"loss": 4}),
    ],
)
def test_a_pattern_finds_its_groups_and_nothing_else(pattern, line, found):
    assert report_in(line, re.compile(pattern)) == found


def test_a_name_that_results_use_gets_an_underscore():
    names = {"loss": "loss", "done": "done_", "done/x": "done_/x", "x/done": "x/done", "done_": "done_", "": ""}
    assert {name: own_name(name) for name in names} == names


def test_a_report_is_printed_as_one_marked_line(capfd, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:7]))
    print_report({"loss": 0.5, "of a library": Scalar(0.5), "object": Strange(), "list": [1, (2,)], "none": None})
    line = capfd.readouterr().out
    assert (line[0], line[-1], line.count("\n")) == (MARK, "\n", 1)
    assert report_in(line) == {"loss": 0.5, "of a library": 0.5, "object": "strange", "list": [1, [2]], "none": None}


def test_a_report_that_is_no_dict_is_refused():
    with pytest.raises(TypeError, match=r"metrics must be a dict such as .* but got float"):
        print_report(0.5)
