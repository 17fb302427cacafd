"""Hostile directories, names and values; and what others can see of a run."""

import json
import stat
from pathlib import Path

import psutil
import pytest
from kit import RUN, fit, restore, run_path

from minitune import Trainable, choice, report
from minitune.error import UntrustedStateError

SCRIPTS = Path(__file__).with_name("scripts")

FULL_RUN = SCRIPTS / "canaries_everywhere.py"

LOOK = SCRIPTS / "looks_at_a_run.py"


@pytest.fixture
def hostile(script):
    """The file that a canary makes if anything in the run's directory is unpickled."""
    script.write(SCRIPTS / "canary.py")
    sign = script.directory / "sign"
    stdout = script.run(FULL_RUN, str(sign), PYTHONPATH=str(script.directory))
    assert stdout == "[[0, 'None'], [1, 'ValueError: on purpose'], [2, 'None']]\n"
    assert sign.exists(), "the trials have unpickled their configurations"
    run = script.storage / "run"
    files = sorted(run.rglob("*.pkl"))
    kinds = {file.name.partition("-")[0].removesuffix(".pkl") for file in files}
    assert {"tuner", "_dict_checkpoint"} <= kinds
    journal = (run / "journal").read_text()
    assert '"$":"pickle","text":"<canary.Bird' in journal
    assert list((run / "objects").iterdir())
    for file in files:
        if file.parent.name != "objects":  # in these there is one already
            file.write_bytes(b"ccanary\nsing\n(V" + str(sign).encode() + b"\nNtR.")
    sign.unlink()
    return sign


def test_looking_at_results_unpickles_nothing(script, hostile):
    sang, seen, sings = json.loads(script.run(LOOK, str(hostile), PYTHONPATH=str(script.directory)))
    assert not sang
    assert seen == []
    assert sings, "what was loaded at the end would have been seen"


def test_files_writable_by_others_are_not_unpickled(script, hostile):
    run = script.storage / "run"
    (run / "plugins-000000000001.pkl").touch()
    (run / "objects" / "x.pkl").touch()
    trial = next(run.glob("Steps_*"))
    names = ("", "tuner.pkl", "journal", "plugins-000000000001.pkl", "objects", "objects/x.pkl", trial.name)
    for target in [run / name for name in names]:
        mode = target.stat().st_mode & 0o777
        target.chmod(mode | 0o002)
        with pytest.raises(UntrustedStateError) as caught:
            restore(type("Steps", (Trainable,), {}), path=run).fit()
        for part in (str(target), f"mode {mode | 0o002:04o}", "every user can write", "owner", "chmod"):
            assert part in str(caught.value)
        target.chmod(mode)
    assert not hostile.exists()


# -- names -------------------------------------------------------------------------------------------------------------

NO_PATHS = ["", "a//b", "a/", "x" * 300, "ä" * 4000]
"""Names that a trial may have: a slash in them is no part of a path, and long ones are cut."""

HOSTILE = [
    *(" ", ".", "..", "../outside", "/tmp/outside", "a/../../outside", "back\\slash"),
    *("nul\0byte", "new\nline", "\x7f", "del\x85", "\u2028", "\ud800", "dot.", "space "),
]


def trainable(config):
    report({"y": 1})


REFUSALS = {"run": "the run's name", "trial": "a trial's name", "directory": r"the directory's name of trial \w+"}


@pytest.mark.parametrize("name", [*NO_PATHS, *HOSTILE])
@pytest.mark.parametrize("what", REFUSALS)
def test_hostile_names_are_refused_and_lead_nowhere(tmp_path, what, name):
    storage = tmp_path / "deep" / "er"
    storage.mkdir(parents=True)
    creators = {"trial": "trial_name_creator", "directory": "trial_dirname_creator"}
    options = {creators[what]: lambda trial: name} if what in creators else {}

    settings = {"storage_path": storage, "name": name if what == "run" else RUN, **options}
    if (what == "trial" and name in NO_PATHS) or (what == "run" and not name):
        assert not fit(trainable, **settings).errors
    else:
        with pytest.raises(ValueError, match=f"^{REFUSALS[what]} must "):
            fit(trainable, **settings)
        made = [path for path in storage.rglob("*") if path.is_dir()]
        assert made == ([] if what == "run" else [storage / RUN])
    outside = {path for path in tmp_path.rglob("*") if storage not in path.parents}
    assert outside == {storage.parent, storage}
    assert what == "run" or {path.name for path in storage.iterdir()} == {"run"}


def test_names_that_differ_in_case_only_are_two_runs_or_have_a_suffix():
    paths = {fit(trainable, name=name).experiment_path for name in ("Name", "name", "name")}
    assert len(paths) == 3
    assert all((Path(path) / "journal").is_file() for path in paths)


# -- values ------------------------------------------------------------------------------------------------------------

VALUES = ["../../x", "--flag", "-c import os", "'\";$(touch x)`", "new\nline", "\0", "/etc/passwd", "%s{0}", "\u202e"]


def test_hostile_values_stay_values(script):
    """They reach the trial as they are; no program is called with them, and no path leads out by them."""
    (script.directory / "values.json").write_text(json.dumps(VALUES))
    source = SCRIPTS / "hostile_values.py"
    assert json.loads(script.run(source)) == [[value, False] for value in VALUES]
    assert {path.name for path in script.directory.iterdir()} == {"results", "values.json", "hostile_values.py"}
    assert {path.name for path in script.storage.iterdir()} == {"run"}
    names = [path.name for path in (script.storage / "run").glob("trainable_*")]
    assert len(names) == len(VALUES)
    assert all(name.isprintable() and not set(name) & set("/\\\"'$`\n\0") for name in names)


class Unprintable:
    """An object of which no text can be made."""

    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


def test_values_without_a_text_have_names_all_the_same():
    for number, value in enumerate([10**5000, Unprintable(), "x" * 10**6, {1: {2: [3] * 10**5}}]):
        [result] = fit(trainable, {"../../value/\0\n": choice([value])}, name=f"run{number}")
        assert result.error is None
        assert result.metrics["y"] == 1
        assert len(Path(result.path).name) < 200
        assert Path(result.path).parent.resolve() == run_path(f"run{number}").resolve()


# -- what others can see -----------------------------------------------------------------------------------------------


def test_nothing_listens_the_umask_holds_and_no_secret_is_written_down(script):
    driver = script.start(
        SCRIPTS / "secret_in_the_environment.py",
        str(script.directory),
        MY_TOKEN="hunter2-very-secret",
        MINITUNE_GLOBAL_CHECKPOINT_S="0",
    )
    script.wait_until(lambda: (script.directory / "ready").exists() or driver.poll() is not None)
    family = [psutil.Process(driver.pid), *psutil.Process(driver.pid).children(recursive=True)]
    sockets = [(process.pid, found) for process in family for found in connections(process)]
    assert len(family) >= 3
    (script.directory / "go on").touch()
    stdout, stderr = script.finish(driver)
    assert stdout == "[True, None, True]\n", stderr
    assert any(found.family.name == "AF_UNIX" for _, found in sockets), "the pairs that they talk by are seen"
    assert [s for s in sockets if s[1].family.name != "AF_UNIX" or s[1].laddr] == []

    paths = [script.storage / "run", *(script.storage / "run").rglob("*")]
    wrong = {}
    for path in paths:
        mode = stat.S_IMODE(path.lstat().st_mode)
        if path.is_dir():
            wanted = {0o750, 0o700}
        else:
            wanted = {0o600} if path.suffix == ".pkl" and not path.name.startswith("_") else {0o640, 0o600}
            assert b"hunter2" not in path.read_bytes(), path
        if mode not in wanted:
            wrong[str(path.relative_to(script.storage))] = oct(mode)
    assert wrong == {}
    assert any(path.name.startswith("plugins-") for path in paths)


def connections(process):
    """All sockets of a process, if it is still there; the method has another name in older versions."""
    look = getattr(process, "net_connections", None) or process.connections
    try:
        return list(look(kind="all"))
    except psutil.NoSuchProcess:  # another trial's, which has ended meanwhile
        return []
