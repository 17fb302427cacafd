"""The files of a trial with its configuration: `params.json` for people and other tools, and `params.pkl`.

Nothing of ours reads them: the journal has each configuration.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from minitune.base import files
from minitune.base.json_text import pretty, shortened
from minitune.base.pickling import dumps_small
from minitune.result import EXPR_PARAM_FILE, EXPR_PARAM_PICKLE_FILE

logger = logging.getLogger("minitune")

_LARGEST_PICKLE_BYTES = 1_000_000
"""Not measured: with more, large data in the search space is written once for each trial."""


def write_parameters(directory: str, config: dict[str, Any]) -> None:
    """Write a configuration to `params.json`, and to `params.pkl` if JSON does not hold it exactly. Blocks.

    `params.json` has short texts in place of large values. A larger pickle is not written.
    """
    short = shortened(config)
    text, is_exact = pretty(short)
    is_new = files.write_again(f"{directory}{os.sep}{EXPR_PARAM_FILE}", text.encode("ascii"))
    pickle_path = f"{directory}{os.sep}{EXPR_PARAM_PICKLE_FILE}"
    if is_exact and short is config:
        if not is_new:  # otherwise there was no earlier configuration
            files.remove_file(pickle_path)
        return
    try:
        data = dumps_small(config, "the configuration", _LARGEST_PICKLE_BYTES)
    except TypeError as error:
        logger.debug("%s has no params.pkl: %s", directory, error)
        data = None
    if data is None:
        files.remove_file(pickle_path)
        return
    # Only the owner may write it: a user who can write a pickle can run code in the process that loads it.
    files.write_again(pickle_path, data, files.BLOB_MODE)
