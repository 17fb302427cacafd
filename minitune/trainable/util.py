"""The preparation of trainables before they run: values and resources bound to them, names, checks."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from minitune.base.shared_values import Handle, ObjectRef
from minitune.resources import Resources
from minitune.trainable.function_runner import old_parameters
from minitune.trainable.trainable import Trainable

if TYPE_CHECKING:
    from minitune.config import RunConfig

DEFAULT_NAME = "DEFAULT"
"""Name of a trainable that has none."""

ResourceRequest = Resources | Mapping[str, Any] | Callable[[dict[str, Any]], Any]
"""The types that `with_resources` accepts."""


class BoundFunction:
    """A function with values and resources bound to it; made by `with_parameters` and `with_resources`.

    Attributes:
        handles: The bound values, stored once per run and loaded at the call.
        resources: A request, a function of the configuration, or None.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        parameters: Mapping[str, Any] | None = None,
        handles: Mapping[str, Handle] | None = None,
        resources: ResourceRequest | None = None,
    ):
        self.function = function
        self.parameters = dict(parameters or {})
        self.handles = dict(handles or {})
        self.resources = resources
        self.__name__ = trainable_name(function)
        self.__doc__ = getattr(function, "__doc__", None)
        self.__wrapped__ = function

    @property
    def is_program(self) -> bool:
        """Whether it runs a command."""
        return getattr(self.function, "is_program", False)

    @property
    def run_config(self) -> RunConfig | None:
        """The config of a `Tuner` that gets none."""
        return None

    def space(self, param_space: Any) -> Any:
        """The `param_space` of a `Tuner` in the form that the function takes; trainers change it."""
        return param_space

    @property
    def __signature__(self) -> inspect.Signature | None:
        """The parameters that are not bound, for `inspect.signature`; None if the function has no signature."""
        bound = functools.partial(self.function, **self.parameters, **self.handles)
        try:
            signature = inspect.signature(bound)
        except (TypeError, ValueError):
            return None
        free = [each for each in signature.parameters.values() if each.name not in bound.keywords]
        return signature.replace(parameters=free)

    def __call__(self, config: dict[str, Any], **others: Any) -> Any:
        return self.function(config, **self.parameters, **_load(self.handles), **others)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.function!r}>"


def with_parameters(trainable: Any, **kwargs: Any) -> Any:
    """Bind large values to a trainable; they are stored once per run, and each trial gets them.

    Args:
        trainable: A function, called as `fn(config, **kwargs)`, or a Trainable subclass, set up as `setup(config,
            **kwargs)`.
        **kwargs: The values, or references of `put` to them. A later call replaces a value of the same name. A trial
            may write to large arrays, which no other trial sees; treat all other values as read-only.

    Returns:
        A new trainable of the same name and resources; the given one does not change.

    Raises:
        ValueError: If `trainable` is not a trainable, or the function does not take these keywords.
    """
    if isinstance(trainable, type):
        trainable = _trainable_class(trainable, ValueError)
        return _subclass(trainable, **_rebound(*_bound(trainable), kwargs))
    bound = _as_bound(trainable)
    wrapped = BoundFunction(
        bound.function, **_rebound(bound.parameters, bound.handles, kwargs), resources=bound.resources
    )
    _check_signature(wrapped, is_complete=False)
    return wrapped


def with_resources(trainable: Any, resources: ResourceRequest) -> Any:
    """Set the resources of each trial of a trainable; returns a new trainable.

    Args:
        trainable: A function or a Trainable subclass.
        resources: A dict such as `{"cpu": 2, "gpu": 0.5}`, a PlacementGroupFactory, or a function that returns one for
            a configuration.

    Raises:
        ValueError: If `trainable` is not a trainable, or `resources` is not a request.
    """
    if resources is None:
        raise ValueError("resources must be a dict, a PlacementGroupFactory or a function of the config, but got None")
    # A function is asked for each configuration. A fixed request is checked now, where the user wrote it.
    request = resources if callable(resources) else Resources.of(resources)
    if isinstance(trainable, type):
        trainable = _trainable_class(trainable, ValueError)
        own, handles = _bound(trainable)
        return _subclass(trainable, parameters=own, handles=handles, resources=request)
    bound = _as_bound(trainable)
    return BoundFunction(bound.function, bound.parameters, bound.handles, request)


def bind_parameters(trainable: Any, share: Callable[[Any], Handle]) -> Any:
    """Store the values of `with_parameters` once, by `share`, and return a copy of the trainable with handles. May
    block.

    Raises:
        TypeError: If a value cannot be pickled.
    """
    if isinstance(trainable, type):
        own, handles = _bound(trainable)
        if not own:
            return trainable
        shared = {name: share(value) for name, value in own.items()}
        return _subclass(_trainable_class(trainable, TypeError), parameters={}, handles={**handles, **shared})
    if not isinstance(trainable, BoundFunction) or not trainable.parameters:
        return trainable
    shared = {name: share(value) for name, value in trainable.parameters.items()}
    return BoundFunction(trainable.function, {}, {**trainable.handles, **shared}, trainable.resources)


# -- questions ---------------------------------------------------------------------------------------------------------


def trainable_name(trainable: Any) -> str:
    """Return the name of a trainable, for display and for the names of trials and runs."""
    if isinstance(trainable, str):
        return trainable
    for attribute in ("_name", "__name__"):
        name = getattr(trainable, attribute, None)
        if isinstance(name, str) and name:
            return "lambda" if name == "<lambda>" else name
    if isinstance(trainable, functools.partial):
        return trainable_name(trainable.func)
    return DEFAULT_NAME


def trainable_resources(trainable: Any, config: dict[str, Any]) -> Resources | None:
    """The trainable's resources for this configuration; None if it sets none.

    Raises:
        ValueError: If the user's function returned no request.
    """
    request: Any = None
    if isinstance(trainable, type):
        if issubclass(trainable, Trainable):
            request = trainable.default_resource_request(config)
    else:
        # A wrapper made with `functools.wraps` keeps the resources of what it wraps.
        bound = inspect.unwrap(trainable, stop=_has_resources)
        if isinstance(bound, BoundFunction):
            request = bound.resources
        if callable(request):
            request = request(config)
    if request is None:
        return None
    return Resources.of(request)


def _has_resources(trainable: Any) -> bool:
    return isinstance(trainable, BoundFunction) and trainable.resources is not None


def validate_trainable(trainable: Any) -> None:
    """Refuse an object that cannot be a trainable.

    Raises:
        TypeError: If it is neither callable nor a Trainable subclass.
        ValueError: If it cannot be called with only the configuration.
    """
    if isinstance(trainable, type):
        _trainable_class(trainable, TypeError)
        return
    _check_signature(_as_bound(trainable, TypeError), is_complete=True)


def _check_signature(bound: BoundFunction, is_complete: bool) -> None:
    """Refuse a function that cannot be called with its arguments."""
    names = {**bound.parameters, **bound.handles}
    try:
        signature = inspect.signature(bound.function)
    except (TypeError, ValueError):
        return  # a built-in function without a signature: only the call can show it
    name = trainable_name(bound)
    try:
        if is_complete:
            signature.bind({}, **names, **dict.fromkeys(old_parameters(bound)))
        else:
            signature.bind_partial({}, **names)
    except TypeError as error:
        keywords = "".join(f", {keyword}=..." for keyword in names)
        lacks = "missing" in str(error)
        if lacks:
            way_out = "bind the other arguments with with_parameters()"
            if len(signature.parameters) == 2 and not names:
                way_out += "; one that reports must have the name reporter"
        else:
            way_out = "make the function take these parameters"
        raise ValueError(
            f"a trainable function must be callable as {name}(config{keywords}), but its signature is {signature}: "
            f"{error}; {way_out}"
        ) from None


# -- classes -----------------------------------------------------------------------------------------------------------


def _subclass(
    trainable: type[Trainable],
    *,
    parameters: Mapping[str, Any],
    handles: Mapping[str, Handle],
    resources: Resources | Callable[[dict[str, Any]], Any] | None = None,
) -> type[Trainable]:
    """A subclass of the user's class with the same name, and values and resources bound to it.

    Binding again starts from `_tune_base`, so that wrappers do not pile up.
    """
    base: type[Trainable] = vars(trainable).get("_tune_base", trainable)
    if resources is None:
        resources = vars(trainable).get("_tune_resources")

    def setup(self: Trainable, config: dict[str, Any]) -> None:
        base.setup(self, config, **parameters, **_load(handles))

    def default_resource_request(cls: type[Trainable], config: dict[str, Any]) -> Any:
        return resources(config) if callable(resources) else resources

    body: dict[str, Any] = {
        "_tune_base": base,
        "_tune_parameters": dict(parameters),
        "_tune_handles": dict(handles),
        "_tune_resources": resources,
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        "__doc__": base.__doc__,
    }
    if parameters or handles:
        body["setup"] = setup
    if resources is not None:
        body["default_resource_request"] = classmethod(default_resource_request)
    return types.new_class(base.__name__, (base,), exec_body=lambda namespace: namespace.update(body))


def _bound(trainable: type) -> tuple[dict[str, Any], dict[str, Handle]]:
    """Values and handles bound to a class itself; `super().setup` passes those of a base class."""
    own = vars(trainable)
    return own.get("_tune_parameters", {}), own.get("_tune_handles", {})


def _as_bound(function: Any, error: type[Exception] = ValueError) -> BoundFunction:
    if not callable(function):
        raise error(
            f"trainable must be a function or a Trainable subclass, but got {function!r:.200}{way_to_class(function)}"
        )
    if isinstance(function, BoundFunction):
        return function
    return BoundFunction(function)


def _rebound(parameters: Mapping[str, Any], handles: Mapping[str, Handle], new: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords `parameters` and `handles` with `new` values; references of `put` are handles."""
    references = {name: value for name, value in new.items() if isinstance(value, ObjectRef)}
    # A name is bound once: a new value takes the place of an old handle of that name, and the other way round.
    values = {name: value for name, value in {**parameters, **new}.items() if name not in references}
    older = {name: handle for name, handle in handles.items() if name not in new}
    return {"parameters": values, "handles": {**older, **references}}


def _load(handles: Mapping[str, Handle]) -> dict[str, Any]:
    return {name: handle.get() for name, handle in handles.items()}


def way_to_class(value: Any) -> str:
    """A hint if an object was passed instead of its class; else empty."""
    if isinstance(value, Trainable):
        return f"; pass the class itself: {type(value).__name__}"
    return ""


def _trainable_class(trainable: type, error: type[Exception]) -> type[Trainable]:
    if not issubclass(trainable, Trainable):
        raise error(
            f"a class must be a subclass of Trainable to be tuned, but {trainable.__qualname__} is not; "
            "subclass minitune.Trainable, or pass a function that uses the class"
        )
    return trainable
