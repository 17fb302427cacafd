"""Callbacks: every hook exists, lists call in order, state goes by position."""

from __future__ import annotations

from typing import Any

import pytest

from minitune.callback import HOOKS, Callback, CallbackList


class Recorder(Callback):
    def __init__(self, name: str, log: list[Any]):
        self.name, self.log = name, log

    def __getattribute__(self, attribute: str) -> Any:
        if attribute in HOOKS:
            return lambda **info: self.log.append((self.name, attribute, info))
        return super().__getattribute__(attribute)


def test_every_hook_accepts_what_it_does_not_know() -> None:
    callback = Callback()
    needed = {"iteration": 1, "trials": [], "trial": None, "result": {}, "checkpoint": None, "anything": 1}
    for hook in HOOKS:
        assert getattr(callback, hook)(**needed) is None
    assert callback.get_state() is None


def test_a_list_calls_in_order() -> None:
    log: list[Any] = []
    several = CallbackList([Recorder("a", log), Recorder("b", log)])
    for hook in HOOKS:
        getattr(several, hook)(iteration=3, trials=[])
    assert log == [(name, hook, {"iteration": 3, "trials": []}) for hook in HOOKS for name in ("a", "b")]
    assert len(several) == 2


def test_exceptions_pass_through() -> None:
    class Broken(Callback):
        def on_step_begin(self, **info: Any) -> None:
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        CallbackList([Callback(), Broken()]).on_step_begin(iteration=0, trials=[])


def test_state_goes_by_position() -> None:
    class Counting(Callback):
        def __init__(self, count: int):
            self.count = count

        def get_state(self) -> dict[str, Any]:
            return {"count": self.count}

        def set_state(self, state: dict[str, Any]) -> None:
            self.count = state["count"]

    state = CallbackList([Counting(3), Callback(), Counting(5)]).get_state()
    fresh = [Counting(0), Callback(), Counting(0)]
    CallbackList(fresh).set_state(state)
    assert (fresh[0].count, fresh[2].count) == (3, 5)
    with pytest.raises(ValueError, match="same callbacks in the same order"):
        CallbackList(fresh[:1]).set_state(state)
    assert CallbackList([Callback()]).get_state() is None


@pytest.mark.parametrize("bad", [Callback, print, "csv"])
def test_what_is_no_callback_is_refused(bad: Any) -> None:
    with pytest.raises(TypeError, match="instances of minitune"):
        CallbackList([bad])
