"""Metrics that can be sent arrive unchanged; others are refused where the user has reported them."""

import sys
import threading
from datetime import date
from enum import Enum
from pathlib import Path
from types import ModuleType

import pytest
from kit import pull, settle

from minitune.trainable import metric_checks, report


class Color(Enum):
    RED = 1


def _generator():
    yield 1


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (threading.Lock, "lock"),
        (_generator, "generator"),
        (lambda: lambda: 1, "function"),
        (threading.current_thread, "Thread"),
    ],
)
@pytest.mark.parametrize(
    ("wrap", "path"), [(lambda v: v, "'bad'"), (lambda v: {"in": [1, (2, v)]}, "'bad'['in'][1][1]")]
)
def test_a_value_that_cannot_be_sent_is_refused_in_the_users_frame(driver, make, kind, wrap, path):
    caught = []

    def fn(config):
        try:
            report({"good": 1, "bad": wrap(make())})
        except TypeError as error:
            caught.append(error)
        report({"still": "alive"})

    assert pull(driver.start(fn)).metrics["still"] == "alive"
    assert f"metric {path} of type" in str(caught[0])
    assert kind in str(caught[0])


@pytest.mark.parametrize(
    ("metrics", "fits"),
    [
        ({"x": "e" * 900}, True),
        ({"x": "e" * 1100}, False),
        ({"x": "é" * 450}, True),
        ({"x": "é" * 550}, False),
        ({"x": ["é" * 300, "è" * 300]}, False),
        ({"x": {("é" * 550,): 1}}, False),
        ({"x": "e" * 600, "y": b"e" * 600}, False),
        ({"x": [1.5] * 90}, True),
    ],
)
def test_the_size_of_a_report_counts_in_bytes(driver, monkeypatch, metrics, fits):
    monkeypatch.setattr(metric_checks, "LIMIT_BYTES", 1000)
    actor = driver.start(lambda config: report(metrics))
    if fits:
        assert pull(actor).metrics["x"] == metrics["x"]
    else:
        with pytest.raises(ValueError, match="most of it in metric 'x'"):
            pull(actor)


def test_a_report_that_is_too_large_tells_its_size(driver):
    with pytest.raises(ValueError, match=r"at most 64 MB, but this one holds 65\.0 MB, most of it in metric 'large'"):
        pull(driver.start(lambda config: {"small": b"x" * 1_000, "large": bytes(65_000_000)}))


def test_awkward_metrics_travel_unchanged(driver):
    deep = 1
    for _ in range(90):
        deep = {"d": deep}
    metrics = {
        "ellipsis": ...,
        "day": date(2026, 1, 2),
        "enum": Color.RED,
        "inf": float("inf"),
        "bytes": b"\x00",
        "none": None,
        "big": 10**400,
        "surrogate": "\ud800",
        "a/b.c\n": 1,
        "path": Path("x"),
        "deep": deep,
        "shared": [deep, deep],
    }

    def fn(config):
        report(metrics)

    received = settle(driver.start(fn).train()).metrics
    assert {key: received[key] for key in metrics} == metrics


def test_a_metric_that_contains_itself_is_refused(driver):
    endless = []
    endless.append(endless)
    with pytest.raises(TypeError, match="contains itself"):
        pull(driver.start(lambda config: {"x": endless}))


def test_torch_tensors_are_refused(driver, monkeypatch):
    class Tensor:
        pass

    class Parameter(Tensor):
        pass

    torch = ModuleType("torch")
    torch.Tensor = Tensor
    monkeypatch.setitem(sys.modules, "torch", torch)
    with pytest.raises(ValueError, match=r"'x'\[0\] is a torch tensor"):
        pull(driver.start(lambda config: {"x": [Parameter()]}))
