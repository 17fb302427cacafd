"""Old forms of trainables: `train(config, checkpoint_dir=None)`, `train(config, reporter)`, classes with `_train`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from minitune.base.numbers import known_number
from minitune.base.text import warn_once
from minitune.experiment.trial_info import TrialInfo
from minitune.trainable.session import current_session, report

_OLD_METHODS = {
    "_setup": "setup",
    "_train": "step",
    "_save": "save_checkpoint",
    "_restore": "load_checkpoint",
    "_stop": "cleanup",
    "_log_result": "log_result",
    "_export_model": "export_model",
}
"""The methods that a class overrode before Ray 0.8.7, and their present names."""


_IS_CALLER = "calls_old_method"
"""Attribute of the methods that `use_old_methods` makes."""


class OldFunction:
    """A function with a parameter `checkpoint_dir` or `reporter` as a function of the configuration alone."""

    def __init__(self, function: Callable[..., Any], wanted: frozenset[str]):
        # First, since the attributes of a function with bound values would replace those of this object.
        functools.update_wrapper(self, function)
        self.function = function
        self._wanted = wanted

    def __call__(self, config: dict[str, Any]) -> Any:
        given: dict[str, Any] = {}
        session = current_session()
        if "checkpoint_dir" in self._wanted:
            start = None
            if session is not None:
                start = session.checkpoint
            # None is how such functions see that they start from the beginning.
            given["checkpoint_dir"] = start.path if start is not None else None
        if "reporter" in self._wanted:
            given["reporter"] = Reporter()
        return self.function(config, **given)


class Reporter:
    """The `reporter` of `train(config, reporter)`: calling it with keywords reports them."""

    def __call__(self, _metrics: dict[str, Any] | None = None, **metrics: Any) -> None:
        report(with_neg_mean_loss({**(_metrics or {}), **metrics}))

    @property
    def logdir(self) -> str:
        """The trial's directory."""
        return self._info().directory

    @property
    def trial_name(self) -> str:
        """The trial's name."""
        return self._info().name

    @property
    def trial_id(self) -> str:
        """The trial's id."""
        return self._info().trial_id

    def _info(self) -> TrialInfo:
        session = current_session()
        if session is None:
            raise RuntimeError("a reporter belongs to a trial, but this code runs outside of one")
        return session.info


def with_neg_mean_loss(metrics: dict[str, Any]) -> dict[str, Any]:
    """Add `neg_mean_loss` to metrics with a `mean_loss`: old schedulers could only maximise."""
    loss = known_number(metrics.get("mean_loss"))
    if loss is not None:
        return {**metrics, "neg_mean_loss": metrics.get("neg_mean_loss", -loss)}
    return metrics


def use_old_methods(kind: Any, base: Any) -> None:
    """Add the present methods to a class that defines `_train` instead of `step`, for the old ones. If the class
    defines `step` itself, `_train` is its own helper.
    """
    # A subclass of a class that was adapted before has the adapted `step`, and its own `_train` comes first.
    if not (kind.step is base.step or getattr(kind.step, _IS_CALLER, False)):
        return
    for old, new in _OLD_METHODS.items():
        if hasattr(kind, old) and getattr(kind, new, None) is getattr(base, new, None):
            setattr(kind, new, _caller_of(old, getattr(kind, old)))
    warn_once(f"{kind.__name__} defines _train and the like, old names: use step, setup, save_checkpoint")


def _caller_of(old: str, function: Callable[..., Any]) -> Callable[..., Any]:
    takes_only_self = len(inspect.signature(function).parameters) == 1  # as `_setup` did before Ray 0.5

    def method(self: Any, *args: Any) -> Any:
        value = getattr(self, old)(*(() if takes_only_self else args))
        if old == "_train" and isinstance(value, dict):
            return with_neg_mean_loss(value)
        return value

    setattr(method, _IS_CALLER, True)
    return method
