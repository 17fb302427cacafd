"""The driver's own data, as plug-ins get it."""

from __future__ import annotations

import copy
import pickle

import pytest

from minitune.base.read_only import ReadOnlyDict, ReadOnlyList


@pytest.mark.parametrize("made", [ReadOnlyList([1, 2], "take a copy"), ReadOnlyDict({"a": 1}, "take a copy")])
def test_copies_and_pickles_can_be_changed_and_the_object_cannot(made: list[int] | dict[str, int]) -> None:
    with pytest.raises(TypeError, match="take a copy"):
        made.clear()
    for plain in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made), copy.copy(made)):
        assert plain == made
        assert type(plain) in (list, dict)
        plain.clear()
