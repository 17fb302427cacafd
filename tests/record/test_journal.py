import errno
import os
import random
import re
import subprocess
import sys
import tracemalloc
from contextlib import closing
from pathlib import Path

import pytest
from kit import Injured, NoThread, Trace, raiser
from test_journal_codec import encode

from minitune.base import files
from minitune.error import DiskError, JournalCorruptError, TuneError
from minitune.experiment.decision import CONTINUE, Decision
from minitune.experiment.endings import Ending, EndKind
from minitune.record import journal, records
from minitune.record.housekeeper import Housekeeper
from minitune.record.journal import Journal
from minitune.resources import Resources

SCRIPTS = Path(__file__).with_name("scripts")

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def housekeeper():
    """It syncs batched journals."""
    with closing(Housekeeper()) as one:
        yield one


def run_record():
    return records.run(
        "demo", metric="loss", mode="min", seed=1, space_keys=["lr"], trainable="train", versions={"minitune": "0"}
    )


def result(number):
    return records.result("a_00000", 1, number, {"loss": 1 / number, "nan": float("nan")}, Decision(CONTINUE))


def write(path, count=5):
    """A journal with a run and `count` results."""
    written = [run_record(), *(result(number) for number in range(1, count + 1))]
    with closing(Journal(path, NoThread(), is_new=True)) as log:
        for record in written:
            log.append(record)
    return written


def trial_with(value):
    return records.trial("a", 0, {"v": value}, seed=1, resources=Resources.of(None), name="n")


def numbers(path):
    """The numbers of the results in a journal."""
    return [record["number"] for record in journal.read(path) if record["type"] == "result"]


def lines_of(path):
    return path.read_bytes().splitlines(keepends=True)


def test_positions_lead_back_to_the_records(tmp_path):
    path = tmp_path / "journal"
    with closing(Journal(path, NoThread(), is_new=True)) as log:
        log.append(run_record())
        log.append(result(1))
        offset = log.offset
        log.append(result(2))
        log.append(result(3))
    positions = [position for position, _ in journal.scan(path)]

    assert offset == positions[2]
    assert [record["number"] for _, record in journal.scan(path, begin=offset)] == [2, 3]


def test_an_existing_journal_is_not_begun_again(tmp_path):
    write(tmp_path / "journal")

    with pytest.raises(TuneError, match="could not be created"):
        Journal(tmp_path / "journal", NoThread(), is_new=True)


def test_a_missing_journal_is_an_error_and_not_a_new_one(tmp_path):
    with pytest.raises(TuneError, match=r"could not be read.*ENOENT"):
        Journal(tmp_path / "journal", NoThread(), is_new=False)
    with pytest.raises(TuneError, match="could not be read"):
        list(journal.read(tmp_path / "journal"))
    assert not (tmp_path / "journal").exists()


def test_a_journal_cut_at_any_byte_keeps_its_whole_lines_and_goes_on(tmp_path):
    path = tmp_path / "journal"
    write(path, 3)
    data, lines = path.read_bytes(), lines_of(path)
    path.unlink()

    for length in range(len(data) + 1):
        directory = tmp_path / str(length)
        directory.mkdir()
        cut = directory / "journal"
        cut.write_bytes(data[:length])
        whole = sum(1 for i in range(len(lines)) if len(b"".join(lines[: i + 1])) <= length)
        assert len(list(journal.read(cut))) == whole  # looking changes nothing
        assert cut.read_bytes() == data[:length]

        with closing(Journal(cut, NoThread(), is_new=False)) as log:
            log.append(result(9) if whole else run_record())

        assert lines_of(cut)[:-1] == lines[:whole]
        assert len(list(journal.read(cut))) == whole + 1
        torn = data[len(b"".join(lines[:whole])) : length]
        asides = [file.read_bytes() for file in directory.glob("journal.torn-*")]
        assert asides == ([torn] if torn else [])


def test_torn_ends_are_numbered(tmp_path, caplog):
    path = tmp_path / "journal"
    write(path)
    for _ in range(2):
        with path.open("ab") as file:
            file.write(b"half a li")
        Journal(path, NoThread(), is_new=False).close()

    assert sorted(file.name for file in tmp_path.iterdir()) == ["journal", "journal.torn-1", "journal.torn-2"]
    assert "torn end" in caplog.text


def test_bad_bits_never_become_records(tmp_path):
    path = tmp_path / "journal"
    write(path, 6)
    data, whole = path.read_bytes(), [str(record) for record in journal.read(path)]
    randomness = random.Random(1)
    outcomes = set()

    for _ in range(300):
        damaged = bytearray(data)
        damaged[randomness.randrange(len(data))] ^= 1 << randomness.randrange(8)
        path.write_bytes(damaged)
        read = []
        try:
            for record in journal.read(path):
                read.append(str(record))
            outcomes.add("torn")
        except JournalCorruptError:
            outcomes.add("corrupt")
        assert read == whole[: len(read)]
        assert len(read) < len(whole)

    assert outcomes == {"torn", "corrupt"}


@pytest.mark.parametrize(
    ("begin", "end", "is_torn"),
    [(1000, 1024, True), (1024, 1536, True), (700, 2048, True), (600, 4000, True), (1030, 1500, False)],
)
def test_zeros_up_to_the_end_of_a_sector_begin_a_torn_end_whatever_follows(tmp_path, begin, end, is_torn):
    path = tmp_path / "journal"
    write(path, 60)
    data = bytearray(path.read_bytes())
    data[begin:end] = bytes(end - begin)
    path.write_bytes(data)
    kept = bytes(data[: data.rindex(b"\n", 0, begin) + 1])

    if not is_torn:
        with pytest.raises(JournalCorruptError, match="bad line at byte"):
            Journal(path, NoThread(), is_new=False)
        return
    assert len(list(journal.read(path))) == kept.count(b"\n")
    Journal(path, NoThread(), is_new=False).close()
    assert path.read_bytes() == kept
    assert (tmp_path / "journal.torn-1").read_bytes() == bytes(data[len(kept) :])


def follow(error):
    """Run the command that an error names."""
    subprocess.run([sys.executable, "-c", re.search('python -c "(.*)"', str(error))[1]], check=True)


def test_damage_before_good_lines_names_position_and_way_out(tmp_path):
    path = tmp_path / "journal"
    write(path)
    lines = lines_of(path)
    position = len(lines[0]) + len(lines[1])
    path.write_bytes(b"".join(lines).replace(lines[2], lines[2].replace(b"loss", b"lass")))
    before = path.read_bytes()

    for use in (lambda: Journal(path, NoThread(), is_new=False), lambda: list(journal.read(path))):
        with pytest.raises(JournalCorruptError, match=rf"bad line at byte {position}, but good") as caught:
            use()

    assert path.read_bytes() == before
    follow(caught.value)
    assert path.read_bytes() == before[:position]
    assert len(list(journal.read(path))) == 2


@pytest.mark.parametrize("schema", [1, 99, None])
def test_another_schema_is_refused_with_both_versions(tmp_path, schema):
    path = tmp_path / "journal"
    path.write_bytes(encode({**run_record(), "schema": schema}) + b"torn")

    for use in (lambda: Journal(path, NoThread(), is_new=False), lambda: list(journal.read(path))):
        with pytest.raises(TuneError, match=rf"schema {schema}, .* schema 2 only"):
            use()
    assert path.read_bytes().endswith(b"torn")  # the journal of another version is not touched


def test_a_journal_without_its_beginning_is_refused(tmp_path):
    path = tmp_path / "journal"
    write(path)
    path.write_bytes(b"".join(lines_of(path)[1:]))

    for use in (lambda: Journal(path, NoThread(), is_new=False), lambda: list(journal.read(path))):
        with pytest.raises(JournalCorruptError, match="must begin with a record of kind 'run'"):
            use()


def test_memory_does_not_grow_with_the_file(tmp_path):
    path = tmp_path / "journal"
    line = encode(records.result("a", 1, 1, {"loss": 0.5}, Decision(CONTINUE)))
    path.write_bytes(encode(run_record()) + line * 5_000)

    tracemalloc.start()
    count = sum(1 for _ in journal.read(path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert count == 5_001
    assert peak < path.stat().st_size / 2


def test_a_record_in_the_making_is_not_read(tmp_path):
    path = tmp_path / "journal"
    write(path, 2)
    reader = journal.read(path)
    next(reader)
    with closing(Journal(path, NoThread(), is_new=False)) as log:
        log.append(result(3))  # after the reader has begun: it reads what was there then

    assert len(list(reader)) == 2


def test_a_process_killed_at_any_time_loses_nothing_that_was_appended(tmp_path):
    command = [sys.executable, SCRIPTS / "appends_for_ever.py"]
    path = tmp_path / "journal"
    with subprocess.Popen([*command, path], stdout=subprocess.PIPE) as process:
        acknowledged = [process.stdout.readline() for _ in range(200)]
        process.kill()
        acknowledged += process.stdout.readlines()

    found = numbers(path)
    assert found == list(range(1, len(found) + 1))
    assert len(found) >= int(acknowledged[-1])


# -- when the disk refuses -----------------------------------------------------------------------------------------


def test_a_short_write_is_continued(tmp_path, monkeypatch):
    path, real_write = tmp_path / "journal", os.write
    short = Injured(real_write, lambda descriptor, data: real_write(descriptor, data[:20]), at=[1])

    with closing(Journal(path, NoThread(), is_new=True)) as log:
        log.append(run_record())
        monkeypatch.setattr(os, "write", short)
        log.append(result(1))
        log.append(result(2))

    assert numbers(path) == [1, 2]
    assert short.calls == 3


def test_a_full_disk_leaves_a_valid_journal_to_which_nothing_more_is_written(tmp_path, monkeypatch):
    path = tmp_path / "journal"
    real_write = os.write

    def write_until_full(descriptor, data):
        free_bytes = len(valid) + 20 - os.fstat(descriptor).st_size
        if not free_bytes:
            raise FULL
        return real_write(descriptor, data[:free_bytes])

    log = Journal(path, NoThread(), is_new=True)
    log.append(run_record())
    valid = path.read_bytes()
    refused = r"journal could not be written: .*\(ENOSPC\).*free some space, then resume it"
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write_until_full)
        with pytest.raises(DiskError, match=refused):
            log.append(result(1))
    with pytest.raises(DiskError, match=refused):
        log.append(result(2))
    with pytest.raises(DiskError, match=refused):
        log.close()
    assert path.read_bytes() == valid


def break_syncs(monkeypatch):
    """From now on no file can be synced."""
    broken = Injured(files.sync_descriptor, OSError(errno.EIO, os.strerror(errno.EIO)))
    monkeypatch.setattr(files, "sync_descriptor", broken)
    return broken


def test_a_failed_background_sync_is_raised_by_the_next_append(tmp_path, monkeypatch, bound_s):
    with closing(Housekeeper()) as housekeeper:
        log = Journal(tmp_path / "journal", housekeeper, is_new=True)
        broken = break_syncs(monkeypatch)
        log.append(run_record())
        assert housekeeper.wait_idle(bound_s(10))
        assert broken.calls

        with pytest.raises(TuneError, match=r"could not be synced to the disk: .*EIO"):
            log.append(result(1))
        later = log.fail(log.objects.directory, "written", OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        assert "could not be synced" in str(later), "the first failure is the one that counts"
        with pytest.raises(TuneError, match="could not be synced"):
            log.close()
    log.close()


def test_a_failed_last_sync_is_raised_by_close(housekeeper, tmp_path, monkeypatch):
    log = Journal(tmp_path / "journal", housekeeper, is_new=True)
    log.append(run_record())
    break_syncs(monkeypatch)

    with pytest.raises(TuneError, match="could not be synced"):
        log.close()


# -- durability ----------------------------------------------------------------------------------------------------


@pytest.fixture
def synced_bytes(monkeypatch):
    """The size of the file at each sync."""
    trace = Trace(monkeypatch)
    trace.watch(files, "sync_descriptor", lambda descriptor: str(os.fstat(descriptor).st_size))
    return trace.lines


def test_many_records_are_synced_together_and_the_end_is(tmp_path, synced_bytes, bound_s):
    with closing(Housekeeper()) as housekeeper:
        log = Journal(tmp_path / "journal", housekeeper, is_new=True)
        log.append(run_record())
        for number in range(1, 200):
            log.append(result(number))
        assert housekeeper.wait_idle(bound_s(10))
        assert synced_bytes[-1] == str(log.offset)
        log.append(result(200))
        log.close()

    assert len(synced_bytes) < 100
    assert synced_bytes[-1] == str(log.offset)


def test_a_closed_journal_says_so(tmp_path):
    log = Journal(tmp_path / "journal", NoThread(), is_new=True)
    log.close()
    log.close()

    with pytest.raises(TuneError, match="is closed"):
        log.append(run_record())


def test_large_objects_lie_beside_the_journal(tmp_path):
    path, big = tmp_path / "journal", frozenset([b"x" * 100_000])

    class Config:
        data = big

    with closing(Journal(path, NoThread(), is_new=True)) as log:
        log.append(run_record())
        log.append(trial_with(Config))

    assert path.stat().st_size < 5_000
    assert len(list((tmp_path / "objects").iterdir())) == 1
    assert "Config" in repr(list(journal.read(path))[1]["config"]["v"])
    assert list(journal.read(path, unpickle=True))[1]["config"]["v"].data == big


@pytest.mark.parametrize("damage", ["cut", "emptied", "removed", "none"])
def test_an_object_that_is_not_whole_is_an_error_with_a_way_out(housekeeper, tmp_path, damage):
    """A power cut before the background sync may leave such a file."""
    path = tmp_path / "journal"
    with closing(Journal(path, housekeeper, is_new=True)) as log:
        log.append(run_record())
        log.append(trial_with(frozenset([b"x" * 100_000])))
        log.append(trial_with({"sha256": "0" * 64, "text": '{"$":"pickle"'}))
        log.append(trial_with(b"y" * 2_000_000))
        log.append(result(2))
    stored = max((tmp_path / "objects").iterdir(), key=os.path.getsize)
    if damage == "removed":
        stored.unlink()
    elif damage != "none":
        os.truncate(stored, 0 if damage == "emptied" else 1_000_000)

    del log  # a process knows the values of a journal as long as it has it
    Journal(path, housekeeper, is_new=False).close()
    everything = ["run", "trial", "trial", "trial", "result"]
    assert [record["type"] for record in journal.read(path)] == everything, "looking needs no object"
    if damage == "none":
        assert [record["type"] for record in journal.read(path, unpickle=True)] == everything
        return

    with pytest.raises(JournalCorruptError, match=r"(cannot be read|is damaged).*Put back a copy; or ") as caught:
        list(journal.read(path, unpickle=True))
    follow(caught.value)
    assert [record["type"] for record in journal.read(path, unpickle=True)] == ["run", "trial", "trial"]


# -- records -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", EndKind)
def test_a_kind_of_ending_is_read_with_any_text(kind):
    for text in ("", "the trainable has returned", "lost: because it rained"):
        ending = Ending(kind, text, {"a": 1})
        assert records.ending_of(records.status("a", "TERMINATED", ending)) == ending
        assert records.ending_of(records.close(ending)) == ending


# -- removed or changed while it is written ------------------------------------------------------------------------


@pytest.fixture
def no_delay(monkeypatch):
    """A journal is looked at as often as it is written, and what is missing is missing at once."""
    monkeypatch.setattr(journal, "LOOK_S", 0.0)


def vanish(path, how):
    if how == "replaced":
        (path.parent / "other").write_text("something else\n")
        os.replace(path.parent / "other", path)
        return
    path.unlink()
    if how == "a link":
        path.symlink_to(path.parent / "outside")


@pytest.mark.parametrize("how", ["removed", "replaced", "a link"])
@pytest.mark.parametrize("is_at_the_end", [False, True])
def test_a_journal_that_goes_ends_the_run_and_is_there_afterwards(housekeeper, tmp_path, how, is_at_the_end, no_delay):
    path = tmp_path / "journal"
    (tmp_path / "outside").write_text("precious")
    log = Journal(path, housekeeper, is_new=True)
    for record in (run_record(), *map(result, range(1, 4))):
        log.append(record)
    vanish(path, how)
    if not is_at_the_end:
        with pytest.raises(DiskError, match=f"{path} was removed or moved during the run"):
            log.append(result(4))
    with pytest.raises(DiskError, match="was removed or moved"):
        log.close()

    assert numbers(path) == [1, 2, 3]
    assert not path.is_symlink()
    assert (tmp_path / "outside").read_text() == "precious"
    aside = path.with_name("journal.other-1")
    assert (
        not os.path.lexists(aside) if how == "removed" else aside.is_symlink() or aside.read_text().startswith("some")
    )


def test_a_journal_that_cannot_be_written_again_says_so(tmp_path, no_delay, monkeypatch, caplog):
    path = tmp_path / "journal"
    log = Journal(path, NoThread(), is_new=True)
    log.append(run_record())
    path.unlink()
    monkeypatch.setattr(files, "new_file", raiser(OSError(errno.EROFS, os.strerror(errno.EROFS))))
    with pytest.raises(DiskError, match="was removed"):
        log.close()
    assert f"{path} could not be written again: Read-only file system (EROFS)" in caplog.text


@pytest.mark.parametrize("how", ["cut", "emptied", "written to"])
def test_a_journal_that_others_have_changed_ends_the_run(tmp_path, how, no_delay, bound_s):
    path = tmp_path / "journal"
    with closing(Housekeeper()) as housekeeper:
        log = Journal(path, housekeeper, is_new=True)
        log.append(run_record())
        log.append(result(1))
        if how == "written to":
            with path.open("ab") as file:
                file.write(b"note to self\n")
        else:
            os.truncate(path, 0 if how == "emptied" else path.stat().st_size - 10)

        def append_until_it_is_noticed():
            for number in range(2, 4):
                log.append(result(number))
                assert housekeeper.wait_idle(bound_s(10))

        with pytest.raises(TuneError, match=f"{path} was changed by another program during the run"):
            append_until_it_is_noticed()
        with pytest.raises(TuneError, match="was changed by another program"):
            log.close()


def test_a_journal_whose_directory_has_gone_stays_where_it_is(tmp_path, no_delay):
    run = tmp_path / "run"
    run.mkdir()
    log = Journal(run / "journal", NoThread(), is_new=True)
    log.append(run_record())
    log.append(result(1))
    run.rename(tmp_path / "moved")
    for use in (lambda: log.append(result(2)), log.close):
        with pytest.raises(DiskError, match=f"{run} was removed or moved"):
            use()

    assert list(tmp_path.glob("run/*")) == []
    assert numbers(tmp_path / "moved" / "journal") == [1]


def test_records_of_a_kind_are_read_past_a_bad_line_of_that_kind(tmp_path):
    path = tmp_path / "journal"
    write(path, 3)
    lines = lines_of(path)
    lines[2] = lines[2].replace(b'"loss":0.5', b'"loss":0.7')
    path.write_bytes(b"".join(lines))
    assert [record["number"] for record in journal.of_kinds(path, records.RESULT)] == [1, 3]
