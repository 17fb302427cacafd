"""A driver that is killed while it begins a run: the same script, started again, gets there every time."""

from pathlib import Path

from kit import records_in

SCRIPT = Path(__file__).with_name("scripts") / "begins_a_run.py"


def test_the_same_script_started_again_begins_or_goes_on(script):
    lines = script.run(SCRIPT, "killed").splitlines()
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


def test_two_drivers_that_begin_at_once_do_not_share_a_directory(script):
    found = script.run(SCRIPT, "beside")
    assert found == "run\nrun_1\n"
    records = records_in(script.storage / "run" / "journal")
    assert [record["type"] for record in records].count("run") == 1
