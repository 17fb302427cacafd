"""What a trial finds of its script."""

from __future__ import annotations

from pathlib import Path

import pytest
from kit import Script

SETTINGS = """
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1)
epochs = parser.parse_args().epochs


def train(config):
    return {"epochs": epochs}
"""
STARTS_A_RUN = """
import minitune as tune


def train(config):
    return {"epochs": 1}


tune.Tuner(train, run_config=tune.RunConfig(verbose=0, name="of_module")).fit()
"""


@pytest.mark.parametrize("method", [None, "interpreter"])
def test_a_trial_finds_the_world_of_its_script(script: Script, method: str | None) -> None:
    (script.directory / "settings_of_script.py").write_text(SETTINGS)
    (script.directory / "starts_a_run.py").write_text(STARTS_A_RUN)

    stdout = script.run(
        Path(__file__).with_name("scripts") / "world.py",
        "--epochs",
        "7",
        HERE=str(script.directory),
        MINITUNE_START_METHOD=method,
    )

    assert stdout.splitlines() == ["settings_of_script 7 0", "starts_a_run None 1", "closed True"]
    assert len(list(script.storage.glob("of_module*"))) == 1, "only the script's own import has started a run"
