"""Search algorithms and callbacks as users write them for Ray Tune."""

from __future__ import annotations

from typing import Any

import pytest
from kit import fit, report_n

from minitune.experiment.callback import Callback
from minitune.search import BasicVariantGenerator
from minitune.space.domains import grid_search

# -- searchers ------------------------------------------------------------------------------------------------------


def test_a_search_algorithm_of_the_old_form_works():
    class Every(BasicVariantGenerator):
        config: Any = None

        def set_search_properties(self, metric, mode, config):
            self.config = config
            return super().set_search_properties(metric, mode, config)

    search_alg = Every()
    assert len(fit(report_n(1), {"x": grid_search([1, 2])}, search_alg=search_alg)) == 2


# -- callbacks ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hook", [name for name in vars(Callback) if name == "setup" or name.startswith("on_")])
def test_every_hook_of_a_callback_takes_future_arguments(hook):
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
