"""Callback: the base class for user code that the driver calls during a run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from minitune.base.checks import of_class
from minitune.checkpoint import Checkpoint

if TYPE_CHECKING:
    from minitune.experiment.trial import Trial


class Callback:
    """Base class of callbacks. By default, every hook does nothing; override the hooks that you need.

    Hooks run in the driver's only thread, so they must not block. They get keyword arguments, and must accept further
    ones (`**info`). An exception in a hook ends the run. Store state under a `trial.trial_id`, and delete it when the
    trial ends.

    Examples:
        >>> class Shout(Callback):
        ...     def on_trial_result(self, iteration, trials, trial, result, **info):
        ...         print(trial, result["loss"])
    """

    def setup(
        self, stop: Any = None, num_samples: int | None = None, total_num_samples: int | None = None, **info: Any
    ) -> None:
        """Called before all other hooks, with the stop criterion, the samples, the expected number of trials, and more,
        such as `time_budget_s`.
        """

    def on_step_begin(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Called when a turn of the driver's loop, number `iteration`, begins."""

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Called when a turn ends; `iteration` is one higher than at its beginning."""

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Called when a trial's worker is ready, at every start, resume and retry. It is still PENDING."""

    def on_trial_restore(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Called after a trial has loaded a checkpoint."""

    def on_trial_save(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Called after a trial was asked to save, even if it saved nothing."""

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """Called for each result, after the scheduler and the searcher, and before the result becomes `last_result`.

        Args:
            iteration: The turn of the driver's loop.
            trials: All trials. Read-only.
            trial: The trial that reported, with a read-only `config`.
            result: A copy of the nested result, in which the hook may add and change metrics. What it removes is still
                recorded. `done` is True if the trial is about to end.
            **info: Further arguments.
        """

    def on_checkpoint(
        self, iteration: int, trials: list[Trial], trial: Trial, checkpoint: Checkpoint, **info: Any
    ) -> None:
        """Called when a checkpoint has arrived, before it becomes the trial's latest one."""

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Called when a trial finishes or is stopped, for any reason. Its status has not changed yet."""

    def on_trial_recover(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Called when a trial has failed and will be retried. Its status is PENDING."""

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Called when a trial has failed and will not be retried. Its status is ERROR."""

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        """Called at the very end: all workers have ended, and everything is saved."""

    def get_state(self) -> dict[str, Any] | None:
        """Return the state to save with the run, which must be picklable; None if there is none."""
        return None

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore what `get_state` returned, at a resume."""


def check_callbacks(callbacks: Iterable[Any]) -> list[Callback]:
    """Return the callbacks, which must be objects of `Callback`, as a new list."""
    checked = list(callbacks)
    for callback in checked:
        if not isinstance(callback, Callback):
            raise ValueError(f"callbacks must hold Callback objects, but got {callback!r}{of_class(callback)}")
    return checked
