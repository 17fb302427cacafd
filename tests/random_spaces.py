"""Domains and search spaces drawn at random, for the tests of properties. Needs hypothesis."""

from __future__ import annotations

from typing import Any

import hypothesis
from hypothesis import strategies as st

from minitune.space import domains
from minitune.space.parameters import parameters

hypothesis.settings.register_profile("search", max_examples=60)
SETTINGS = hypothesis.settings.get_profile("search")

STEPS = st.sampled_from([0.1, 0.25, 0.05, 1e-3, 1.0, 2.5, 1e-5, 1 / 3])


@st.composite
def numbers(draw: Any) -> Any:
    """Domains of numbers."""
    kind = draw(st.integers(0, 9))
    if kind == 0:
        low, width = draw(st.floats(-1e6, 1e6)), draw(st.floats(1e-3, 1e6))
        return domains.uniform(low, low + width)
    if kind == 1:
        low = draw(st.floats(1e-9, 1e6))
        return domains.loguniform(low, low * draw(st.floats(1.01, 1e6)))
    if kind in (2, 3):
        q, first, count = draw(STEPS), draw(st.integers(1, 1000)), draw(st.integers(0, 1000))
        make = domains.quniform if kind == 2 else domains.qloguniform
        return make(first * q, (first + count) * q, q)
    if kind == 4:
        return domains.randn(draw(st.floats(-100, 100)), draw(st.floats(1e-3, 100)))
    if kind == 5:
        return domains.qrandn(draw(st.floats(-100, 100)), draw(st.floats(1e-3, 100)), draw(STEPS))
    low, count, q = draw(st.integers(1, 10**6)), draw(st.integers(1, 10**6)), draw(st.integers(1, 50))
    if kind == 6:
        return domains.randint(-low, count)
    if kind == 7:
        return domains.lograndint(low, low + count)
    make = domains.qrandint if kind == 8 else domains.qlograndint
    return make(low, low + count + q, q)


def _members(inner: Any) -> Any:
    return st.one_of(
        st.dictionaries(st.text("ab/0", min_size=1, max_size=3), inner, max_size=3),
        st.lists(inner, min_size=1, max_size=3),
        st.lists(inner, min_size=1, max_size=3).map(lambda each: tuple(each)),
        st.lists(inner, min_size=1, max_size=3).map(domains.choice),
    )


def _has_own_names(space: dict[str, Any]) -> bool:
    """Whether no two parameters have one name, as in `{"a/0": ..., "a": [...]}`, which a searcher refuses."""
    try:
        parameters(space)
    except ValueError:
        return False
    return True


SEARCHED_SPACES = st.dictionaries(
    st.text("ab/0", min_size=1, max_size=3),
    st.recursive(st.one_of(numbers(), st.integers(), st.text(max_size=2), st.none()), _members, max_leaves=8),
    min_size=1,
    max_size=4,
).filter(_has_own_names)
"""Spaces of domains alone, with conditions: what a searcher takes."""
