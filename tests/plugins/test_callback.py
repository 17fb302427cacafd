"""The base class of callbacks: every hook is there, takes whatever it is given, and does nothing."""

from __future__ import annotations

import pytest

from minitune.callback import HOOKS, Callback


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_takes_what_is_to_come_and_does_nothing(hook: str) -> None:
    arguments = {"trials": []} if hook == "on_experiment_end" else {"iteration": 3, "trials": []}
    if hook == "setup":
        arguments = {"stop": None, "num_samples": 1, "total_num_samples": 1}
    elif hook.startswith("on_trial") or hook == "on_checkpoint":
        arguments["trial"] = None
    if hook == "on_trial_result":
        arguments["result"] = {}
    elif hook == "on_checkpoint":
        arguments["checkpoint"] = None
    assert getattr(Callback(), hook)(**arguments, something_new=1) is None
