"""Metrics that can be sent arrive unchanged; others are refused where the user has reported them."""

import sys
import threading
from types import ModuleType

import pytest
from kit import pull

from minitune.trainable import metric_checks, report


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


def test_a_metric_may_contain_a_value_twice(driver):
    deep = 1
    for _ in range(90):
        deep = {"d": deep}
    metrics = pull(driver.start(lambda config: {"x": [deep, deep]})).metrics
    assert metrics["x"] == [deep, deep]


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
