"""TuneReportCheckpointCallback: reports what Lightning logs, and saves checkpoints of the trainer.

The other names are those of `ray.train.lightning`, for one process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from minitune.base.checks import shown
from minitune.base.text import warn_once
from minitune.checkpoint import Checkpoint
from minitune.integration._metrics import Wanted, names_wanted
from minitune.trainable.session import checkpoint_dir, report

try:
    from lightning.pytorch import Callback
except ModuleNotFoundError:  # its older name
    from pytorch_lightning import Callback


class TuneCallback(Callback):
    """Base class of callbacks for some of Lightning's hooks, named without `on_`. Override `handle`.

    Raises:
        ValueError: If there is no such hook.
    """

    def __init__(self, on: str | Sequence[str] = "validation_end"):
        hooks = [on] if isinstance(on, str) else list(on)
        known = sorted(name.removeprefix("on_") for name in dir(Callback) if name.startswith("on_"))
        if not set(hooks) <= set(known):
            raise ValueError(f"on must be among {', '.join(known)}, but got {shown(on)}")
        super().__init__()
        for hook in hooks:
            setattr(self, f"on_{hook}", self._handle)

    def _handle(self, trainer: Any, pl_module: Any = None, *arguments: Any, **keywords: Any) -> None:
        """Ray Tune's hook, which subclasses in scripts override."""
        if not trainer.sanity_checking:
            self.handle(trainer)

    def handle(self, trainer: Any) -> None:
        """Handle a hook. It is not called while Lightning only checks that the validation works."""
        raise NotImplementedError(f"{type(self).__name__} must override handle()")


class TuneReportCheckpointCallback(TuneCallback):
    """Reports the logged metrics and saves the trainer's state; pass it in `callbacks` of the `Trainer`.

    Args:
        metrics: The metrics to report, or a dict from the reported name to the library's name; by default all. A metric
            that Lightning has not logged yet is left out.
        filename: The name of the file in a checkpoint.
        save_checkpoints: Whether to make checkpoints.
        on: When to report: the name of one or several of Lightning's hooks, without `on_`.

    Raises:
        TypeError: If `metrics` has the wrong type.
        ValueError: If there is no such hook.
    """

    def __init__(
        self,
        metrics: Wanted = None,
        filename: str = "checkpoint",
        save_checkpoints: bool = True,
        on: str | Sequence[str] = "validation_end",
    ):
        super().__init__(on)
        self._names = names_wanted(metrics)
        self._filename = filename
        self._saves = save_checkpoints

    def handle(self, trainer: Any) -> None:
        """Report the metrics if Lightning has logged any."""
        metrics = self._get_report_dict(trainer)
        if metrics:
            with self._get_checkpoint(trainer) as checkpoint:
                report(metrics, checkpoint)

    def _get_report_dict(self, trainer: Any, pl_module: Any = None) -> dict[str, float] | None:
        """The metrics that Lightning has logged; for subclasses in scripts None while it only checks itself."""
        if trainer.sanity_checking:
            return None
        logged = trainer.callback_metrics
        names = self._names or {name: name for name in logged}
        for name in names.values():
            if name not in logged:
                warn_once(f"Lightning has logged no metric {name!r}; it is left out of the reports")
        return {told: logged[name].item() for told, name in names.items() if name in logged}

    @contextmanager
    def _get_checkpoint(self, trainer: Any) -> Iterator[Checkpoint | None]:
        """A checkpoint of the trainer's state, for a report in the `with` block; for subclasses in scripts."""
        if not self._saves:
            yield None
            return
        with checkpoint_dir() as directory:
            trainer.save_checkpoint(os.path.join(directory, self._filename))
            yield Checkpoint(directory)


class TuneReportCallback(TuneReportCheckpointCallback):
    """Reports the logged metrics, without checkpoints; pass it in `callbacks` of the `Trainer`.

    The arguments are those of `TuneReportCheckpointCallback`, and so are the errors.
    """

    def __init__(self, metrics: Wanted = None, on: str | Sequence[str] = "validation_end"):
        super().__init__(metrics, save_checkpoints=False, on=on)
