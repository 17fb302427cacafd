"""Without numpy: `auto` is TPE, and what needs a Gaussian process says so."""

import random
import sys

import pytest
from kit import fit

from minitune import uniform
from minitune.schedulers import PB2


@pytest.fixture(autouse=True)
def without_numpy(monkeypatch):
    monkeypatch.setitem(sys.modules, "numpy", None)
    monkeypatch.delitem(sys.modules, "minitune.search.surface", raising=False)


def run(search_alg):
    rng = random.Random(1)

    def train(config):
        return {"loss": (config["x"] - 0.3) ** 2 + rng.gauss(0, 0.1)}

    return fit(
        train, {"x": uniform(0, 1)}, search_alg=search_alg, num_samples=20, seed=1, metric="loss", mode="min",
        name=search_alg, max_concurrent_trials=1, executor="inline",
    )  # fmt: skip


def test_auto_is_tpe_and_says_so_once(caplog):
    auto = run("auto")
    assert [message for message in caplog.messages if "numpy" in message] == [
        "numpy is not installed, so the search 'auto' is that of TPESearch: pip install numpy"
    ]
    assert [result.config for result in auto] == [result.config for result in run("tpe")]


def test_what_needs_a_gaussian_process_names_numpy():
    grid = run("tpe")
    assert grid.get_best_result()
    for need in (
        grid.get_estimates,
        lambda: grid.get_best_result(by="estimate"),
        lambda: PB2(hyperparam_bounds={"x": [0, 1]}),
    ):
        with pytest.raises(ImportError, match="install it with: pip install numpy"):
            need()
