"""The path under which users of Ray know the errors of trials."""

from minitune.error import ObjectLostError
from minitune.error import TrialError as RayTaskError
from minitune.error import TuneError as RayError
from minitune.error import WorkerDiedError as RayActorError
from minitune.error import WorkerDiedError as WorkerCrashedError

__all__ = ["ObjectLostError", "RayActorError", "RayError", "RayTaskError", "WorkerCrashedError"]
