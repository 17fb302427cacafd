import pytest
from executor_contract import TrialExecutorContract
from kit import scaled_s

from minitune.base.clock import VirtualClock
from minitune.executors.devices import Machine
from minitune.executors.inline import InlineTrialExecutor
from minitune.executors.local import LocalTrialExecutor
from minitune.executors.logical_order import OrderedExecutor

OF_WORKERS = {
    "test_functions_and_classes_of_the_caller_travel",
    "test_a_shared_value_is_loaded_once_per_process",
    "test_a_parked_actor_is_used_again",
}
"""The tests of the contract whose outcome may depend on how workers start. The tests of actors try starts, calls and
deaths with each start method."""


class Contract(TrialExecutorContract):
    bound_s = scaled_s(30)


class TestInline(Contract):
    def make_executor(self, totals, gpu_ids, directory):
        return InlineTrialExecutor(Machine(totals, gpu_ids))


class TestInlineInVirtualTime(Contract):
    def make_executor(self, totals, gpu_ids, directory):
        return InlineTrialExecutor(Machine(totals, gpu_ids), VirtualClock())


class TestInlineInLogicalOrder(Contract):
    def make_executor(self, totals, gpu_ids, directory):
        return OrderedExecutor(InlineTrialExecutor(Machine(totals, gpu_ids)), window=1)


class TestLocal(Contract):
    def make_executor(self, totals, gpu_ids, directory):
        return LocalTrialExecutor(Machine(totals, gpu_ids), directory=lambda: str(directory))


class TestLocalWithNewInterpreters(TestLocal):
    """The part that concerns the start of a worker. The rest concerns the driver's side, which is the same as above."""

    @pytest.fixture(autouse=True)
    def start_method(self, monkeypatch, storage_of_its_own):
        monkeypatch.setenv("MINITUNE_START_METHOD", "interpreter")


for _name in [name for name in dir(TestLocal) if name.startswith("test_")]:
    if _name not in OF_WORKERS:
        setattr(TestLocalWithNewInterpreters, _name, None)
