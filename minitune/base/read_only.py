"""A list and a dict that refuse changes: the driver's own data, as plug-ins get it.

Each method that changes one raises a TypeError with the way out. The owner of a `ReadOnlyList` changes it by the
methods of `list`, such as `list.append(trials, trial)`. Nested lists and dicts are not protected. Copies and pickles
are plain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

_Item = TypeVar("_Item")
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


def _refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError(self._refusal)


class ReadOnlyList(list[_Item]):
    """A list that only its owner can change. `refusal` is the text of the error: what to do instead."""

    __slots__ = ("_refusal",)

    def __init__(self, items: Iterable[_Item], refusal: str):
        super().__init__(items)
        self._refusal = refusal

    def __reduce_ex__(self, protocol: Any) -> tuple[type[list[_Item]], tuple[list[_Item]]]:
        return list, (list(self),)

    if not TYPE_CHECKING:  # for a type checker it is a list
        append = clear = extend = insert = pop = remove = reverse = sort = _refuse
        __delitem__ = __iadd__ = __imul__ = __setitem__ = _refuse


class ReadOnlyDict(dict[_Key, _Value]):
    """A dict that cannot be changed."""

    __slots__ = ("_refusal",)

    def __init__(self, items: Mapping[_Key, _Value], refusal: str):
        super().__init__(items)
        self._refusal = refusal

    def __reduce_ex__(self, protocol: Any) -> tuple[type[dict[_Key, _Value]], tuple[dict[_Key, _Value]]]:
        return dict, (dict(self),)

    if not TYPE_CHECKING:  # for a type checker it is a dict
        clear = pop = popitem = setdefault = update = _refuse
        __delitem__ = __ior__ = __setitem__ = _refuse
