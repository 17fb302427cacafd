"""A run with ends of all kinds, and a Chromium, for the tests of the page and of importances."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import BROWSER, Browser
from kit import fit, scaled_s

import minitune as tune
from minitune.schedulers import AsyncHyperBandScheduler

HOSTILE = "</script><script>document.title='owned'</script><b>/*DATA*/"
TRIALS = 60


def noisy(config: dict[str, Any]) -> None:
    """Its learning rate matters most. A large one fails."""
    for step in range(4):
        loss = (math.log10(config["lr"]) + 2) ** 2 + (0.5 if config["act"] == "relu" else 0) + 1 / (step + 1)
        tune.report({"loss": loss, "size": config["idle"]})
        if config["lr"] > 0.05:
            raise ValueError(HOSTILE)


@pytest.fixture(scope="session")
def grid(tmp_path_factory: pytest.TempPathFactory) -> tune.ResultGrid:
    """A run of 60 trials: most are stopped early, some fail, some have a parameter that others do not have."""
    space = {
        "lr": tune.loguniform(1e-4, 1e-1),
        "act": tune.choice(["tanh", "relu"]),
        "idle": tune.uniform(0, 1),
        "layers": tune.randint(1, 5),
        "only": tune.sample_from(lambda config: 1.5 if config["act"] == "relu" else None),
    }
    scheduler = AsyncHyperBandScheduler(grace_period=2, max_t=4, reduction_factor=2)
    storage = str(tmp_path_factory.mktemp("runs"))
    objective = {"metric": "loss", "mode": "min"}
    return fit(noisy, space, num_samples=TRIALS, seed=3, scheduler=scheduler, storage_path=storage, **objective)


@pytest.fixture
def chromium(tmp_path: Path, nothing_left: None) -> Iterator[Browser]:
    """A browser. Each test has its own: the tabs of another one would be processes that it leaves behind."""
    if BROWSER is None:
        pytest.skip("no Chromium here; on Debian: apt-get install chromium")
    with Browser(tmp_path / "profile", scaled_s(60)) as browser:
        yield browser
