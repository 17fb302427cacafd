"""CompletedResult: a result with its configuration, as loggers get it, and its JSON, which is made once.

The journal and `result.json` have the same values in the same order, with other separators: the journal has the trial's
tag in place of its configuration. In the JSON of a value, a line break or a tab never stands by itself. So these two
separate items and keys at first, and are replaced by the separators of each file.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from minitune.base.json_text import MAX_DEPTH, json_chunks, keeps_types, shortened, try_chunks
from minitune.result import CONFIG, EXPERIMENT_TAG, complete

_MARK = os.urandom(16).hex()  # in no text of a user
_CONFIG = f'\n"{CONFIG}"\t'
_TAG = f'\n"{EXPERIMENT_TAG}"\t'
_chunks = json_chunks(separators=("\n", "\t"))


class ResultText(NamedTuple):
    """The JSON of a result: its metrics for the journal, and its line in `result.json`."""

    metrics: str
    line: str


class CompletedResult(dict[str, Any]):
    """A completed result that only loggers of this package get, which do not change it.

    Args:
        metrics: The result without its configuration.
        config: The configuration of the attempt.
        config_text: Its JSON, from `text_of_config`.
        tag: The trial's experiment tag.

    Attributes:
        text: The JSON of a plain result; None if `json_text.dumps` and `codec.encode` have to replace a part of it.
    """

    __slots__ = ("text",)

    def __init__(self, metrics: dict[str, Any], config: dict[str, Any], config_text: str | None, tag: str):
        super().__init__(complete(metrics, config))
        self.text: ResultText | None = None
        if config_text is None or EXPERIMENT_TAG in self or self[CONFIG] is not config:
            return
        marked = {**self, CONFIG: _MARK, EXPERIMENT_TAG: tag}
        if not keeps_types(marked):
            return
        try:
            text = "".join(_chunks(marked, 0))
        except ValueError:  # NaN, infinities, or integers that Python does not print
            return
        # Two surrogates in a row would be read as one character, and the key $ as a tag.
        if "\\ud" in text or '"$"' in text:
            return
        head, mark, rest = text.partition(f'{_CONFIG}"{_MARK}"')
        if not mark:  # the result has nothing but its configuration
            return
        tail = rest[: rest.rindex(_TAG)]
        for_journal = (head + rest).replace("\n", ",").replace("\t", ":")
        head = head.replace("\n", ", ").replace("\t", ": ")
        tail = tail.replace("\n", ", ").replace("\t", ": ")
        self.text = ResultText(for_journal, f'{head}, "{CONFIG}": {config_text}{tail}}}\n')


def text_of_config(config: dict[str, Any]) -> str | None:
    """A configuration as JSON for `result.json`; None if `json_text.dumps` has to replace a part of it."""
    if type(config) is not dict:
        return None
    try:
        text = "".join(try_chunks(shortened(config), 0))
    except Exception:  # NaN, infinities, or any error of an object in the configuration
        return None
    # So many brackets may be so deep that a reader refuses them; then deep values become text.
    if text.count("[") + text.count("{") >= MAX_DEPTH:
        return None
    return text
