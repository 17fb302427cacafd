"""A driver that is killed while it begins a run: the same script, started again, gets there every time."""

from __future__ import annotations

from typing import Any

from kit import DYING, records_in

LOOP = (
    DYING
    + """
    from minitune import RunConfig, TuneConfig, Tuner, report, uniform

    STORAGE = os.environ["MINITUNE_STORAGE_PATH"]

    def trainable(config):
        report({"x": config["x"]})

    def start_or_go_on(name):
        path = os.path.join(STORAGE, name)
        if Tuner.can_restore(path):
            return Tuner.restore(path, trainable).fit()
        return Tuner(
            trainable,
            param_space={"x": uniform(0, 1), "large": bytes(2_000_000)},  # stored in a file before the first record
            tune_config=TuneConfig(num_samples=3, executor="inline"),
            run_config=RunConfig(name=name, verbose=0),
        ).fit()
"""
)

KILLED_AT = (
    LOOP
    + """
    from minitune.driver import open_run
    from minitune.driver import run as _driver
    from minitune.record import codec, journal, layout, recorder

    def half_a_record():
        original = codec.encode

        def write_half(record, objects=None):
            os.write(os.open(os.path.join(STORAGE, "half", "journal"), os.O_WRONLY | os.O_APPEND),
                     b"01234567 " + original(record, objects).encode()[:21])
            die()

        codec.encode = write_half

    STEPS = {
        "empty": lambda: dies_before(layout.RunLock, "acquire"),
        "made": lambda: dies_after(_driver, "create_run_directory"),
        "locked": lambda: dies_after(open_run.RunLock, "acquire"),
        "journal": lambda: dies_after(open_run, "Recorder"),
        "settings": lambda: dies_before(_driver, "write_tuner_file"),
        "rename": lambda: dies_before(os, "replace"),
        "written": lambda: dies_after(_driver, "write_tuner_file"),
        "half": half_a_record,
        "first": lambda: dies_after(journal.Journal, "append"),
        "begun": lambda: dies_after(open_run.OpenRun, "begin"),
        "drawn": lambda: dies_after(recorder.Recorder, "trial_added"),
    }

    def killed(name, how):
        how()
        start_or_go_on(name)

    for name, how in STEPS.items():
        assert in_a_child(lambda: killed(name, how)) == signal.SIGKILL, name
        for again in range(2):  # a second time: what was recovered stays so
            grid = start_or_go_on(name)
            print(name, again, len(grid), grid.num_terminated, os.path.basename(grid.experiment_path), sep="|")
"""
)


def test_the_same_script_started_again_begins_or_goes_on(script: Any) -> None:
    lines = script.run(KILLED_AT).splitlines()
    assert len(lines) == 22
    for line in lines:
        name, _, *found = line.split("|")
        assert found == ["3", "3", name], line
    for name in {line.partition("|")[0] for line in lines}:
        run = script.storage / name
        records = records_in(run / "journal")
        assert [record["type"] for record in records].count("run") == 1, name
        assert isinstance(records[0]["seed"], int)
        assert not list(run.glob(".tmp-*")), name
        assert (run / "journal.torn-1").exists() == (name == "half")
    assert sorted(path.name for path in script.storage.iterdir()) == sorted({line.partition("|")[0] for line in lines})


def test_two_drivers_that_begin_at_once_do_not_share_a_directory(script: Any) -> None:
    found = script.run(
        LOOP
        + """
    from minitune.record.lock import RunLock

    original = RunLock.acquire

    def meanwhile(lock):
        RunLock.acquire = original
        print(os.path.basename(start_or_go_on("run").experiment_path))
        return lock.acquire()

    RunLock.acquire = meanwhile
    print(os.path.basename(start_or_go_on("run").experiment_path))
    """
    )
    assert found == "run\nrun_1\n"
    records = records_in(script.storage / "run" / "journal")
    assert [record["type"] for record in records].count("run") == 1
