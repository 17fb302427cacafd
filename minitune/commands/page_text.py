"""A page of the manual as text for a terminal, from the Markdown that the manual uses.

Headings and important words are bold. Bold is a character over itself, as in the pages of `man`: pagers show it, and
`pydoc` removes it for terminals that cannot.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from minitune.base.text import width_of

_LINK = re.compile(r"`[^`]*`|!?\[([^\]]*)\]\(([^)]*)\)")
"""Code, in which there is none; or a link or a picture."""
_MARKED = re.compile(r"`[^`]*`|\*\*(.+?)\*\*|(?<![\w*])\*(\S(?:[^*]*?\S)?)\*(?![\w*])", re.DOTALL)
"""Code, in which nothing is marked; or important words; or a term."""
_ITEM = re.compile(r"(\* |\d+\. )")
_CELLS_END = re.compile(r"(?<!\\)\|")
_BETWEEN = "  "


def page_text(markdown: str, width: int) -> str:
    """The text of a page in lines of at most `width` columns, except for code."""
    lines: list[str] = []
    was_item = False
    for block in _blocks(markdown):
        is_item = _ITEM.match(block[0]) is not None
        if lines and not (is_item and was_item):
            lines.append("")
        lines += _lines(block, width)
        was_item = is_item
    return "\n".join(lines) + "\n"


def _blocks(markdown: str) -> Iterator[list[str]]:
    """The lines of each heading, paragraph, item, table and piece of code."""
    block: list[str] = []
    for line in markdown.splitlines():
        in_code = bool(block) and block[0].startswith("```")
        if in_code:
            block.append(line)
            if line == "```":
                yield block
                block = []
            continue
        begins = line.startswith(("#", "```")) or _ITEM.match(line) or not line
        if block and (begins or block[0].startswith("#") or line.startswith("|") != block[0].startswith("|")):
            yield block
            block = []
        if line:
            block.append(line)
    if block:
        yield block


def _lines(block: list[str], width: int) -> list[str]:
    first = block[0]
    if first.startswith("```"):
        return [f"    {line}".rstrip() for line in block[1:-1]]
    if first.startswith("#"):
        return [_bold(_without_links(first.lstrip("# ")))]
    if first.startswith("|"):
        return _table(block, width)
    text = _without_links(" ".join(line.strip() for line in block))
    item = _ITEM.match(text)
    indent = " " * len(item[0]) if item else ""
    if item:
        text = text[len(item[0]) :]
    lines = textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
    found = _marked("\n".join(lines)).splitlines()
    if item and found:
        found[0] = item[0] + found[0][len(indent) :]
    return found


def _table(block: list[str], width: int) -> list[str]:
    """A table with aligned columns. Long cells are broken into lines."""
    rows = [
        [_without_links(cell.replace("\\|", "|").strip()) for cell in _CELLS_END.split(line.strip().strip("|"))]
        for line in block
    ]
    head = rows[0]
    body = rows[2:]  # the second row is the rule below the head
    columns = list(zip(head, *body, strict=True))
    widths = [max(map(_shown_width, column)) for column in columns]
    # A column cannot become narrower than its longest word. Of the others, the widest one gives way.
    words = [max((_shown_width(word) for cell in column for word in cell.split()), default=0) for column in columns]
    left = sum(widths) + len(_BETWEEN) * (len(widths) - 1) - width
    while left > 0 and widths != words:
        widest = max((c for c in range(len(widths)) if widths[c] > words[c]), key=widths.__getitem__)
        widths[widest] -= 1
        left -= 1
    lines = _row([f"**{cell}**" if cell else "" for cell in head], widths) if any(head) else []
    for row in body:
        lines += _row(row, widths)
    return lines


def _row(cells: list[str], widths: list[int]) -> list[str]:
    """The lines of a row of a table."""
    parts = []
    for cell, width in zip(cells, widths, strict=True):
        wrapped = textwrap.wrap(cell, max(1, width), break_on_hyphens=False, break_long_words=False)
        parts.append(_marked("\n".join(wrapped)).split("\n"))
    height = max(map(len, parts))
    lines = []
    for n in range(height):
        shown = [part[n] if n < len(part) else "" for part in parts]
        padded = [text + " " * (width - _shown_width(text)) for text, width in zip(shown, widths, strict=True)]
        lines.append(_BETWEEN.join(padded).rstrip())
    return lines


def _shown_width(text: str) -> int:
    """The columns that a text with marks, or with bold characters, takes."""
    plain = re.sub(r".\x08", "", text)
    return width_of(_MARKED.sub(lambda found: found[1] or found[2] or found[0], plain))


def _without_links(text: str) -> str:
    """The text with the texts of links only. A link to another place than a page of the manual keeps its address."""

    def shown(found: re.Match[str]) -> str:
        name = found[1]
        address = found[2]
        if name is None:
            return found[0]
        return f"{name} ({address})" if address.startswith("http") else name

    return _LINK.sub(shown, text)


def _marked(text: str) -> str:
    """The text with bold and underlined characters instead of marks."""

    def shown(found: re.Match[str]) -> str:
        if found[1]:
            return _bold(found[1])
        return _underlined(found[2]) if found[2] else found[0]

    return _MARKED.sub(shown, text)


def _bold(text: str) -> str:
    return "".join(_over(character, character) for character in text)


def _underlined(text: str) -> str:
    return "".join(_over("_", character) for character in text)


def _over(below: str, character: str) -> str:
    return character if character.isspace() else f"{below}\b{character}"
