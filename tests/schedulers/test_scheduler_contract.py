"""Our own schedulers keep the contract that authors of other schedulers subclass."""

import pytest

from minitune.schedulers import (
    ASHAScheduler,
    FIFOScheduler,
    HyperBandForBOHB,
    HyperBandScheduler,
    MedianStoppingRule,
    PopulationBasedTraining,
)
from minitune.space.domains import uniform

pytest.register_assert_rewrite("minitune.testing.scheduler_contract")

from minitune.testing import SchedulerContract  # noqa: E402 - its asserts are rewritten first


class TestFIFO(SchedulerContract):
    def make_scheduler(self):
        return FIFOScheduler()


class TestASHA(SchedulerContract):
    def make_scheduler(self):
        return ASHAScheduler(max_t=16, grace_period=2, reduction_factor=2, brackets=2)


class TestASHAThatPromotes(SchedulerContract):
    def make_scheduler(self):
        return ASHAScheduler(max_t=16, grace_period=1, variant="promote")


class TestHyperBand(SchedulerContract):
    def make_scheduler(self):
        return HyperBandScheduler(max_t=16, reduction_factor=3)


class TestHyperBandForBOHB(SchedulerContract):
    def make_scheduler(self):
        return HyperBandForBOHB(max_t=16, reduction_factor=4)


class TestMedianStoppingRule(SchedulerContract):
    def make_scheduler(self):
        return MedianStoppingRule(time_attr="training_iteration", grace_period=2, min_samples_required=2)


class TestPBT(SchedulerContract):
    settings = {}  # noqa: RUF012 - no one changes it

    def make_scheduler(self):
        return PopulationBasedTraining(
            time_attr="training_iteration",
            perturbation_interval=3,
            hyperparam_mutations={"x": uniform(0.0, 1.0)},
            log_config=False,
            **self.settings,
        )


class TestPBTInStep(TestPBT):
    settings = {"synch": True}  # noqa: RUF012 - no one changes it
