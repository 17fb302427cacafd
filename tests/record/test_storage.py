import logging
import os
import re
from pathlib import Path

import pytest
from kit import fit, report_n

from minitune.base import clock, files
from minitune.config import default_storage_path
from minitune.error import UntrustedStateError
from minitune.experiment.trial import Trial
from minitune.record import layout, lock
from minitune.record.layout import RunDirectory, create_run_directory, create_trial_directory, locate_run
from minitune.record.lock import RunLock


def make_trial(run, tag="0_lr=0.1", **more):
    return Trial("train", trial_id="ab12c_00000", experiment_tag=tag, experiment_path=str(run), **more)


def create(storage, name, **more):
    """The directory of a run whose driver has ended before it wrote anything."""
    run, lock = create_run_directory(storage, name, **more)
    lock.release()
    return run


@pytest.fixture
def frozen_time():
    with clock.use(clock.VirtualClock(1_700_000_000.25)):
        yield


# -- a run's directory ---------------------------------------------------------------------------------------------


def test_a_run_gets_its_directory(tmp_path):
    run = create(tmp_path / "deep" / "storage", "exp")

    assert (run.path, run.name) == (str(tmp_path / "deep" / "storage" / "exp"), "exp")
    assert os.listdir(run.path) == ["lock"]
    assert {os.path.dirname(file) for file in (run.journal, run.lock, run.tuner, run.trainable)} == {run.path}


@pytest.mark.parametrize("name", ["exp", "exp 1", "exp.v2", "ü" * 100, "..exp", "-rf", "console", "a:b"])
def test_harmless_run_names_are_taken_as_they_are(tmp_path, name):
    assert os.path.basename(create(tmp_path, name).path) == name


@pytest.mark.parametrize("name", ["exp", "project/exp"])
def test_a_second_run_of_the_same_name_gets_a_suffix_and_a_warning(tmp_path, name, caplog):
    paths = []
    for _ in range(3):
        run = create(tmp_path, name)
        Path(run.journal).write_text("x")
        paths.append(run.path)

    assert paths == [str(tmp_path / f"{name}{suffix}") for suffix in ("", "_1", "_2")]
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2


def test_a_directory_without_a_run_is_used_unless_it_has_directories(tmp_path, caplog):
    (tmp_path / "exp").mkdir()
    (tmp_path / "exp" / "notes.txt").touch()
    (tmp_path / "file").touch()
    (tmp_path / "project" / "data").mkdir(parents=True)

    assert create(tmp_path, "exp").name == "exp"
    assert create(tmp_path, "file").name == "file_1"
    assert create(tmp_path, "project").name == "project_1"
    assert f"{tmp_path / 'project'} is in use already; this run goes to {tmp_path / 'project_1'} (" in caplog.text


@pytest.mark.parametrize("has_ended", [True, False])
def test_two_drivers_with_one_name_get_two_directories(tmp_path, monkeypatch, has_ended):
    rivals = []

    def meanwhile(lock):
        monkeypatch.undo()
        run, other = create_run_directory(tmp_path, "exp")
        rivals.append(other)
        if has_ended:
            Path(run.journal).write_text("x")
            other.release()
        return lock.acquire()

    monkeypatch.setattr(RunLock, "acquire", meanwhile)
    run, lock = create_run_directory(tmp_path, "exp")
    lock.release()
    rivals[0].release()

    assert os.path.dirname(rivals[0].path) == str(tmp_path / "exp")
    assert run.name == "exp_1"


@pytest.mark.parametrize("kind", ["a link", "every user can write", "another user"])
def test_a_name_that_another_user_may_have_taken_is_refused(tmp_path, monkeypatch, kind):
    taken, target = tmp_path / "exp", tmp_path / "mine"
    target.mkdir()
    if kind == "a link":
        taken.symlink_to(target)
    else:
        taken.mkdir()
    if kind == "every user can write":
        taken.chmod(0o777)
    if kind == "another user":
        if os.getuid() != 0:
            pytest.skip("only root can give directories away")
        os.chown(taken, 12345, -1)

    with pytest.raises(UntrustedStateError, match=rf"exp may be written by .*{kind}.*owner .*mode 0\d+.*another path"):
        create_run_directory(tmp_path, "exp")
    assert list(target.iterdir()) == []
    if kind != "a link":
        assert list(taken.iterdir()) == []
    monkeypatch.setenv("MINITUNE_TRUST", "1")
    assert create(tmp_path, "exp").name == "exp"


def test_default_names_never_meet(tmp_path, frozen_time):
    runs = [create(tmp_path, None, trainable_name="my/train") for _ in range(3)]

    assert re.fullmatch(r"my_train_\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d", runs[0].name)
    assert [run.name for run in runs] == [runs[0].name + suffix for suffix in ("", "_1", "_2")]


@pytest.mark.parametrize(("file", "content"), [("journal", "x"), ("tuner.pkl", "x"), ("tuner.pkl", "")])
def test_a_run_is_recognised_even_if_damaged(tmp_path, file, content):
    assert not layout.is_run(tmp_path / "nowhere")
    assert not layout.is_run(tmp_path)
    (tmp_path / file).write_text(content)
    assert layout.is_run(tmp_path)


def test_the_name_of_an_unbegun_run_is_free(tmp_path):
    run = create(tmp_path, "exp")
    Path(run.journal).touch()
    with RunLock(run.lock):
        assert not layout.is_run(run.path)
        assert create(tmp_path, "exp").name == "exp_1"
    assert create(tmp_path, "exp").path == run.path


# -- a trial's directory -------------------------------------------------------------------------------------------


def test_a_trials_directory_has_name_tag_and_date(tmp_path, frozen_time):
    name = create_trial_directory(str(tmp_path), make_trial(tmp_path))

    assert re.fullmatch(r"train_ab12c_00000_0_lr=0\.1_\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d", name)
    assert (tmp_path / name).is_dir()


@pytest.mark.parametrize("own", [None, "short", "x" * 255])
def test_a_taken_name_gets_hex_digits(tmp_path, frozen_time, own):
    creator = None if own is None else lambda trial: own
    names = [create_trial_directory(str(tmp_path), make_trial(tmp_path), creator) for _ in range(3)]

    assert len(set(names)) == 3
    for name in names[1:]:
        assert re.fullmatch(re.escape(names[0][:246]) + "_[0-9a-f]{8}", name)


@pytest.mark.parametrize(
    "tag", ["0_x=../../x", "0_x=--flag", '0_x="quotes"\'', "0_x=a\nb\0c", "0_x=<>:|?*\\()", "0_" + "ü" * 5000, "\ud800"]
)
def test_hostile_values_are_cleaned_before_they_become_names(tmp_path, tag):
    run = tmp_path / "run"
    run.mkdir()

    name = create_trial_directory(str(run), make_trial(run, tag))

    assert not set(name) & set('[/()<>:"\\|?*]\n\0') - {"[", "]"}
    assert [entry.name for entry in run.iterdir()] == [name]
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"]
    assert len(os.fsencode(name)) <= 255


def test_name_and_tag_are_cut_at_130_characters(tmp_path):
    name = create_trial_directory(str(tmp_path), make_trial(tmp_path, "x" * 500))
    assert len(name) == 130 + len("_2024-01-01_00-00-00")


@pytest.mark.parametrize("variable", ["MINITUNE_STORAGE_PATH", "TUNE_RESULT_DIR"])
def test_a_variable_sets_the_default_directory_of_runs(tmp_path, monkeypatch, variable):
    monkeypatch.delenv("MINITUNE_STORAGE_PATH", raising=False)
    monkeypatch.setenv(variable, str(tmp_path / "runs"))
    assert default_storage_path() == str(tmp_path / "runs")


def test_a_name_from_the_user_is_used_fully(tmp_path):
    trial = make_trial(tmp_path)

    assert create_trial_directory(str(tmp_path), trial, lambda t: f"my {t.trial_id}") == "my ab12c_00000"
    assert re.fullmatch(
        "my ab12c_00000_[0-9a-f]{8}", create_trial_directory(str(tmp_path), trial, lambda t: f"my {t.trial_id}")
    )
    trial.set_name("team/model")  # a slash in a name is fine, it is no path
    assert create_trial_directory(str(tmp_path), trial).startswith("team_model_0_lr=0.1_")


def test_a_link_in_the_directorys_place_is_not_used(tmp_path):
    run, outside = tmp_path / "run", tmp_path / "outside"
    run.mkdir()
    outside.mkdir()
    (run / "mine").symlink_to(outside)

    name = create_trial_directory(str(run), make_trial(run), lambda _: "mine")

    assert name != "mine"
    assert not (run / name).is_symlink()


# -- writing -------------------------------------------------------------------------------------------------------


def test_only_leftovers_of_a_killed_writer_are_removed(tmp_path):
    run = RunDirectory(str(tmp_path))
    os.mkdir(run.objects)
    for directory in (run.path, run.objects):
        Path(directory, files.temporary_name()).touch()
        Path(directory, ".tmp-of-the-user").touch()

    run.clean()

    assert sorted(os.listdir(run.path)) == [".tmp-of-the-user", "objects"]
    assert os.listdir(run.objects) == [".tmp-of-the-user"]


# -- errors --------------------------------------------------------------------------------------------------------


def test_failures_are_appended(tmp_path):
    layout.append_error(str(tmp_path), 1, "Traceback ...\nValueError: one\n", "2024-01-01_00-00-00")
    layout.append_error(str(tmp_path), 2, "KeyError: 'zwei\ud800'", "2024-01-01_00-00-01")

    assert (tmp_path / "error.txt").read_text(encoding="utf-8") == (
        "Failure # 1 (occurred at 2024-01-01_00-00-00)\nTraceback ...\nValueError: one\n"
        "Failure # 2 (occurred at 2024-01-01_00-00-01)\nKeyError: 'zwei\\ud800'\n"
    )
    assert layout.last_error_text(str(tmp_path)) == "KeyError: 'zwei\\ud800'"


# -- removal -------------------------------------------------------------------------------------------------------


def test_unrecorded_checkpoints_are_removed_from_a_trials_directory(tmp_path):
    trial, outside = tmp_path / "run" / "trial", tmp_path / "outside"
    outside.mkdir(parents=True)
    (outside / "precious").touch()
    for name in ("checkpoint_000000", "checkpoint_000001", "checkpoint_1000000", ".tmp-000002-1", "checkpoint_old"):
        (trial / name / "sub").mkdir(parents=True)
        (trial / name / "sub" / "link").symlink_to(outside)
    (trial / "checkpoint_000003").symlink_to(outside)
    for name in (files.temporary_name(), ".tmp-user", "model.pt", "checkpoint_0"):
        (trial / name).touch()

    layout.clean_trial_directory(str(tmp_path / "run"), str(trial), recorded={1})

    assert sorted(os.listdir(trial)) == [".tmp-user", "checkpoint_0", "checkpoint_000001", "checkpoint_old", "model.pt"]
    assert (outside / "precious").exists()


def test_two_may_remove_the_same_directory(tmp_path):
    directory = tmp_path / "checkpoint"
    for name in ("a", "b", "c"):
        (directory / name).mkdir(parents=True)
        for number in range(200):
            (directory / name / str(number)).touch()

    first, second = (files.remove_tree_steps(str(directory)) for _ in range(2))
    for _ in zip(first, second, strict=False):
        pass
    for _ in (*first, *second):
        pass

    assert not directory.exists()


def test_nothing_is_cleared_outside_or_behind_a_link(tmp_path):
    run, outside = tmp_path / "run", tmp_path / "outside"
    run.mkdir()
    (outside / "checkpoint_000000").mkdir(parents=True)
    (run / "trial").symlink_to(outside)
    (run / "group").symlink_to(tmp_path)

    for directory in (run / "trial", outside, run, run / ".." / "outside", run / "group" / "outside", run / "gone"):
        layout.clean_trial_directory(str(run), str(directory), recorded=())
    assert (outside / "checkpoint_000000").exists()


# -- trust ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def run_on_disk(tmp_path):
    run = tmp_path / "run"
    (run / "objects").mkdir(parents=True, mode=0o755)
    for file in (run / "journal", run / "tuner.pkl", run / "objects" / "ab.pkl"):
        file.touch(mode=0o644)
    return run


@pytest.mark.parametrize("place", [".", "tuner.pkl", "journal", "objects", "objects/ab.pkl"])
def test_a_world_writable_run_is_not_trusted_unless_allowed(run_on_disk, place, monkeypatch):
    lock.check_trusted(run_on_disk)
    target = run_on_disk / place
    target.chmod(target.stat().st_mode | 0o002)

    with pytest.raises(UntrustedStateError, match=r"every user can write to it \(owner .*, mode 07?[67][45][67]\)"):
        lock.check_trusted(run_on_disk)
    monkeypatch.setenv("MINITUNE_TRUST", "1")
    lock.check_trusted(run_on_disk)


def test_runs_below_a_hidden_directory_are_not_listed(tmp_path):
    for name in ("a", "project/b", ".trash/c", "project/.trash/d", ".e", "1/2/f", "1/2/3/g"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "journal").write_bytes(b"x")
    found = [os.path.relpath(path, tmp_path) for path in layout.find_runs(str(tmp_path), depth=3)]
    assert found == [".e", "1/2/f", "a", "project/b"]
    assert list(layout.find_runs(str(tmp_path / "nowhere"))) == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize(
    ("user", "group", "text"),
    [(-1, 54321, "its group can write to it"), (12345, -1, r"belongs to another user \(owner 12345, mode 0664\)")],
)
def test_the_run_of_others_is_not_trusted(run_on_disk, user, group, text):
    (run_on_disk / "tuner.pkl").chmod(0o664)
    os.chown(run_on_disk / "tuner.pkl", user, group)

    for path in (run_on_disk, run_on_disk / "tuner.pkl"):
        with pytest.raises(UntrustedStateError, match=rf"tuner\.pkl .*{text}"):
            lock.check_trusted(path)


def test_a_link_inside_a_run_is_not_trusted(run_on_disk, tmp_path):
    (tmp_path / "elsewhere.pkl").touch()
    (run_on_disk / "searcher-state-1.pkl").symlink_to(tmp_path / "elsewhere.pkl")

    with pytest.raises(UntrustedStateError, match="it is a link"):
        lock.check_trusted(run_on_disk)


def test_the_directories_of_large_values_are_no_trials(tmp_path):
    run = RunDirectory(str(tmp_path))
    for path in (run.objects, run.shared):
        os.mkdir(path)
    assert not run.has_trials()
    os.mkdir(tmp_path / "trial")
    assert run.has_trials()


def test_a_path_comes_before_a_name_below_the_storage_path(tmp_path, monkeypatch):
    stored = fit(report_n(1)).experiment_path
    monkeypatch.chdir(tmp_path)
    assert locate_run("run") == stored
    here = fit(report_n(1), storage_path=tmp_path).experiment_path
    assert locate_run("run") == here != stored
