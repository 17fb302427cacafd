"""Names of `ray.train` that only scripts for Ray Train use: its callback, and the errors of `fit` of a trainer."""

from minitune.trainers import TrainingFailedError, UserCallback

__all__ = ["ControllerError", "TrainingFailedError", "UserCallback", "WorkerGroupError"]

WorkerGroupError = ControllerError = TrainingFailedError
