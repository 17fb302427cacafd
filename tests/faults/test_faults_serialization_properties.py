"""Messages of any size in both directions at once: no wait is endless, and each message arrives as it was."""

from hypothesis import given, settings
from hypothesis import strategies as st

from minitune.executors.devices import Machine
from minitune.executors.local import LocalTrialExecutor
from minitune.executors.trial_executor import ActorSpec, CallReturned
from minitune.resources import Resources

_sizes = st.one_of(st.integers(0, 8_000_000), st.sampled_from([0, 1, 2**16 - 1, 2**16, 2**16 + 1, 180_000, 250_000]))


class _Exchange:
    """Takes bytes and gives back others."""

    def __init__(self, host, allocation):
        del host, allocation

    def swap(self, data, size):
        """How much has come, and so much back."""
        return len(data), b"%c" % (size % 251) * size


def test_messages_of_any_size_cross_in_both_directions(bound_s):
    executor = LocalTrialExecutor(Machine({"CPU": 2}, ()), directory=str)

    def answers():
        """One event of each of the two actors."""
        found = {}
        while len(found) < 2:
            events = executor.wait(bound_s(30))
            assert events, "nothing came within the bound"
            found.update({event.actor_id: event for event in events})
        return found

    @settings(max_examples=15)
    @given(st.lists(st.tuples(_sizes, _sizes), min_size=2, max_size=2))
    def exchange(pairs):
        for name, (there, back) in zip("ab", pairs, strict=True):
            executor.call(name, "swap", bytes(there), back)
        found = answers()
        for name, (there, back) in zip("ab", pairs, strict=True):
            assert isinstance(found[name], CallReturned)
            assert found[name].value == (there, b"%c" % (back % 251) * back)

    try:
        for name in "ab":
            executor.start(ActorSpec(name, _Exchange, Resources([{"CPU": 1}])))
        assert answers().keys() == {"a", "b"}
        exchange()
    finally:
        executor.shutdown()
