"""The question whether a zygote is stuck."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from minitune.actor import loop as loops
from minitune.actor.doubt import Doubt
from minitune.actor.loop import Loop
from minitune.actor.messages import ZYGOTE_ANSWER_PARTS, ZYGOTE_ANSWER_S

PART_S = ZYGOTE_ANSWER_S / ZYGOTE_ANSWER_PARTS


class Asked:
    """A doubt on a clock that tests set; what has happened is in `heard`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(loops, "time", self)
        self.now_s = 1_000.0
        self.is_busy = False
        self.heard: list[str] = []
        self.loop = Loop()
        self.doubt = Doubt(self.loop, lambda: self.is_busy, lambda: self.heard.append("stuck"))

    def monotonic(self) -> float:
        return self.now_s

    def let_pass(self, parts: int, part_s: float = PART_S) -> None:
        for _ in range(parts):
            self.now_s += part_s
            self.loop.turn(0.0)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    asked = Asked(monkeypatch)
    yield asked
    asked.doubt.close()
    asked.doubt.close()
    asked.loop.close()


def test_a_zygote_that_does_not_answer_in_time_is_stuck(asked: Asked) -> None:
    asked.doubt.call_if_sound(lambda: asked.heard.append("sound"))
    asked.let_pass(ZYGOTE_ANSWER_PARTS - 1)
    assert asked.heard == []
    asked.let_pass(1)
    assert asked.heard == ["stuck"]
    asked.let_pass(100)
    assert asked.heard == ["stuck"]


def test_an_answer_is_told_to_all_who_have_asked(asked: Asked) -> None:
    for name in ("first", "second"):
        asked.doubt.call_if_sound(lambda name=name: asked.heard.append(name))
    asked.let_pass(3)
    asked.doubt.answered()
    asked.let_pass(100)
    assert asked.heard == ["first", "second"]


def test_a_long_stop_of_the_driver_costs_one_part_of_the_time(asked: Asked) -> None:
    asked.let_pass(1, 100 * ZYGOTE_ANSWER_S)
    asked.let_pass(ZYGOTE_ANSWER_PARTS - 2)
    assert asked.heard == []
    asked.let_pass(1)
    assert asked.heard == ["stuck"]


def test_another_message_begins_the_time_again(asked: Asked) -> None:
    asked.let_pass(ZYGOTE_ANSWER_PARTS - 1)
    asked.doubt.hear()
    asked.let_pass(ZYGOTE_ANSWER_PARTS - 1)
    assert asked.heard == []
    asked.let_pass(1)
    assert asked.heard == ["stuck"]


def test_a_zygote_that_loads_something_may_be_silent_until_then(asked: Asked) -> None:
    asked.is_busy = True
    asked.let_pass(5 * ZYGOTE_ANSWER_PARTS)
    assert asked.heard == []
    asked.is_busy = False
    asked.let_pass(1)
    assert asked.heard == ["stuck"]


def test_a_doubt_that_is_given_up_has_no_effect(asked: Asked) -> None:
    asked.doubt.close()
    asked.let_pass(100)
    assert asked.heard == []
