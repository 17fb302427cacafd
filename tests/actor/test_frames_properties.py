"""The frame reader against any chunking and garbage."""

from unittest import mock

import hypothesis
import pytest
from hypothesis import strategies as st

from minitune.actor.messages import (
    _MESSAGES,
    HEADER_BYTES,
    Boot,
    Call,
    Finished,
    FrameReader,
    GoOn,
    Hello,
    Move,
    ProtocolError,
    Quit,
    Raised,
    Reported,
    Returned,
    Show,
    Stop,
    Workplace,
    encode,
    go_on,
)
from minitune.error import RemoteError

NUMBERS = st.integers(0, 2**32 - 1)
TEXTS = st.text(st.characters(codec=None), max_size=20)
PLACES = st.builds(
    Workplace,
    directory=st.none() | TEXTS,
    stdout=st.none() | TEXTS,
    stderr=st.none() | TEXTS,
    env=st.dictionaries(TEXTS, st.none() | TEXTS, max_size=3),
)
ERRORS = st.builds(RemoteError, TEXTS, TEXTS, TEXTS, st.none() | st.binary(min_size=1, max_size=20))
MESSAGES = st.one_of(
    st.builds(
        Boot,
        NUMBERS,
        PLACES,
        st.lists(TEXTS, max_size=3).map(tuple),
        st.lists(TEXTS, max_size=3).map(tuple),
        st.booleans(),
        st.binary(max_size=50),
    ),
    st.builds(Call, NUMBERS, TEXTS, st.binary(max_size=50)),
    st.builds(Quit, NUMBERS, st.booleans()),
    st.builds(Move, NUMBERS, PLACES, st.binary(max_size=50)),
    st.builds(Hello, NUMBERS, st.integers(1, 2**22)),
    *(st.builds(kind, NUMBERS, st.binary(max_size=200)) for kind in (Returned, Reported, Finished)),
    st.builds(Raised.of, NUMBERS, ERRORS),
    st.builds(GoOn, NUMBERS),
    st.builds(Stop, NUMBERS),
    st.just(Show()),
)


def stream_of(messages):
    return b"".join(b"".join(encode(message)) for message in messages)


@hypothesis.given(st.lists(MESSAGES, max_size=6), st.data())
def test_any_chunking_gives_the_same_messages(messages, data):
    stream = stream_of(messages)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    reader = FrameReader()
    found = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        reader.feed(stream[start:end], found.append)
    assert found == messages


@hypothesis.given(st.lists(MESSAGES, max_size=4), st.binary(max_size=200))
def test_garbage_ends_the_reading_after_the_messages_before_it(before, garbage):
    found = []
    with pytest.raises(ProtocolError, match="a frame begins with"):
        FrameReader().feed(stream_of(before) + b"garbage" + garbage.ljust(20), found.append)
    assert found == before


@pytest.mark.parametrize("kind", [len(_MESSAGES), 255])
def test_a_kind_that_does_not_exist_is_refused(kind):
    front = bytearray(go_on(1))
    front[2] = kind
    heard = []
    with pytest.raises(ProtocolError, match=f"no message has the kind {kind}"):
        FrameReader().feed(go_on(1) + front, heard.append)
    assert heard == [GoOn(1)], "the good ones before it are handled"


def test_the_prepared_frame_is_that_of_its_message():
    assert [go_on(7)] == encode(GoOn(7))


@hypothesis.given(MESSAGES)
def test_a_body_above_the_limit_is_refused_at_its_header(message):
    frame = b"".join(encode(message))
    body_bytes = len(frame) - HEADER_BYTES
    hypothesis.assume(body_bytes > 0)
    with mock.patch("minitune.actor.messages.MESSAGE_BYTES", body_bytes - 1):
        with pytest.raises(ProtocolError, match="limit"):
            FrameReader().feed(frame[:HEADER_BYTES], print)
        with pytest.raises(ValueError, match=f"has {body_bytes}"):
            encode(message)
