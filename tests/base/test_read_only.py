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


@pytest.mark.parametrize(
    "change",
    [
        lambda made: made.append(3),
        lambda made: made.clear(),
        lambda made: made.extend([3]),
        lambda made: made.insert(0, 3),
        lambda made: made.pop(),
        lambda made: made.remove(1),
        lambda made: made.reverse(),
        lambda made: made.sort(key=str),
        lambda made: made.__delitem__(0),
        lambda made: made.__iadd__([3]),
        lambda made: made.__imul__(2),
        lambda made: made.__setitem__(0, 3),
    ],
)
def test_a_list_refuses_each_change_but_those_of_its_owner(change):
    made = ReadOnlyList([2, 1], "take a copy: list(trials)")
    with pytest.raises(TypeError, match=r"^take a copy: list\(trials\)$"):
        change(made)
    assert made == [2, 1]
    list.append(made, 3)
    assert made == [2, 1, 3]


@pytest.mark.parametrize(
    "change",
    [
        lambda made: made.clear(),
        lambda made: made.pop("a"),
        lambda made: made.popitem(),
        lambda made: made.setdefault("b", 2),
        lambda made: made.update(a=2),
        lambda made: made.__delitem__("a"),
        lambda made: made.__ior__({"b": 1}),
        lambda made: made.__setitem__("a", 2),
    ],
)
def test_a_dict_refuses_each_change(change):
    made = ReadOnlyDict({"a": 1}, "take a copy")
    with pytest.raises(TypeError, match=r"^take a copy$"):
        change(made)
    assert made == {"a": 1}
