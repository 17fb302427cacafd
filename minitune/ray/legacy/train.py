"""Names of `ray.train` that only scripts for Ray Train use: the errors of `fit`, and the upload mode."""

from enum import Enum

from minitune.ray.trainers import TrainingFailedError

__all__ = ["CheckpointUploadMode", "ControllerError", "TrainingFailedError", "WorkerGroupError"]

WorkerGroupError = ControllerError = TrainingFailedError


class CheckpointUploadMode(Enum):
    """When Ray Train copies a checkpoint. In each mode, `report` returns when this package has copied it."""

    ASYNC = "ASYNC"
    SYNC = "SYNC"
    NO_UPLOAD = "NO_UPLOAD"
