"""`minitune help`: the pages of the manual in a terminal."""

from __future__ import annotations

import pytest
from manual_pages import MANUAL

from minitune.commands import cli


def printed(capsys, *arguments):
    assert cli.main(["help", *arguments]) == 0
    return capsys.readouterr().out


def test_a_page_is_shown_as_it_is_written(capsys):
    for page in MANUAL.glob("*.md"):
        assert printed(capsys, page.stem) == page.read_text(encoding="utf-8")


def test_without_a_subject_it_shows_the_index(capsys):
    assert printed(capsys) == printed(capsys, "index")


def test_a_page_can_be_named_by_its_first_letters_or_in_words(capsys):
    assert printed(capsys, "sched") == printed(capsys, "schedulers")
    assert printed(capsys, "how", "it", "works") == printed(capsys, "how-it-works")


@pytest.mark.parametrize(
    ("words", "page"),
    [
        (["s"], "schedulers"),
        (["SLURM"], "recipes"),
        (["ci"], "testing"),
        (["multi-objective"], "search"),
        (["pareto"], "search"),
        (["pruner"], "schedulers"),
        (["jupyter"], "recipes"),
        (["dataframe"], "results"),
        (["concurrent"], "resources"),
        (["parallelism"], "resources"),
        (["cancel"], "stopping"),
        (["hydra"], "recipes"),
        (["OOM"], "debugging"),
        (["unpicklable"], "mistakes"),
        (["xgboost"], "recipes"),
        (["memory", "quarter"], "resources"),
    ],
)
def test_words_also_of_other_libraries_are_found(words, page, capsys):
    title, *pages = printed(capsys, *words).splitlines()
    assert title == f"{' '.join(words)!r} is in these pages; `minitune help PAGE` shows one:"
    assert f"  {page}" in pages


def test_on_a_terminal_a_pager_shows_a_page(monkeypatch, capsys):
    shown = []
    monkeypatch.setattr("pydoc.pager", shown.append)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert printed(capsys, "sched") == ""
    assert shown == [(MANUAL / "schedulers.md").read_text(encoding="utf-8")]


def test_a_word_that_no_page_has_is_told_with_the_pages(capsys):
    assert cli.main(["help", "nosuchword"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("minitune: no page of the manual has 'nosuchword'; the pages are ")
    assert err.count(", ") == len(list(MANUAL.glob("*.md"))) - 1
