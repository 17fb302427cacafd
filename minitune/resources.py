"""Resources: the request of a trial, as one or several bundles; Allocation: the resources that the trial received.

Amounts are logical: they limit how many trials run at a time. Names are Ray Tune's: `CPU`, `GPU`, `memory` (bytes), and
custom ones.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from minitune.base.checks import is_real, shown
from minitune.base.text import warn_once

CPU = "CPU"
GPU = "GPU"
MEMORY = "memory"

_LEAST_MEMORY_BYTES = 100_000
_CANONICAL = {"cpu": CPU, "gpu": GPU, "memory": MEMORY}


class Resources:
    """A resource request: Ray Tune's `PlacementGroupFactory`. All its bundles are reserved together or not at all.

    Args:
        bundles: One dict for each bundle, such as `[{"CPU": 1}, {"CPU": 2, "GPU": 1}]`. The first one is for the
            trainable's own process, and may be empty. Zero amounts are removed. Do not change them.
        strategy: How the bundles are spread over the nodes of a Ray cluster.

    Raises:
        ValueError: If there is no bundle, an amount is negative or not a number, a bundle names a resource twice, or
            requests more than one GPU but not a whole number.
    """

    __slots__ = ("__weakref__", "_total", "bundles", "head_bundle_is_empty", "strategy")

    bundles: list[dict[str, float]]
    strategy: str
    head_bundle_is_empty: bool
    _total: dict[str, float]

    def __new__(cls, bundles: Sequence[Mapping[str, float]], strategy: str = "PACK") -> Resources:
        """Check the arguments, and return the one object for this request."""
        if not isinstance(bundles, Iterable) or isinstance(bundles, (str, Mapping)):
            raise ValueError(f"bundles must be a list of dicts such as [{{'CPU': 1}}], but got {shown(bundles)}")
        if not bundles:
            raise ValueError("bundles must hold at least one bundle, but got an empty list; use [{}] for an empty head")
        return _checked([_clean(bundle) for bundle in bundles], strategy)

    @classmethod
    def of(cls, request: Resources | Mapping[str, Any] | None) -> Resources:
        """Convert a user's argument to a request.

        Args:
            request: A `Resources`, a dict such as `{"cpu": 1, "gpu": 0.5, "custom_resources": {"tokens": 2}}`, or None
                for one CPU.

        Raises:
            ValueError: If `request` has another type, or an amount is invalid.
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

    @property
    def required_resources(self) -> dict[str, float]:
        """The sum over all bundles, by resource name."""
        return dict(self._total)

    @property
    def head_cpus(self) -> float:
        """The number of CPUs of the first bundle."""
        return self.bundles[0].get(CPU, 0.0)

    @property
    def _bundles(self) -> list[dict[str, float]]:  # scripts for Ray read its private attribute
        return self.bundles

    def __repr__(self) -> str:
        return f"PlacementGroupFactory({self.bundles!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _checked, (self.bundles, self.strategy)

    def __copy__(self) -> Resources:
        return self

    def __deepcopy__(self, memo: Any) -> Resources:
        return self


# All requests that exist, by their content. Most trials of a run ask for the same.
_known: weakref.WeakValueDictionary[Any, Resources] = weakref.WeakValueDictionary()


def _checked(bundles: list[dict[str, float]], strategy: str) -> Resources:
    """The one object for checked bundles: every worker unpickles requests this way."""
    key = (tuple(frozenset(bundle.items()) for bundle in bundles), repr(strategy))
    resources = _known.get(key)
    if resources is None:
        resources = object.__new__(Resources)
        resources.bundles = bundles
        resources.strategy = strategy
        resources.head_bundle_is_empty = not bundles[0]
        total: dict[str, float] = {}
        for bundle in bundles:
            for name, amount in bundle.items():
                total[name] = total.get(name, 0) + amount
        resources._total = total
        _known[key] = resources
    return resources


def _clean(bundle: Mapping[str, Any]) -> dict[str, float]:
    """A bundle with canonical names, with `custom_resources` merged in, and without zero amounts."""
    if not isinstance(bundle, Mapping):
        raise ValueError(f"a bundle must be a dict such as {{'CPU': 1}}, but got {bundle!r}")
    clean: dict[str, float] = {}
    for name, amount in _unfold(bundle):
        if name in clean:
            raise ValueError(f"a bundle must name a resource once, but got {name!r} twice in {bundle!r}")
        clean[name] = _check_amount(name, amount)
    return {name: amount for name, amount in clean.items() if amount}  # no GPU is as 0 GPUs


def _unfold(bundle: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The (name, amount) pairs of a bundle and of its `custom_resources`, with canonical names."""
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
    """Check an amount, and convert it to an int or float: numpy's numbers are accepted but not stored."""
    if not is_real(amount):
        raise ValueError(f"the amount of resource {name!r} must be a number, but got {amount!r}")
    plain = float(amount)
    if not 0 <= plain < math.inf:
        raise ValueError(f"expected 0 <= amount < infinity for resource {name!r}, but got {amount!r}")
    if name == GPU and plain > 1 and not plain.is_integer():
        raise ValueError(
            f"a GPU amount above 1 must be whole, but got {amount!r}; ask for {math.ceil(plain)}, or for a fraction in "
            "a bundle of its own"
        )
    if name == MEMORY and 0 < plain < _LEAST_MEMORY_BYTES:
        warn_once(f"memory is counted in bytes, so {amount!r} is less than any process needs; 2e9 are 2 GB")
    if plain.is_integer():  # 1 and 1.0 are the same request
        return int(plain)
    return plain


class GpuShare(NamedTuple):
    """A device, or a fraction of one, that a bundle holds."""

    id: str
    fraction: float


class BundleAllocation(NamedTuple):
    """The resources that one bundle of a trial has.

    Attributes:
        env: For a child process of this bundle: its devices and its number of threads.
    """

    resources: Mapping[str, float]
    gpus: tuple[GpuShare, ...] = ()
    env: Mapping[str, str] = {}

    @property
    def cpus(self) -> float:
        """The number of CPUs of this bundle."""
        return self.resources.get(CPU, 0.0)

    @property
    def gpu_ids(self) -> tuple[str, ...]:
        """The ids of this bundle's devices."""
        return tuple(share.id for share in self.gpus)


class Allocation(NamedTuple):
    """The resources that a trial has.

    Attributes:
        bundles: One allocation for each bundle of the request.
        env: For the trial's own process, before user code is imported. It sees all devices of the trial, and has the
            first bundle's number of threads.
        gpu_ids: All devices of the trial.
    """

    bundles: tuple[BundleAllocation, ...] = ()
    env: Mapping[str, str] = {}
    gpu_ids: tuple[str, ...] = ()


PlacementGroupFactory = Resources
"""Ray Tune's name for a resource request."""


def amount_text(name: str, amount: float) -> str:
    """An amount of a resource for an error text."""
    if name != MEMORY:
        return f"{amount:g}"
    if amount < 2**20:
        return f"{amount:g} bytes"
    return f"{amount / 2**30:.7g} GiB"
