"""An index of a journal's lines: which lines readers need, and that each line is checked."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from minitune.error import JournalCorruptError
from minitune.record import journal, journal_lines

RUN = {"type": "run", "schema": 2}


def result(trial: str, number: int, **others: Any) -> dict[str, Any]:
    fields = {"decision": "CONTINUE", "reason": "", "checkpoint": None, **others}
    return {"type": "result", "trial": trial, "attempt": 1, "number": number, "metrics": {"loss": number}, **fields}


def ends(trial: str, **others: Any) -> dict[str, Any]:
    return {"type": "status", "trial": trial, "status": "TERMINATED", **others}


def write(path: Path, *entries: dict[str, Any]) -> list[int]:
    """Add these records to a journal, and return where each begins, in bytes."""
    begins = []
    with path.open("ab") as file:
        for entry in entries:
            begins.append(file.tell())
            body = json.dumps(entry, separators=(",", ":")).encode()
            file.write(b"%08x %b\n" % (zlib.crc32(body), body))
    return begins


def numbers(path: Path, **wanted: Any) -> list[tuple[str, int]]:
    """Trial and number of the results that a reader needs."""
    places = journal.index_of(path).spans(**wanted)
    found = [record for _, record in journal.pick(path, places)]
    assert [record["type"] for record in found if record["type"] != "result"] == ["run", "status", "status"]
    return [(record["trial"], record["number"]) for record in found if record["type"] == "result"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal of a trial whose end has a sum, and one without."""
    path = tmp_path / "journal"
    write(path, RUN, result("a", 1), result("b", 1), result("a", 2, reason="rung 1"), result("a", 3))
    write(path, ends("a", sum_of_results={"count": 3}), result("b", 2), ends("b"), result("a", 4))
    return path


def test_a_reader_needs_no_result_that_a_later_sum_covers(path: Path) -> None:
    assert numbers(path) == [("b", 1), ("b", 2), ("a", 4)]


def test_a_reader_of_decisions_needs_those_with_a_reason(path: Path) -> None:
    assert numbers(path, needs_decisions=True) == [("b", 1), ("a", 2), ("b", 2), ("a", 4)]


def test_a_plug_in_that_listens_from_an_offset_needs_the_results_of_trials_that_ended_later(path: Path) -> None:
    everything = [("a", 1), ("b", 1), ("a", 2), ("a", 3), ("b", 2), ("a", 4)]
    sum_begins = path.read_bytes().index(b'{"type":"status","trial":"a"') - journal_lines.BODY
    for offset in (1, sum_begins):
        assert numbers(path, until=offset) == everything
    assert numbers(path, until=path.stat().st_size) == [("b", 1), ("b", 2), ("a", 4)]


def test_a_result_that_no_reader_needs_is_checked(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"loss":3', b'"loss":5', 1))
    with pytest.raises(JournalCorruptError, match="bad line at byte"):
        journal.index_of(path)


def test_an_index_is_extended_by_new_lines_and_leaves_out_a_torn_one(path: Path) -> None:
    index = journal.index_of(path)
    end = path.stat().st_size
    assert (index.end, index.has_bad) == (end, False)
    (begin,) = write(path, ends("b", sum_of_results={"count": 2}))
    with path.open("ab") as file:
        file.write(b"0123")
    with path.open("rb") as journal_file:
        index.extend(journal_file)

    assert (index.end, index.has_bad) == (end + path.stat().st_size - begin - 4, True)
    found = [record for _, record in journal.pick(path, index.spans())]
    assert [(each["trial"], each["number"]) for each in found if each["type"] == "result"] == [("a", 4)]


def test_records_about_the_run_have_places_of_their_own(path: Path) -> None:
    (begin,) = write(path, {"type": "close", "reason": "finished"})
    found = list(journal.pick(path, journal.index_of(path).of_run))
    assert [(offset, record["type"]) for offset, record in found] == [(0, "run"), (begin, "close")]


def test_a_very_long_line_is_read_whole(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_lines, "_MOST_BYTES", 63)
    monkeypatch.setattr(journal_lines, "_LENGTH_BITS", 6)
    assert numbers(path) == [("b", 1), ("b", 2), ("a", 4)]


def test_a_journal_that_was_replaced_meanwhile_is_named(path: Path) -> None:
    places = journal.index_of(path).spans()
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(JournalCorruptError, match="was changed while it was read"):
        list(journal.pick(path, places))


def test_the_results_of_a_trial_are_all_found_in_order(path: Path) -> None:
    spans = journal.index_of(path).results()

    found = {trial: [record["number"] for _, record in journal.pick(path, spans[trial])] for trial in spans}
    assert found == {b"a": [1, 2, 3, 4], b"b": [1, 2]}


def test_a_line_whose_end_is_damaged_is_no_good_line(path: Path) -> None:
    whole = journal.index_of(path).end
    (begin,) = write(path, result("b", 3))
    path.write_bytes(path.read_bytes()[:-1] + b"x")

    assert begin == whole
    assert journal.index_of(path).end == begin
