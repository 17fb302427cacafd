"""Links in a run's directory: what is removed is never what a link leads to. Users' own links stay what they are."""

import os
import shutil
import tempfile
from pathlib import Path

import kit
import pytest
from kit import RUN, Spy, files_below, report_state, run_path

from minitune import Checkpoint, get_checkpoint, get_context, grid_search, report
from minitune.error import TuneError, UntrustedStateError

pytestmark = pytest.mark.usefixtures("hurried")


@pytest.fixture
def outside(tmp_path):
    """A directory that must not change, with a file and with a directory that looks like one of ours."""
    directory = tmp_path / "outside"
    (directory / "checkpoint_000000").mkdir(parents=True)
    for name in ("file", "checkpoint_000000/file", "result.json"):
        (directory / name).write_text("precious\n" * 100)
    return directory


def fit(trainable, *callbacks):
    return kit.fit(trainable, {"x": grid_search([0, 1, 2])}, callbacks=callbacks, num_to_keep=1)


def test_the_removal_of_a_checkpoint_and_of_leftovers_follows_no_link(outside):
    def plant(trial, result):
        if result["n"] == 2:
            oldest = Path(trial.local_path, "checkpoint_000000")
            shutil.rmtree(oldest)
            oldest.symlink_to(outside / "checkpoint_000000")
        if result["n"] == 4:
            Path(trial.local_path, ".tmp-000009-1").symlink_to(outside)
            raise OSError("the driver ends")

    def trainable(config):
        for n in range(1, 6):
            report_state(n, {"n": n})

    before = files_below(outside)
    with pytest.raises(TuneError, match="the driver ends"):
        fit(trainable, Spy(plant))
    assert kit.resume(trainable, callbacks=()).num_terminated == 3
    assert files_below(outside) == before
    assert not [path for path in run_path().glob("*/*") if path.is_symlink()]


def test_links_of_the_users_own_are_followed_and_kept(tmp_path, outside):
    real = tmp_path / "real"
    real.mkdir()
    os.symlink(real, os.environ["MINITUNE_STORAGE_PATH"])

    def trainable(config):
        own = Path(get_context().get_trial_dir())
        if not (own / "latest").is_symlink():
            (own / "latest").symlink_to(outside / "file")
            (own / "data").symlink_to(outside)
        for n in range(5):
            with tempfile.TemporaryDirectory() as directory:
                Path(directory, "weights").write_text(str(n))
                Path(directory, "last").symlink_to("weights")
                Path(directory, "data").symlink_to(outside)
                report({"n": n}, checkpoint=Checkpoint.from_directory(directory))
        report({"n": 5}, checkpoint=Checkpoint.from_directory(own))
        kept = get_checkpoint()
        assert os.readlink(Path(kept.path, "data")) == str(outside)

    before = files_below(outside)
    grid = fit(trainable)
    assert grid.num_terminated == 3, grid.errors
    assert kit.resume(trainable).num_terminated == 3
    assert files_below(outside) == before
    (real / RUN).rename(tmp_path / "elsewhere")
    (real / RUN).symlink_to(tmp_path / "elsewhere")
    whole = files_below(tmp_path / "elsewhere")
    with pytest.raises(UntrustedStateError, match=f"{RUN} may be written by another user: it is a link"):
        kit.resume(trainable)
    assert files_below(tmp_path / "elsewhere") == whole
