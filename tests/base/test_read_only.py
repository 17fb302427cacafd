"""The driver's own data, as plug-ins get it."""

import copy
import pickle

import pytest

from minitune.base.read_only import ReadOnlyDict, ReadOnlyList


@pytest.mark.parametrize("made", [ReadOnlyList([1, 2], "take a copy"), ReadOnlyDict({"a": 1}, "take a copy")])
def test_copies_and_pickles_can_be_changed_and_the_object_cannot(made):
    with pytest.raises(TypeError, match="take a copy"):
        made.clear()
    for plain in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made), copy.copy(made)):
        assert plain == made
        assert type(plain) in (list, dict)
        plain.clear()


CHANGES = {
    list: "append clear extend insert pop remove reverse sort __delitem__ __iadd__ __imul__ __setitem__",
    dict: "clear pop popitem setdefault update __delitem__ __ior__ __setitem__",
}


@pytest.mark.parametrize(("kind", "change"), [(kind, name) for kind in CHANGES for name in CHANGES[kind].split()])
def test_each_change_is_refused_but_those_of_the_owner_of_a_list(kind, change):
    made = ReadOnlyList([2, 1], "take a copy") if kind is list else ReadOnlyDict({"a": 1}, "take a copy")
    with pytest.raises(TypeError, match=r"^take a copy$"):
        getattr(made, change)(0, 3)
    assert made == ([2, 1] if kind is list else {"a": 1})
    if kind is list:
        list.append(made, 3)
        assert made == [2, 1, 3]
