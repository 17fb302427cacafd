"""The process that workers are copied from is started first of all: it must not outlive a run that never begins."""

import pytest

from minitune import FIFOScheduler, TuneConfig, Tuner, run


class Refused(FIFOScheduler):
    """Has its metric already."""

    def set_search_properties(self, metric, mode, **spec):
        return False


def trainable(config):
    return {"score": 1}


def test_a_run_that_is_refused_leaves_nothing():
    with pytest.raises(ValueError, match="metric and mode must be set in one place"):
        Tuner(trainable, tune_config=TuneConfig(scheduler=Refused())).fit()
    with pytest.raises(ValueError, match="metric and mode must be set in one place"):
        run(trainable, scheduler=Refused())


def test_a_run_without_trials_of_its_own_needs_none(monkeypatch):
    monkeypatch.setattr("subprocess.Popen", None)
    assert len(Tuner(trainable, tune_config=TuneConfig(executor="inline")).fit()) == 1
