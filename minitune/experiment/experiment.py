"""Experiment: a trainable, a space, and limits."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from minitune.error import TuneError
from minitune.experiment.trial import TrialMaker
from minitune.registry import get_trainable
from minitune.resources import Resources
from minitune.trainable.trainable import Trainable
from minitune.trainable.util import is_function_trainable, trainable_name, trainable_resources, validate_trainable


class Experiment:
    """What is to be evaluated: a trainable over a space.

    Args:
        trainable: A function, a `Trainable` subclass, or a registered name.
        param_space: The search space: a dict, None, or an object with `to_dict`.
        num_samples: How often the space is sampled; -1 means without end.
        resources_per_trial: What each trial needs, if the trainable does not say so itself.

    Raises:
        TuneError: If there is no trainable, or resources are asked for in two places.
        ValueError: If the space is none.
    """

    def __init__(
        self,
        trainable: Any,
        param_space: Any = None,
        *,
        num_samples: int = 1,
        resources_per_trial: Mapping[str, Any] | Resources | None = None,
    ):
        if trainable is None:
            raise TuneError("a trainable must be given: a function, a Trainable subclass, or a registered name")
        if isinstance(trainable, str):
            self.name = trainable
            try:
                trainable = get_trainable(trainable)
            except KeyError as error:
                raise TuneError(error.args[0]) from None
        else:
            self.name = trainable_name(trainable)
        validate_trainable(trainable)
        self.trainable = trainable
        self.param_space = as_space(param_space)
        self.num_samples = num_samples
        self.resources_per_trial = None if resources_per_trial is None else Resources.of(resources_per_trial)
        if self.resources_per_trial is not None and _declares_resources(trainable):
            raise TuneError(
                f"resources are given twice for {self.name}: by resources_per_trial and by the trainable itself; "
                "leave one of them out"
            )
        self.maker = TrialMaker(self.name, request=self.request)

    @property
    def is_function(self) -> bool:
        """Whether the trainable is a function rather than a class."""
        return is_function_trainable(self.trainable)

    @property
    def saves(self) -> bool:
        """Whether the trainable is a class that can be saved between two steps."""
        if self.is_function:
            return False
        saves: bool = self.trainable.save_checkpoint is not Trainable.save_checkpoint
        return saves

    @property
    def static_request(self) -> Resources | None:
        """What every trial needs, or None if it depends on the configuration."""
        if self.resources_per_trial is not None:
            return self.resources_per_trial
        declared = getattr(self.trainable, "resources", None)
        if callable(declared) or "default_resource_request" in _own_methods(self.trainable):
            return None
        return self.request({})

    def request(self, config: dict[str, Any]) -> Resources:
        """What a trial with this configuration needs."""
        if self.resources_per_trial is not None:
            return self.resources_per_trial
        return Resources.of(trainable_resources(self.trainable, config))


def _own_methods(trainable: Any) -> set[str]:
    """Names of the methods that a class overrides of `Trainable`; none for a function."""
    if not isinstance(trainable, type):
        return set()
    return {name for kind in trainable.__mro__ if not issubclass(Trainable, kind) for name in vars(kind)}


def _declares_resources(trainable: Any) -> bool:
    """Whether the trainable itself says what it needs."""
    if isinstance(trainable, type):
        return "default_resource_request" in _own_methods(trainable)
    return getattr(trainable, "resources", None) is not None


def as_space(param_space: Any) -> dict[str, Any]:
    """The search space as a dict of its own.

    Args:
        param_space: A dict, None, or an object with `to_dict`.

    Raises:
        ValueError: If it is none of these.
    """
    if param_space is None:
        return {}
    if not isinstance(param_space, Mapping) and hasattr(param_space, "to_dict"):
        param_space = param_space.to_dict()
    if not isinstance(param_space, Mapping):
        raise ValueError(f"param_space must be a dict, or an object with to_dict, but got {param_space!r}")
    return copy.copy(dict(param_space))
