"""Where runs are written, and what becomes of it."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that `workspace` takes."""
    parser.add_argument("--directory", type=Path, help="where runs are written; new (default: a temporary directory)")
    parser.add_argument(
        "--clean", action="store_true", help="delete it at the end: what is measured soon after is slower then"
    )


@contextmanager
def workspace(options: argparse.Namespace) -> Iterator[Path]:
    """The directory for all runs of a command. It is left where it is, unless its deletion is asked for.

    On ext4, files are slow to create after many were deleted: to clean up after one measurement spoils the next one.
    """
    if options.directory is None:
        directory = Path(tempfile.mkdtemp(prefix="benchmarks-"))
    else:
        directory = options.directory.absolute()
        directory.mkdir(parents=True)
    try:
        yield directory
    finally:
        if options.clean:
            shutil.rmtree(directory)
        else:
            print(f"what the runs have written is in {directory}", file=sys.stderr)
