"""Resources: what a trial asks for, as one or several bundles; Allocation: what it was given.

Amounts are logical: they admit trials, they do not limit what a process uses. The names are Ray Tune's: `CPU`, `GPU`,
`memory` (bytes), and any other name for a custom resource.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral, Real
from typing import Any

from minitune._alias import submodules
from minitune.base.checks import shown

__getattr__ = submodules(__name__)

CPU = "CPU"
GPU = "GPU"
MEMORY = "memory"

_CANONICAL = {"cpu": CPU, "gpu": GPU, "memory": MEMORY}


_SHARED_LIMIT = 1000


class Resources:
    """A request: the sum of its bundles is reserved at once or not at all. Ray Tune's `PlacementGroupFactory`.

    Args:
        bundles: One dict per bundle, such as `[{"CPU": 1}, {"CPU": 2, "GPU": 1}]`. The first is the trainable's own;
            it may be empty when only its children need resources. Zero amounts are dropped.
        strategy: Accepted for Ray Tune's signature; on one machine there is nothing to place.
        *args: Likewise.
        **kwargs: Likewise.

    Raises:
        ValueError: If there is no bundle, or an amount is negative or not a number, or a resource is named twice in
            one bundle, or a bundle asks for more than one GPU and not for whole ones.
    """

    __slots__ = ("_hash", "_total", "bundles", "head_bundle_is_empty", "strategy")

    def __init__(self, bundles: Sequence[Mapping[str, float]], strategy: str = "PACK", *args: Any, **kwargs: Any):
        if not isinstance(bundles, Iterable) or isinstance(bundles, (str, Mapping)):
            raise ValueError(f"bundles must be a list of dicts such as [{{'CPU': 1}}], but got {shown(bundles)}")
        if not bundles:
            raise ValueError("bundles must hold at least one bundle, but got an empty list; use [{}] for an empty head")
        self._take([_clean(bundle) for bundle in bundles], strategy)

    def _take(self, bundles: list[dict[str, float]], strategy: str) -> None:
        self.bundles = bundles
        self.strategy = strategy
        self.head_bundle_is_empty = not self.bundles[0]
        total: dict[str, float] = {}
        for bundle in self.bundles:
            for name, amount in bundle.items():
                total[name] = total.get(name, 0) + amount
        self._total = total
        self._hash = hash(tuple(tuple(sorted(bundle.items())) for bundle in self.bundles))

    @classmethod
    def of(cls, request: Resources | Mapping[str, Any] | None) -> Resources:
        """Understand what users write.

        Args:
            request: A Resources, or a dict such as `{"cpu": 1, "gpu": 0.5, "custom_resources": {"tokens": 2}}`, or
                None for the default of one CPU.

        Returns:
            The request.

        Raises:
            ValueError: If it is neither, or holds a bad amount.
        """
        if isinstance(request, Resources):
            return request
        if request is None:
            return cls([{CPU: 1}])
        if not isinstance(request, Mapping):
            raise ValueError(
                f"resources must be a dict such as {{'cpu': 1}} or a PlacementGroupFactory, but got {request!r}"
            )
        return cls([request])

    def shared(self) -> Resources:
        """An equal request, one and the same for all who ask: the trials of a large run need but a few."""
        if len(_shared) >= _SHARED_LIMIT:
            _shared.clear()
        return _shared.setdefault((repr(self.bundles), self.strategy), self)

    @property
    def required_resources(self) -> dict[str, float]:
        """The sum over all bundles, by resource name."""
        return dict(self._total)

    @property
    def head_cpus(self) -> float:
        """CPUs of the first bundle."""
        return self.bundles[0].get(CPU, 0.0)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Resources) and self.bundles == other.bundles

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"PlacementGroupFactory({self.bundles!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _checked, (self.bundles, self.strategy)


def _checked(bundles: list[dict[str, float]], strategy: str) -> Resources:
    """A request whose bundles have been checked before: every worker unpickles some."""
    resources = Resources.__new__(Resources)
    resources._take(bundles, strategy)
    return resources


_shared: dict[tuple[str, str], Resources] = {}
"""By their text, requests that trials share."""


def _clean(bundle: Mapping[str, Any]) -> dict[str, float]:
    """One bundle with canonical names, custom resources unfolded and zeros dropped."""
    if not isinstance(bundle, Mapping):
        raise ValueError(f"a bundle must be a dict such as {{'CPU': 1}}, but got {bundle!r}")
    clean: dict[str, float] = {}
    for name, amount in _unfold(bundle):
        if name in clean:
            raise ValueError(f"a bundle must name a resource once, but got {name!r} twice in {bundle!r}")
        clean[name] = _check_amount(name, amount)
    return {name: amount for name, amount in clean.items() if amount}


def _unfold(bundle: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The pairs of a bundle, those of its `custom_resources` among them, under canonical names."""
    pairs: list[tuple[str, Any]] = []
    for name, amount in bundle.items():
        if not isinstance(name, str):
            raise ValueError(f"the name of a resource must be a string, but got {name!r}")
        if name != "custom_resources":
            pairs.append((_CANONICAL.get(name.lower(), name), amount))
        elif isinstance(amount, Mapping):
            pairs.extend(_unfold(amount))
        elif amount is not None:
            raise ValueError(f"custom_resources must be a dict such as {{'tokens': 2}}, but got {amount!r}")
    return pairs


def _check_amount(name: str, amount: Any) -> float:
    """The amount as a plain int or float: numbers of other libraries (numpy's) are welcome, but not kept."""
    if not isinstance(amount, Real) or isinstance(amount, bool):
        raise ValueError(f"the amount of resource {name!r} must be a number, but got {amount!r}")
    plain = float(amount)
    if not 0 <= plain < math.inf:
        raise ValueError(f"expected 0 <= amount < infinity for resource {name!r}, but got {amount!r}")
    if name == GPU and plain > 1 and not plain.is_integer():
        raise ValueError(
            f"a GPU amount above 1 must be whole, but got {amount!r}; ask for {math.ceil(plain)}, or for a fraction in "
            "a bundle of its own"
        )
    return int(amount) if isinstance(amount, Integral) else plain


@dataclass(frozen=True)
class GpuShare:
    """A device, or a fraction of one, that a bundle holds.

    Attributes:
        id: The device's id as `CUDA_VISIBLE_DEVICES` takes it: an index or a UUID.
        fraction: Between 0 (exclusive) and 1.
    """

    id: str
    fraction: float


@dataclass(frozen=True)
class BundleAllocation:
    """The resources that one bundle of a trial has.

    Attributes:
        resources: Amounts by name.
        gpus: The devices.
        env: Environment variables for a child process that is to work within this bundle: its devices and its
            thread caps.
    """

    resources: Mapping[str, float]
    gpus: tuple[GpuShare, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def cpus(self) -> float:
        """CPUs of this bundle."""
        return self.resources.get(CPU, 0.0)

    @property
    def gpu_ids(self) -> tuple[str, ...]:
        """Ids of the devices of this bundle."""
        return tuple(share.id for share in self.gpus)


@dataclass(frozen=True)
class Allocation:
    """The resources that a trial has.

    Attributes:
        bundles: One per bundle of its request, in the same order.
        env: Environment variables for the trial's own process, to be set before any user code is imported. It sees all
            devices of the trial, and has the threads of the first bundle.
    """

    bundles: tuple[BundleAllocation, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def gpu_ids(self) -> tuple[str, ...]:
        """Ids of all devices of the trial, each once."""
        found: dict[str, None] = {}
        for bundle in self.bundles:
            if bundle.gpus:
                found.update(dict.fromkeys(bundle.gpu_ids))
        return tuple(found)


PlacementGroupFactory = Resources
"""The name by which users of Ray Tune know a request for resources."""
