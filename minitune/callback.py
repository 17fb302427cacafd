"""Callback: what a user's code can hear of a run."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from minitune.base.checks import of_class
from minitune.checkpoint import Checkpoint
from minitune.settings import setting, variable_of

if TYPE_CHECKING:
    from minitune.experiment.trial import Trial


class Callback:
    """Base class of callbacks. Every hook does nothing; override those that you need.

    Hooks run in the driver's only thread and must not block: while one works, no trial is served. They get keyword
    arguments, and have to accept more than those named here (`**info`). An exception ends the experiment. State that
    belongs to a trial is best kept by `trial.trial_id` and dropped when the trial ends.

    Example:
        >>> class Shout(Callback):
        ...     def on_trial_result(self, iteration, trials, trial, result, **info):
        ...         print(trial, result["loss"])
    """

    def setup(
        self, stop: Any = None, num_samples: int | None = None, total_num_samples: int | None = None, **info: Any
    ) -> None:
        """Emitted once, before everything else.

        Args:
            stop: The stop criterion as the user gave it.
            num_samples: Repetitions of the search space.
            total_num_samples: Trials that are to be expected in all.
            **info: More, `time_budget_s` among it.
        """

    def on_step_begin(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Emitted when a turn of the driver's loop begins; `iteration` counts turns."""

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Emitted when a turn of the driver's loop ends; `iteration` is one higher than at its beginning."""

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Emitted when a trial's worker is ready, still PENDING: at every start, resume and retry."""

    def on_trial_restore(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Emitted when a trial has loaded a checkpoint."""

    def on_trial_save(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Emitted when a trial was told to save, even if there was nothing to keep."""

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """Emitted for each result, after scheduler and searcher have seen it, before it becomes `last_result`.

        Args:
            iteration: Turn of the driver's loop.
            trials: All trials.
            trial: The trial that reported.
            result: Its result, nested, which may be changed; `done` is set if the trial is about to end.
            **info: More to come.
        """

    def on_checkpoint(
        self, iteration: int, trials: list[Trial], trial: Trial, checkpoint: Checkpoint, **info: Any
    ) -> None:
        """Emitted when a checkpoint has arrived, before it is registered with the trial."""

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Emitted when a trial has finished or is stopped, for any reason; its status is still the one before."""

    def on_trial_recover(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Emitted when a trial has failed and will be tried again; it is PENDING."""

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Emitted when a trial has failed for good; its status is ERROR."""

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        """Emitted at the very end: all workers are gone, everything is saved."""

    def how_to_show(self) -> str | None:
        """The command that shows what the callback has written, for the end of a run's output; None for nothing."""
        return None

    def get_state(self) -> dict[str, Any] | None:
        """The state to save with the run, as a value that can be pickled; None if there is none."""
        return None

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over what `get_state` returned, when a run is resumed."""


HOOKS = (
    "setup",
    "on_step_begin",
    "on_step_end",
    "on_trial_start",
    "on_trial_restore",
    "on_trial_save",
    "on_trial_result",
    "on_checkpoint",
    "on_trial_complete",
    "on_trial_recover",
    "on_trial_error",
    "on_experiment_end",
)
"""The hooks that a run calls."""


def check_callbacks(callbacks: Iterable[Any]) -> list[Callback]:
    """The callbacks as a list of their own.

    Raises:
        ValueError: If one of them is no `Callback` object.
    """
    checked = list(callbacks)
    for callback in checked:
        if isinstance(callback, type) and issubclass(callback, Callback):
            raise ValueError(
                f"callbacks must hold Callback objects, but got the class {callback!r}{of_class(callback)}"
            )
        if not isinstance(callback, Callback):
            raise ValueError(f"callbacks must hold Callback objects, but got {callback!r}")
    return checked


def environment_callbacks() -> list[Callback]:
    """New callbacks of the classes that the setting `CALLBACKS` names, as `module.Class`, separated by commas.

    Raises:
        ValueError: If one cannot be imported or made, or is no callback; the text names the variable.
    """
    paths = [path.strip() for path in setting("CALLBACKS").split(",")]
    return [_make(path) for path in paths if path]


def _make(path: str) -> Callback:
    module, _, name = path.rpartition(".")
    try:
        if not module:
            raise ValueError("the module of the class is missing")
        made = getattr(importlib.import_module(module), name)()
        if not isinstance(made, Callback):
            raise TypeError("it is not a subclass of Callback")
    except Exception as error:
        raise ValueError(
            f"{variable_of('CALLBACKS')} must name callback classes that need no argument, as module.Class, but "
            f"{path!r} could not be used ({type(error).__name__}: {error})"
        ) from error
    return made
