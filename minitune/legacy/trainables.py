"""Names that old trainables import: `checkpoint_dir`, `TrainingResult` and others."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from minitune.base.text import warn_once
from minitune.trainable.session import current_session, warn_outside


@contextmanager
def checkpoint_dir(step: int | float | None = None) -> Iterator[str]:
    """Give a directory to a `with` block, and make a checkpoint of the files that the block writes there.

    The checkpoint counts if the block ends without an error. It belongs to the next `report()`. If the function makes
    another checkpoint before that, or returns, the first one is recorded alone. The directory is renamed when the block
    ends, so do not keep its path.

    Args:
        step: Any number. It has no effect, because the order of checkpoints gives their numbers.

    Raises:
        TrialStopped: If the trial is to stop.
        OSError: If the directory cannot be made.
        ValueError: If it contains something other than files, directories and links.
    """
    session = current_session()
    if session is None or session.hand_over is None:
        if session is None:
            warn_outside("checkpoint_dir")
        else:
            warn_once("checkpoint_dir() does nothing in a class trainable: define save_checkpoint() instead")
        with tempfile.TemporaryDirectory() as directory:
            yield directory
        return
    with session.making_checkpoint() as directory:
        yield directory


def is_session_enabled() -> bool:
    """Whether the calling code runs in a trial."""
    return current_session() is not None


def TrainingResult(**metrics: Any) -> dict[str, Any]:
    """The result of a class in the first versions of Ray Tune, as the present dict of metrics."""
    return {name: value for name, value in metrics.items() if value is not None}


class ExportFormat:
    """Formats for the export of models. This package exports no models: write the model into a checkpoint."""

    CHECKPOINT = "checkpoint"
    H5 = "h5"
    MODEL = "model"
    ONNX = "onnx"
