"""The files of a trial with its configuration: `params.json` for people and other tools, and `params.pkl`.

Nothing of ours reads them: the journal has each configuration.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from minitune.base import files
from minitune.base.json_text import pretty
from minitune.base.pickling import dumps
from minitune.result import EXPR_PARAM_FILE, EXPR_PARAM_PICKLE_FILE

logger = logging.getLogger("minitune")


def write_parameters(directory: str, config: dict[str, Any]) -> None:
    """Write a configuration to `params.json`, and to `params.pkl` if JSON does not hold it exactly. Blocks.

    Large values are stored in separate files: short texts in `params.json`, references in `params.pkl`.
    """
    text, is_exact = pretty(config)
    is_new = files.write_again(f"{directory}{os.sep}{EXPR_PARAM_FILE}", text.encode("ascii"))
    pickle_path = f"{directory}{os.sep}{EXPR_PARAM_PICKLE_FILE}"
    if is_exact:
        if not is_new:  # otherwise there was no earlier configuration
            files.remove_file(pickle_path)
        return
    try:
        data = dumps(config, "the configuration")
    except TypeError as error:
        logger.debug("%s has no params.pkl: %s", directory, error)
        files.remove_file(pickle_path)
        return
    # Only the owner may write it: a user who can write a pickle can run code in the process that loads it.
    files.write_again(pickle_path, data, files.BLOB_MODE)
