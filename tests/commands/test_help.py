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


@pytest.mark.parametrize("beginning", ["s", "re"])
def test_a_beginning_of_several_pages_is_a_word_to_find(beginning, capsys):
    assert printed(capsys, beginning).startswith(f"{beginning!r} is in these sections; ")


def test_of_many_places_twenty_are_shown_and_the_others_counted(capsys):
    _, *places, last = printed(capsys, "the").splitlines()
    assert len(places) == 20
    assert last.startswith("  and ")
    assert last.endswith(" more")


def test_a_word_is_found_in_capitals_and_in_small_letters(capsys):
    assert printed(capsys, "SLURM").splitlines()[1:] == printed(capsys, "slurm").splitlines()[1:]


def test_a_word_is_found_with_headings_first(capsys):
    lines = printed(capsys, "slurm").splitlines()
    assert lines[1].split() == ["recipes", "Slurm"]
    assert ["index", "How do I"] in [line.split(maxsplit=1) for line in lines[2:]]


def test_a_word_is_found_only_where_a_word_begins(capsys):
    places = [line.split() for line in printed(capsys, "ci").splitlines()[1:]]
    assert places[0] == ["testing", "Testing", "and", "CI"]
    assert ["scikit-learn", "scikit-learn"] not in places


@pytest.mark.parametrize(
    ("word", "place"),
    [
        ("multi-objective", "search Several objectives"),
        ("pareto", "search Several objectives"),
        ("pruner", "schedulers Schedulers"),
        ("jupyter", "recipes A notebook"),
        ("dataframe", "results Attributes of a `ResultGrid`"),
        ("concurrent", "resources Limit what a run uses"),
        ("parallelism", "resources Limit what a run uses"),
        ("cancel", "stopping The run"),
        ("hydra", "recipes Hydra"),
        ("OOM", "debugging What goes wrong, and what you see"),
        ("unpicklable", "mistakes A variable cannot be pickled"),
        ("nested", "spaces The domains"),
        ("xgboost", "recipes XGBoost"),
        ("lightgbm", "recipes LightGBM"),
    ],
)
def test_the_words_of_other_libraries_are_found(word, place, capsys):
    assert place in [" ".join(line.split()) for line in printed(capsys, word).splitlines()]


def test_words_need_not_stand_beside_each_other(capsys):
    assert "resources GPUs" in [" ".join(line.split()) for line in printed(capsys, "memory", "quarter").splitlines()]


def test_a_comment_in_an_example_is_no_section(capsys):
    assert "  pytorch  A training loop" in printed(capsys, "load_state_dict").splitlines()


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


def test_sections_are_listed_with_those_first_that_have_more_of_the_words(monkeypatch, capsys):
    pages = {
        "b-page": "# Title\nAlpha beta.\n## Beta\nalpha\n",
        "a": "# Other\nalpha, alpha, beta\n```\n# no alpha heading\n```\n"
        "## Alpha Beta\nx\n## Alphabet\nx_beta\nxbeta\n",
        "c": "# Gamma\nalpha\n",
    }
    monkeypatch.setattr("minitune.commands.manual.read_pages", lambda: pages)
    assert printed(capsys, "alpha", "beta").splitlines() == [
        "'alpha beta' is in these sections; `minitune help PAGE` shows a page:",
        "  a       Alpha Beta",
        "  a       Alphabet",
        "  b-page  Beta",
        "  a       Other",
        "  b-page  Title",
    ]
    assert printed(capsys, "b") == pages["b-page"]
    assert printed(capsys, "B", "Page") == pages["b-page"]
