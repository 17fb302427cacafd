"""Tables and other parts of views: as text for terminals, and as HTML with the same columns and cells for notebooks.

Cells hold users' values: their length is limited, HTML is escaped, and a `__str__` that raises does no harm. The HTML
loads nothing, and takes its colours from the page.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

from minitune.base.checks import is_real
from minitune.base.text import ShortRepr, colored, is_long, number_text, one_line, plain_number, printable, width_of

# A cell looks at only so many characters, at the end of a text.
_MAX_CELL = 100_000
# The maximum number of values in a curve, evenly chosen.
_MAX_DOTS = 500
# The size of a curve, and the space for its scales, in pixels.
_WIDTH = 520
_HEIGHT = 150
_LEFT = 70
_BOTTOM = 18

_STYLE = (
    "<style>"
    ".minitune{font-size:13px;line-height:1.5}"
    ".minitune table{border-collapse:collapse;margin:6px 0;color:inherit;font-size:inherit;"
    "font-variant-numeric:tabular-nums}"
    ".minitune th,.minitune td{padding:2px 10px;text-align:left;white-space:nowrap;background:none;"
    "border:0;border-bottom:1px solid rgba(128,128,128,.3)}"
    ".minitune .number{text-align:right}"
    ".minitune .title{font-weight:normal;font-style:italic;padding-top:8px}"
    ".minitune .line{white-space:pre-wrap}"
    ".minitune .error{white-space:pre-wrap;border-left:3px solid #d9534f;padding-left:8px}"
    ".minitune .head{font-weight:bold}"
    ".minitune .bar{display:flex;height:8px;width:30em;max-width:100%}"
    ".minitune .bar{border-radius:4px;background:rgba(128,128,128,.3)}"
    ".minitune .bar div{height:100%;border-radius:4px;background:#2a9d5c}"
    ".minitune .bar .light{opacity:.45}"
    "</style>"
)

Part: TypeAlias = "str | Table"
"""A part of a view: a line, or a table."""


def format_cell(value: Any, max_length: int) -> str:
    """A value as one short line of at most `max_length` characters: numbers in full as in `number_text`, only the end
    of a long text; None is empty.
    """
    if value is None:
        return ""
    try:
        value = plain_number(value)
        if isinstance(value, float):
            return number_text(value)
        if isinstance(value, str):
            text = value[-_MAX_CELL:]
        elif is_long(value) or type(value) in _CONTAINERS:
            text = _ROUNDED.repr(value)
        else:
            text = str(value)
        text = " ".join(text.split())
    except Exception:  # an object of the user's
        text = f"<{type(value).__name__}>"
    if len(text) <= max_length or isinstance(value, int):
        return text
    return "..." + text[3 - max_length :]


class _Rounded(ShortRepr):
    """Shows floats as `number_text` does."""

    def repr_float(self, value: float, level: int) -> str:
        return number_text(value)


_CONTAINERS = frozenset((list, tuple, dict))
_ROUNDED = _Rounded(members=20)


def short_repr(value: Any) -> str:
    """The `repr` of a value on one line, shortened if it is large, with rounded numbers."""
    return " ".join(_ROUNDED.repr(value).split())


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        max_length: The most characters of a cell, at least those of the header.
        least: The minimum width in a terminal, which keeps it while digits change.
        colors: The colours of the values, see `colored`.
    """

    header: str
    values: Sequence[Any]
    max_length: int = 20
    least: int = 0
    colors: Sequence[str] = ()

    @cached_property
    def texts(self) -> list[str]:
        """The header and the cells."""
        limit = max(self.max_length, len(self.header))
        return [one_line(self.header), *(one_line(format_cell(value, limit)) for value in self.values)]

    @cached_property
    def width(self) -> int:
        """The width in a terminal."""
        return max(self.least, *map(width_of, self.texts))

    @cached_property
    def is_number(self) -> bool:
        """Whether all values are numbers; NumPy's count as well."""
        return all(is_real(value) for value in self.values if value is not None)

    def padded(self, aligns_right: bool, has_color: bool = False) -> list[str]:
        """The texts, all of the same width."""
        spaces = [" " * (self.width - width_of(text)) for text in self.texts]
        texts = self.texts
        if has_color and self.colors:
            texts = [texts[0], *map(colored, texts[1:], self.colors)]
        pairs = zip(spaces, texts, strict=True)
        return [space + text if aligns_right else text + space for space, text in pairs]


@dataclass(frozen=True)
class Table:
    """Rows under headers, for a terminal, a file or a notebook.

    Attributes:
        ranking: The positions of the columns, the most important first; a narrow terminal lacks the last ones. If it is
            empty, all are shown.
    """

    columns: Sequence[Column]
    ranking: Sequence[int] = ()
    titles: Mapping[int, str] = field(default_factory=dict)
    is_framed: bool = True

    def narrowed(self, width: int | None) -> tuple[Table, list[str]]:
        """Return the table with the columns that fit, and the headers of those that do not."""
        if self.is_framed:
            space = 3
            left = (width or 0) - 1
        else:
            space = 2  # the last column needs none
            left = (width or 0) + 2
        if width is None or not self.ranking or sum(column.width + space for column in self.columns) <= left:
            return self, []
        shown: list[int] = []
        for c in self.ranking:
            if self.columns[c].width + space > left and shown:
                break
            left -= self.columns[c].width + space
            shown.append(c)
        left_out = [column.header for c, column in enumerate(self.columns) if c not in shown]
        return replace(self, columns=[self.columns[c] for c in sorted(shown)], ranking=()), left_out

    def lines(self, has_color: bool = False) -> list[str]:
        """The table as text."""
        begin = ""
        end = ""
        between = "  "
        if self.is_framed:
            begin = "| "
            between = " | "
            end = " |"
        aligned = [column.padded(self.is_framed and column.is_number, has_color) for column in self.columns]
        lines = [f"{begin}{between.join(cells)}{end}".rstrip() for cells in zip(*aligned, strict=True)]
        for position in sorted(self.titles, reverse=True):
            lines.insert(position + 1, self.titles[position])
        if not self.is_framed:
            return lines
        rule = "+".join("-" * (column.width + 2) for column in self.columns)
        return [f"+{rule}+", lines[0], f"|{rule}|", *lines[1:], f"+{rule}+"]

    def html(self) -> str:
        """The table as HTML, with all its columns."""
        kinds = [' class="number"' if column.is_number else "" for column in self.columns]
        rows = []
        for position, cells in enumerate(zip(*(column.texts for column in self.columns), strict=True)):
            if position - 1 in self.titles:
                title = _escaped(self.titles[position - 1])
                rows.append(f'<tr><th class="title" colspan="{len(cells)}">{title}</th></tr>')
            tag = "td" if position else "th"
            pairs = zip(kinds, cells, strict=True)
            rows.append(f"<tr>{''.join(f'<{tag}{kind}>{_escaped(cell)}</{tag}>' for kind, cell in pairs)}</tr>")
        return f"<table><thead>{rows[0]}</thead><tbody>{''.join(rows[1:])}</tbody></table>"


def left_out_line(count: int, where: str = "") -> list[Part]:
    """A line that shows how many rows are left out, and where they are; empty if none are."""
    if count > 0:
        return [f"... {count:,} more{f': {where}' if where else ''}"]
    return []


def as_text(parts: Iterable[Part], width: int | None = None, has_color: bool = False) -> str:
    """A view as text that is safe to print. `width` is the maximum width of its tables; None means no limit."""
    lines: list[str] = []
    for part in parts:
        if isinstance(part, Table):
            table, left_out = part.narrowed(width)
            lines += table.lines(has_color)
            if left_out:
                lines.append(f"(no space for: {', '.join(left_out)})")
        else:
            lines.append(printable(part))
    return "\n".join(lines)


def as_html(parts: Iterable[Part], *more: str) -> str:
    """A view as HTML, followed by `more`, which is HTML already. Lines are escaped and keep their spaces."""
    shown = (part.html() if isinstance(part, Table) else line_as_html(part) for part in parts)
    return f'{_STYLE}<div class="minitune">{"".join(shown)}{"".join(more)}</div>'


def _escaped(text: str) -> str:
    from html import escape  # takes 3 ms to import, and a terminal needs none

    return escape(text)


def line_as_html(text: str, kind: str = "line") -> str:
    """One or more lines as HTML. The kind is `line`, `head` or `error`."""
    return f'<div class="{kind}">{_escaped(text)}</div>'


def bar(done: float, begun: float) -> str:
    """A progress bar as HTML. `done` is the part that is done, and `begun` includes what is being done, from 0 to 1."""
    full = 100 * min(1.0, max(0.0, done))
    light = 100 * min(1.0, max(done, begun)) - full
    return (
        f'<div class="bar"><div style="width:{full:.1f}%"></div>'
        f'<div class="light" style="width:{light:.1f}%"></div></div>'
    )


def curve(values: Sequence[tuple[float, float]], metric: str, mode: str) -> str:
    """An SVG picture, as HTML: a dot for each (number, value) pair, and a line for the best value so far; empty if
    fewer than two are finite.

    Values that are much worse than most are drawn at the edge.
    """
    values = [(x, y) for x, y in values if math.isfinite(y)]
    if len(values) < 2:
        return ""
    better = min if mode == "min" else max
    best = values[0][1]
    steps = []
    for x, y in values:
        if y == better(y, best):
            best = y
            steps.append((x, y))
    heights = sorted((y for _, y in values), reverse=mode == "max")
    worst = heights[-1]
    middle = heights[len(heights) // 2]
    if abs(worst - best) > 5 * abs(middle - best) > 0:
        worst = best + 5 * (middle - best)
    low = min(best, worst)
    high = max(best, worst)
    first = values[0][0]
    last = values[-1][0]

    def across(x: float) -> float:
        return _LEFT + 6 + (x - first) / ((last - first) or 1) * (_WIDTH - _LEFT - 12)

    def down(y: float) -> float:
        return 8 + (high - min(high, max(low, y))) / ((high - low) or 1) * (_HEIGHT - _BOTTOM - 16)

    shown = values[:: -(-len(values) // _MAX_DOTS)]
    dots = "".join(f'<circle cx="{across(x):.1f}" cy="{down(y):.1f}" r="2.5"/>' for x, y in shown)
    path = f"M{across(steps[0][0]):.1f} {down(steps[0][1]):.1f}"
    path += "".join(f"H{across(x):.1f}V{down(y):.1f}" for x, y in steps[1:]) + f"H{across(last):.1f}"
    scale = "".join(
        f'<text x="{x}" y="{y}" text-anchor="{anchor}">{_escaped(format_cell(value, 12))}</text>'
        for x, y, anchor, value in (
            (_LEFT - 4, 12, "end", high),
            (_LEFT - 4, _HEIGHT - _BOTTOM, "end", low),
            (_LEFT, _HEIGHT - 4, "start", first),
            (_WIDTH, _HEIGHT - 4, "end", last),
        )
    )
    title = line_as_html(f"{metric} of each trial, and the best so far")
    return (
        f'{title}<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'font-size="11" style="max-width:100%"><g fill="currentColor">{scale}</g>'
        f'<path d="M{_LEFT} 4V{_HEIGHT - _BOTTOM}H{_WIDTH}" fill="none" stroke="currentColor" stroke-opacity=".4"/>'
        f'<g fill="currentColor" fill-opacity=".4">{dots}</g>'
        f'<path d="{path}" fill="none" stroke="#2a9d5c" stroke-width="2"/></svg>'
    )
