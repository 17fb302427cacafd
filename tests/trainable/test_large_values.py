"""Large values are stored once, mapped by their users, private to each of them, and removed with their owner."""

import os
import pickle
import shutil
import signal
import sys
from pathlib import Path

import pytest
from kit import fit

import minitune as tune

SCRIPTS = Path(__file__).with_name("scripts")

MB = 1 << 20


class Block:
    """A large buffer that pickles itself out of band, as an array of numpy does."""

    def __init__(self, content):
        self.view = memoryview(content)

    def __reduce_ex__(self, protocol):
        return Block, (pickle.PickleBuffer(self.view),)

    def is_mapped(self):
        return type(self.view.obj).__name__ == "mmap"


def fit_in_turn(trainable, storage, **options):
    """Three trials with worker processes, one after the other."""
    space = {"x": tune.grid_search([1, 2, 3]), **options.pop("space", {})}
    settings = {"executor": "local", "max_concurrent_trials": 1, "name": None, "storage_path": storage, **options}
    return fit(trainable, space, **settings)


@pytest.mark.parametrize(("how", "reuse_actors"), [("bound", True), ("put", False), ("closure", False)])
def test_write_to_a_shared_value_is_private(tmp_path, how, reuse_actors):
    data = Block(bytearray(b"a" * 2 * MB))

    def bound(config, data=None):
        mine = tune.get(config["data"]) if data is None else data
        assert mine.is_mapped()
        seen = bytes(mine.view[:1])
        mine.view[: len(mine.view)] = b"b" * len(mine.view)
        tune.report({"seen": seen, "pid": os.getpid()})

    def closure(config):
        bound(config, data)

    trainable = {"bound": tune.with_parameters(bound, data=data), "put": bound, "closure": closure}[how]
    space = {"data": tune.put(data)} if how == "put" else {}
    try:
        grid = fit_in_turn(trainable, tmp_path, space=space, reuse_actors=reuse_actors)
    finally:
        tune.shutdown()
    assert [result.error for result in grid] == [None] * 3
    assert [result.metrics["seen"] for result in grid] == [b"a"] * 3
    assert bytes(data.view[:1]) == b"a"
    assert [path.name for path in tmp_path.glob("*/*") if path.name.startswith(("shared", "values"))] == []


def test_the_driver_holds_one_copy_and_a_trial_none(script):
    """Of a buffer of 64 MB. The test measures the memory that belongs to no file."""
    source = SCRIPTS / "one_copy.py"
    done = script.run_command([sys.executable, str(script.write(source))])
    assert done.returncode == 0, done.stderr
    driver_mb, *trials_mb = map(int, done.stdout.split())
    assert driver_mb < 40, "beside the modules that a run loads there is no second copy"
    assert max(trials_mb) < 32


def test_a_killed_driver_leaves_values_that_a_resume_uses_and_removes(script, tmp_path):
    """Those of `put` are in the run, and those of `with_parameters` are bound again."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    driver = script.start(SCRIPTS / "killed_driver.py", TMPDIR=str(temporary))
    stdout, stderr = script.finish(driver)
    assert (driver.returncode, stdout) == (-signal.SIGKILL, "reported\n"), stderr
    shutil.rmtree(temporary)
    [run] = [path.parent for path in script.storage.rglob("journal")]
    assert os.listdir(run / "shared") != []

    def trainable(config, data):
        tune.report({"more": len(tune.get(config["more"])), "data": len(data)})

    bound = tune.with_parameters(trainable, data=b"new")
    [result] = tune.Tuner.restore(run, bound, run_config=tune.RunConfig(verbose=0)).fit()
    assert (result.metrics["more"], result.metrics["data"]) == (5_000_000, 3)
    assert not (run / "shared").exists()
