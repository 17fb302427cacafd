"""What a trial finds of its script."""

import shutil
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).with_name("scripts")


@pytest.mark.parametrize("method", [None, "interpreter"])
def test_a_trial_finds_the_world_of_its_script(script, method):
    for name in ("settings_of_script.py", "starts_a_run.py"):
        shutil.copy(SCRIPTS / name, script.directory)
    stdout = script.run(
        SCRIPTS / "world.py",
        "--epochs",
        "7",
        HERE=str(script.directory),
        MINITUNE_START_METHOD=method,
    )

    assert stdout.splitlines() == ["settings_of_script 7 0", "starts_a_run None 1", "closed True"]
    assert len(list(script.storage.glob("of_module*"))) == 1, "only the script's own import has started a run"
