"""The directory for the files of all runs."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that `workspace` reads."""
    parser.add_argument("--directory", type=Path, help="a new directory for all files (default: a temporary one)")
    parser.add_argument(
        "--clean", action="store_true", help="delete it at the end, which slows down measurements of the next minutes"
    )


@contextmanager
def workspace(options: argparse.Namespace) -> Iterator[Path]:
    """Make the directory for all runs of a command. It stays unless --clean is given; `compare.py` says why."""
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
            print(f"the files of the runs are in {directory}", file=sys.stderr)
