"""TuneReportCallback: reports what Ray Train's workers report, in the trial that has started them.

Ray Train calls the callback in an actor of its own. From there it calls the trial's actor, where the report is made,
and waits until the driver has it.
"""

from __future__ import annotations

from typing import Any

import ray
from ray.train.v2.api.callback import UserCallback

from minitune.error import TrialStopped
from minitune.executors.ray_actor import REPORTS
from minitune.trainable.session import current_session, report

CHECKPOINT_PATH_KEY = "checkpoint_path"
"""The metric with the path of a checkpoint of Ray Train."""


class TuneReportCallback(UserCallback):
    """Reports the first worker's metrics. Pass it in `ray.train.RunConfig(callbacks=[...])`, in a function trainable.

    A checkpoint of Ray Train stays where Ray Train has put it. Its path is the metric `checkpoint_path`.

    Raises:
        RuntimeError: If it is made outside of a trial of a run with `executor="ray"`.
    """

    def __init__(self) -> None:
        if current_session() is None or not ray.is_initialized():
            raise RuntimeError("TuneReportCallback must be made in a trial of a run with executor='ray'")
        self._trial = ray.get_runtime_context().current_actor

    def after_report(self, run_context: Any, metrics: list[dict[str, Any]], checkpoint: Any) -> None:
        """Report the first worker's metrics in the trial; called by Ray Train. Blocks until the driver has them."""
        found = dict(metrics[0])
        if checkpoint is not None:
            found[CHECKPOINT_PATH_KEY] = checkpoint.path
        call = self._trial.__ray_call__.options(concurrency_group=REPORTS)
        if not ray.get(call.remote(_report_in_trial, found)):
            # As Ctrl-C does. After an error of a callback, Ray Train would begin again.
            ray.get_runtime_context().current_actor.abort.remote()


def _report_in_trial(actor: object, metrics: dict[str, Any]) -> bool:
    """Report in the trial's process. Returns whether the trial may go on."""
    try:
        report(metrics)
    except TrialStopped:
        return False
    return True
