"""start_ahead: the process that workers are copied from comes up while its driver still gets ready.

A driver calls it before it loads the executor, so this module loads little.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from minitune.actor.launcher import new_run_id
from minitune.actor.launcher import start_method as start_method

if TYPE_CHECKING:
    from minitune.actor.template import Template


@contextmanager
def start_ahead(keep_descendants: bool, needed: Sequence[str]) -> Iterator[Template | None]:
    """Start the process that workers are copied from, and drop it when the block ends.

    Args:
        keep_descendants: See `LocalTrialExecutor`.
        needed: The same.

    Yields:
        The process, for `LocalTrialExecutor`. None where workers are not copied; also if it cannot be started: the
        start of the first worker tells why.

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
