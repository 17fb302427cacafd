import hypothesis
import pytest
from hypothesis import strategies as st
from test_journal_codec import decode, encode, same

texts = st.text(st.characters(), max_size=8) | st.sampled_from(["$", "v", "\ud800", "\ud83d\ude00", '{"$":'])
hashables = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
leaves = hashables | st.floats() | st.integers(-(2**200), 2**200)


def _containers(children):
    return (
        st.lists(children, max_size=4)
        | st.lists(children, max_size=4).map(tuple)
        | st.dictionaries(texts, children, max_size=4)
        | st.dictionaries(hashables, children, max_size=4)
        | st.dictionaries(st.just("$"), children, max_size=1)
    )


@hypothesis.settings(max_examples=150)
@hypothesis.given(st.dictionaries(texts, st.recursive(leaves, _containers, max_leaves=20), max_size=5))
def test_any_record_comes_back_exactly(record):
    line = encode(record)

    assert same(decode(line, unpickle=True), record)
    assert same(decode(line), record)  # none of these needs a pickle
    assert line.count(b"\n") == 1


@hypothesis.settings(max_examples=25)
@hypothesis.given(st.recursive(leaves, _containers, max_leaves=5), st.integers(30, 90))
def test_any_value_comes_back_from_any_depth(value, depth):
    for level in range(depth):
        value = [value] if level % 3 else {"k": value, level: (None,)}

    assert same(decode(encode({"v": value}), unpickle=True), {"v": value})


@hypothesis.settings(max_examples=100)
@hypothesis.given(st.binary(max_size=60))
def test_garbage_is_no_record(data):
    with pytest.raises(ValueError):
        decode(data + b"\n")
