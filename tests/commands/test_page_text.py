"""Pages of the manual as text for a terminal."""

from __future__ import annotations

import re

import pytest

from minitune.commands.manual import read_pages
from minitune.commands.page_text import page_text

PAGES = read_pages()


def plain(text: str) -> str:
    """The text without bold and underlined characters."""
    return re.sub(r".\x08", "", text)


def bold(text: str) -> str:
    return "".join(character if character == " " else f"{character}\b{character}" for character in text)


def shown(markdown: str, width: int = 40) -> list[str]:
    return page_text(markdown, width).splitlines()


# -- parts -------------------------------------------------------------------------------------------------------------
def test_headings_and_important_words_are_bold_and_terms_underlined() -> None:
    assert shown("# The `ls` command") == [bold("The `ls` command")]
    assert shown("a **great\nthing** is") == [f"a {bold('great thing')} is"]
    assert shown("a *run* has") == ["a _\br_\bu_\bn has"]


def test_code_is_left_as_it_is() -> None:
    assert shown("`a ** b` and `[x](y)` and 2 ** 3 * 4", 24) == ["`a ** b` and `[x](y)`", "and 2 ** 3 * 4"]
    assert shown("```python\nx = '**a**'\n\n# no heading\n```") == ["    x = '**a**'", "", "    # no heading"]


def test_a_link_is_its_text_and_an_address_elsewhere_is_kept() -> None:
    assert shown("see [the\nseeds](seeds.md#a)") == ["see the seeds"]
    assert shown("see [Ray](https://docs.ray.io)") == ["see Ray (https://docs.ray.io)"]


def test_a_paragraph_and_an_item_are_broken_at_the_width() -> None:
    assert shown("one two\nthree\n\nfour", 10) == ["one two", "three", "", "four"]
    assert shown("* one two\n  three four\n* five\n\n10. six seven", 12) == [
        "* one two",
        "  three four",
        "* five",
        "10. six",
        "    seven",
    ]


def test_the_columns_of_a_table_are_aligned_and_the_widest_gives_way() -> None:
    table = "| name | what |\n|---|---|\n| `a` | **one** two three four |\n| bcd | a \\| b |"
    assert [plain(line) for line in shown(table, 20)] == [
        "name  what",
        "`a`   one two",
        "      three four",
        "bcd   a | b",
    ]
    assert shown("| a | |\n|---|---|\n| unbreakable | b |", 4)[1] == "unbreakable  b"
    assert shown("| | |\n|---|---|\n| a | b |") == ["a  b"]


# -- the manual --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", sorted(PAGES))
@pytest.mark.parametrize("width", [60, 100])
def test_no_page_has_marks_left_and_none_lacks_a_word(name: str, width: int) -> None:
    text = plain(page_text(PAGES[name], width))
    marks = re.compile(r"\]\(|^#|^\|---|\*\*[a-z]|[a-z.]\*\*", re.MULTILINE | re.IGNORECASE)
    code = re.compile(r"^    .*$|`[^`]*`", re.MULTILINE)

    assert marks.findall(code.sub("", text)) == []
    source = re.sub(r"\]\([^)]*\)", "]", PAGES[name])
    words = re.findall(r"\w+", re.sub(r"^```\w*$|^\|[-|]+\|$", "", source, flags=re.MULTILINE))
    assert sorted(re.findall(r"\w+", re.sub(r"\(https?:[^)]*\)", "", text))) == sorted(words)


@pytest.mark.parametrize("name", sorted(PAGES))
def test_lines_of_a_page_keep_to_the_width_unless_a_table_has_long_words(name: str) -> None:
    prose = re.sub(r"^```.*?^```$|^\|[^\n]*$", "", PAGES[name], flags=re.DOTALL | re.MULTILINE)
    assert max(map(len, plain(page_text(prose, 100)).splitlines())) <= 100
