"""With numpy, the Gaussian process of `AutoSearch` finds length scales by gradients."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy
import pytest

from minitune.search import AutoSearch, auto, gaussian_process
from minitune.search.length_scales import likely_logs, loss_and_slopes
from minitune.search.parzen import KernelSpace
from minitune.space.domains import choice, lograndint, loguniform, quniform, uniform
from minitune.space.parameters import Axis

SPACE = {
    "lr": loguniform(1e-5, 1e-1),
    "units": lograndint(8, 512),
    "drop": quniform(0, 0.5, 0.1),
    "x": uniform(0, 1),
    "act": choice(["relu", "tanh", "gelu"]),
}


def played(pending: int) -> list[dict[str, Any]]:
    """The configurations of a search with `pending` trials at a time; some trials fail."""
    searcher = AutoSearch(SPACE, metric="loss", mode="min", seed=4)
    configs: list[dict[str, Any]] = []
    for number in range(60 + pending):
        if number < 60:
            config = searcher.suggest(str(number))
            assert isinstance(config, dict)
            configs.append(config)
        if number >= pending:
            config = configs[number - pending]
            loss = (math.log10(config["lr"]) + 3) ** 2 + (config["x"] - 0.3) ** 2 + (config["act"] != "tanh")
            loss += (math.log2(config["units"]) - 6) ** 2 / 8 + config["drop"]
            searcher.on_trial_complete(str(number - pending), {"loss": loss}, error=config["x"] > 0.9)
    return configs


@pytest.mark.parametrize("pending", [1, 8])
def test_a_search_with_numpy_is_repeatable(pending: int) -> None:
    assert played(pending) == played(pending)


@pytest.mark.parametrize("had_numpy", [True, False])
def test_a_resume_without_the_first_arguments_warns_once(
    had_numpy: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def play(searcher: AutoSearch, first: int) -> None:
        for number in range(first, first + 10):
            config = searcher.suggest(str(number))
            assert isinstance(config, dict)
            searcher.on_trial_complete(str(number), {"loss": config["x"]})

    def use(has_numpy: bool) -> None:
        kind = gaussian_process.NumpyCovariance if has_numpy else gaussian_process.Covariance
        for module in (gaussian_process, auto):
            monkeypatch.setattr(module, "covariance_kind", lambda: kind)

    began, same, other = (AutoSearch(SPACE, metric="loss", mode="min", seed=1) for _ in range(3))
    use(had_numpy)
    play(began, 0)
    same.set_state(began.get_state())
    assert not caplog.messages
    use(not had_numpy)

    other.set_state(began.get_state())
    play(other, 10)

    words = ("with", "without") if had_numpy else ("without", "with")
    assert [f"began {words[0]} numpy and goes on {words[1]} it" in message for message in caplog.messages] == [True]


def test_the_gradient_of_length_scales_is_that_of_their_loss() -> None:
    rng = numpy.random.default_rng(0)
    points = rng.random((30, 3))
    squares = numpy.moveaxis((points[:, None] - points[None]) ** 2, 2, 0)
    values = numpy.sin(4 * points[:, 0]) + points[:, 1] ** 2
    place = numpy.array([0.3, -0.5, 0.2, -3.0])

    loss, slopes = loss_and_slopes(place, squares, values)

    for index, slope in enumerate(slopes):
        step = numpy.zeros(4)
        step[index] = 1e-5
        above, below = (loss_and_slopes(place + each, squares, values)[0] for each in (step, -step))
        assert slope == pytest.approx((above - below) / 2e-5, rel=1e-5)
    found = likely_logs(points.tolist(), [1, 1, 1], values.tolist(), place.tolist(), [(-6, 8)] * 3 + [(-14, 0)], 40)
    assert loss_and_slopes(numpy.array(found), squares, values)[0] < loss - 10


@pytest.mark.parametrize("kind", [gaussian_process.Covariance, gaussian_process.NumpyCovariance])
def test_with_and_without_numpy_length_scales_have_the_same_loss(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaussian_process, "covariance_kind", lambda: kind)
    rng = random.Random(0)
    space = KernelSpace([Axis(uniform(0, 1))] * 2, [3])
    points = [space.draw_prior(rng) for _ in range(20)]
    values = [math.sin(4 * point.coordinates[0]) + (point.bits == 1) for point in points]
    process = gaussian_process.GaussianProcess(space, points, values, [], [], gaussian_process.Scales(), rng)
    logs = [0.3, -0.5, 0.2, -3.0]
    inputs = numpy.array([process._coordinates(point) for point in points])
    differences = (inputs[:, None] - inputs[None]) ** 2
    squares = numpy.stack([differences[:, :, 0], differences[:, :, 1], differences[:, :, 2:].sum(axis=2)])

    loss, _ = loss_and_slopes(numpy.array(logs), squares, numpy.array(values))

    assert process._loss(logs, [tuple(each) for each in inputs.tolist()], values) == pytest.approx(loss)


def test_both_covariances_predict_the_same() -> None:
    inputs = [(math.sin(3 * i) * 2, math.cos(5 * i) * 3, i / 40) for i in range(70)]
    values = [sum(point) ** 2 for point in inputs[:60]]  # nothing is known at the last ten
    found = []
    for kind in (gaussian_process.Covariance, gaussian_process.NumpyCovariance):
        covariance = kind(inputs, 1e-6)
        squares = covariance.solve(values)
        predicted = [(mean, [*shares][-1]) for mean, shares in covariance.predict([(0.1, 0.2, 0.3), *inputs[55:65]])]
        found.append([covariance.log_determinant, squares, *(each for pair in predicted for each in pair)])

    assert found[0] == pytest.approx(found[1], rel=1e-6, abs=1e-9)
