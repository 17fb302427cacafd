"""TuneReportCallback: reports in a trial what a training reports that the trial has started with `fit` of a trainer.

A trainer of this package has its driver in the trial's process, and calls `on_trial_result` there. With
`executor="ray"`, a trainer of Ray Train calls `after_report` in an actor of its own. From there it calls the trial's
actor, where the report is made, and waits until the driver has it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from minitune.error import TrialStopped
from minitune.experiment.callback import Callback
from minitune.result import CHECKPOINT_DIR_NAME, own_metrics
from minitune.trainable.session import current_session, report

if TYPE_CHECKING:
    from minitune.experiment.trial import Trial

try:
    from ray.train.v2.api.callback import UserCallback
except ImportError:

    class UserCallback:  # type: ignore[no-redef]  # where Ray is missing
        """Stands for the base class of Ray's callbacks where Ray is missing."""


CHECKPOINT_PATH_KEY = "checkpoint_path"
"""The metric with the path of a checkpoint of the training."""


class TuneReportCallback(Callback, UserCallback):
    """Reports the metrics of a training. Pass it in `RunConfig(callbacks=[...])` of a trainer, in a function trainable.

    A checkpoint of the training stays where the training has put it. Its path is the metric `checkpoint_path`.

    Raises:
        RuntimeError: If it is made outside of a trial.
    """

    def __init__(self) -> None:
        if current_session() is None:
            raise RuntimeError("TuneReportCallback must be made in a trial, in the function that calls fit()")
        self._actor = _actor_of_trial()

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """Report the loop's metrics in the trial; called by a trainer of this package. Blocks until the driver has
        them.
        """
        found = own_metrics(result)
        if result.get(CHECKPOINT_DIR_NAME):
            found[CHECKPOINT_PATH_KEY] = os.path.join(str(trial.path), result[CHECKPOINT_DIR_NAME])
        report(found)

    def after_report(self, run_context: Any, metrics: list[dict[str, Any]], checkpoint: Any) -> None:
        """Report the first worker's metrics in the trial; called by a trainer of Ray. Blocks until the driver has
        them.
        """
        found = dict(metrics[0])
        if checkpoint is not None:
            found[CHECKPOINT_PATH_KEY] = checkpoint.path
        if self._actor is None:
            report(found)
            return
        import ray

        from minitune.ray.cluster.actor import REPORTS

        call = self._actor.__ray_call__.options(concurrency_group=REPORTS)
        if not ray.get(call.remote(_report_in_trial, found)):
            # As Ctrl-C does. After an error of a callback, Ray Train would begin again.
            ray.get_runtime_context().current_actor.abort.remote()


def _actor_of_trial() -> Any:
    """The Ray actor that is this process; None if it is no actor."""
    if UserCallback.__module__.startswith("minitune."):  # Ray itself is not here
        return None
    import ray

    return ray.get_runtime_context().current_actor if ray.is_initialized() else None


def _report_in_trial(actor: object, metrics: dict[str, Any]) -> bool:
    """Report in the trial's process. Returns whether the trial may go on."""
    try:
        report(metrics)
    except TrialStopped:
        return False
    return True
