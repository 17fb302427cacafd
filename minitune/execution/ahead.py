"""A head start: the process that workers are copied from comes up while its driver still gets ready.

A module of its own, which loads little: the executor comes later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from minitune.actor.launch import new_run_id
from minitune.actor.launch import search_path as search_path
from minitune.actor.start_method import start_method

if TYPE_CHECKING:
    from minitune.actor.template import Template as Template


@contextmanager
def start_ahead(keep_descendants: bool, needed: Sequence[str]) -> Iterator[Template | None]:
    """Start it, and see at the end that it is gone.

    Args:
        keep_descendants: See `LocalTrialExecutor`.
        needed: The same.

    Yields:
        The process, for `LocalTrialExecutor`; None where workers are not copied, and where it cannot be started, which
        is told when the first worker is.

    Raises:
        ValueError: See `start_method`.
    """
    template = None
    if start_method() == "zygote":
        from minitune.actor.template import Template

        with suppress(OSError):
            template = Template(new_run_id(), keep_descendants, needed)
    try:
        yield template
    finally:
        if template is not None:
            template.drop()
