"""Names that old trainables import: `TrainingResult` and others."""

from __future__ import annotations

from typing import Any

from minitune.trainable.session import current_session
from minitune.utils import date_str as date_str


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
