"""`minitune best --config`: the best configuration for a file or a command line."""

from __future__ import annotations

import json
import math
import shlex
from typing import Any

import pytest
from command_runs import Minitune

from minitune.commands.config_text import config_text

CONFIG: dict[str, Any] = {
    "lr": 1e-05,
    "optimizer": {"name": "it's", "betas": [0.9, 1e-08]},
    "on": True,
    "a b": None,
    "size": 1e22,
    "none": {},
}


def test_yaml_is_read_back_by_yaml_1_1() -> None:
    assert config_text(CONFIG, "yaml").splitlines() == [
        "lr: 1.0e-05",
        "optimizer:",
        '  name: "it\'s"',
        "  betas: [0.9, 1.0e-08]",
        '"on": true',
        '"a b": null',
        "size: 1.0e+22",
        "none: {}",
    ]


def test_numbers_that_json_lacks_are_the_same_in_all_forms() -> None:
    values = {"low": -math.inf, "odd": [math.nan]}
    assert config_text(values, "yaml") == 'low: "-Infinity"\nodd: [null]'
    assert json.loads(config_text(values, "json")) == {"low": "-Infinity", "odd": [None]}


def test_a_configuration_written_as_json_reads_back_as_it_was() -> None:
    assert json.loads(config_text(CONFIG, "json")) == CONFIG


def test_arguments_are_those_of_a_shell() -> None:
    config = {"lr": 1e-05, "optimizer": {"name": "it's"}, "layers": [1, 2]}
    text = config_text(config, "args")
    assert shlex.split(text) == ["--lr", "1e-05", "--layers", "[1, 2]", "--optimizer.name", "it's"]


@pytest.mark.parametrize(("form", "expected"), [("yaml", "x: 0\n"), ("json", '{\n  "x": 0\n}\n'), ("args", "--x 0\n")])
def test_only_the_configuration_of_the_best_trial_is_printed(minitune: Minitune, form: str, expected: str) -> None:
    assert minitune("best", "run", "--config", form) == (0, expected, "")


def test_without_a_best_trial_there_is_no_configuration(minitune: Minitune) -> None:
    status, out, err = minitune("best", "run", "--metric", "los", "--mode", "min", "--config", "yaml")
    assert (status, out, "has reported 'los'" in err) == (1, "", True)
