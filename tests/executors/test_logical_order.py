"""The executor in logical order: which answer comes first, and what it says of a machine that is too small."""

import pytest

from minitune.error import TuneError
from minitune.executors.devices import Machine
from minitune.executors.inline import InlineTrialExecutor
from minitune.executors.logical_order import OrderedExecutor
from minitune.executors.trial_executor import ActorSpec, CallReturned, Exited, Started
from minitune.resources import Resources

ONE_CPU = Resources([{"CPU": 1}])
TWO_CPUS = Resources([{"CPU": 2}])


class Worker:
    def __init__(self, host, allocation):
        pass

    def train(self):
        return "trained"

    def save(self):
        return "saved"


class Ordered:
    """An executor with so many CPUs and GPUs, and the waiting that tests do with it."""

    def __init__(self, window=3, **totals):
        gpu_ids = tuple(str(number) for number in range(int(totals.get("GPU", 0))))
        self.inner = InlineTrialExecutor(Machine({"CPU": 3.0, **totals}, gpu_ids))
        self.executor = OrderedExecutor(self.inner, window)

    def start(self, name, request=ONE_CPU):
        self.executor.start(ActorSpec(f"{name}#1", Worker, request))

    def train_two(self):
        """Start a and b, and let each take a step."""
        for name in "ab":
            self.start(name)
        assert [self.next() for _ in "ab"] == [("a", Started), ("b", Started)]
        for name in "ab":
            self.executor.call(f"{name}#1", "train")

    def next(self):
        """The actor of the next event, and its value or its type."""
        while not (events := self.executor.wait(None)):
            pass
        [event] = events
        name = event.actor_id.partition("#")[0]
        return name, event.value if isinstance(event, CallReturned) else type(event)


@pytest.fixture
def ordered():
    ordered = Ordered()
    yield ordered
    ordered.executor.shutdown()


def test_a_step_takes_a_unit_of_time_and_other_calls_none(ordered):
    for name in "ab":
        ordered.start(name)
    assert [ordered.next() for _ in "ab"] == [("a", Started), ("b", Started)]
    ordered.executor.call("a#1", "train")
    ordered.executor.call("b#1", "save")
    assert ordered.next() == ("b", "saved")
    ordered.executor.call("b#1", "train")
    assert ordered.next() == ("a", "trained")
    ordered.executor.call("a#1", "train")
    assert ordered.next() == ("b", "trained")
    ordered.executor.call("b#1", "save")
    assert [ordered.next() for _ in "ab"] == [("b", "saved"), ("a", "trained")]


def test_an_exit_is_due_at_its_stop_and_frees_resources_when_it_is_taken(ordered):
    ordered.train_two()
    ordered.executor.stop("b#1", 1.0)
    ordered.executor.stop("never there", 1.0)
    assert ordered.executor.resources()[1] == {"CPU": 1.0}
    assert ordered.next() == ("b", Exited)
    assert ordered.executor.resources()[1] == {"CPU": 2.0}
    assert ordered.next() == ("a", "trained")
    with pytest.raises(RuntimeError, match="'b#1' is not there"):
        ordered.executor.call("b#1", "train")


def test_an_exit_because_of_a_limit_is_due_when_the_answer_was(ordered):
    ordered.train_two()
    ordered.executor.stop("b#1", 1.0, dump=True)
    assert [ordered.next() for _ in "ab"] == [("a", "trained"), ("b", Exited)]


def test_an_answer_that_waits_for_its_turn_is_known(ordered):
    ordered.train_two()
    ordered.inner._work.rotate(1)  # b answers first
    assert not ordered.executor.is_late("b#1")
    assert ordered.next() == ("a", "trained")
    assert ordered.executor.is_late("b#1")
    assert ordered.next() == ("b", "trained")
    assert not ordered.executor.is_late("b#1")


def test_a_start_that_fails_takes_no_resources(ordered):
    with pytest.raises(TypeError, match="cannot be pickled"):
        ordered.executor.start(ActorSpec("a#1", Worker, ONE_CPU, args=(iter([lambda: 1]), (n for n in "a"))))
    assert ordered.executor.resources()[1] == {"CPU": 3.0}
    ordered.start("a")


def test_a_waiter_is_owed_resources_until_it_is_forgotten(ordered):
    executor = ordered.executor
    ordered.start("first", ONE_CPU)
    ordered.next()
    assert not executor.can_start(Resources([{"CPU": 3}]), waiter="big")
    number = 0
    while number < 50 and executor.can_start(ONE_CPU, waiter=f"small{number}"):
        ordered.start(f"small{number}")
        ordered.next()
        executor.stop(f"small{number}#1", 0.0)
        ordered.next()
        number += 1
    assert number < 50, "resources are reserved"
    executor.forget("big")
    assert executor.can_start(ONE_CPU, waiter="small")


def test_an_actor_waits_while_the_machine_has_less_room_than_was_counted(ordered):
    ordered.inner._ledger.acquire("a process that cannot be killed", TWO_CPUS)
    assert not ordered.executor.can_start(TWO_CPUS)
    assert ordered.executor.can_start(ONE_CPU)


def test_it_warns_once_where_the_machine_allows_less_than_the_window(caplog):
    ordered = Ordered(window=2, CPU=2)
    assert ordered.executor.can_start(ONE_CPU)
    ordered.start("a")
    assert ordered.executor.can_start(ONE_CPU)
    assert caplog.messages == []
    for _ in range(2):
        assert not ordered.executor.can_start(TWO_CPUS)
    ordered.start("b")
    assert not ordered.executor.can_start(ONE_CPU), "as many run as the window allows"
    assert len(caplog.messages) == 1
    assert "with 1 trials running there is no room for one more, although max_concurrent_trials=2" in caplog.text
    assert "the same only where the totals are {CPU: 2}" in caplog.text
    ordered.executor.shutdown()


@pytest.mark.parametrize(
    ("window", "request_", "found"),
    [
        (3, Resources([{"CPU": 1}]), None),
        (4, Resources([{"CPU": 1}]), 3),
        (2, Resources([{"CPU": 2}]), 1),
        (2, Resources([{"GPU": 0.5}]), None),
        (3, Resources([{"GPU": 0.5}]), 2),
        (9, Resources([{"CPU": 0}]), None),
    ],
)
def test_there_must_be_room_for_a_whole_window(window, request_, found):
    ordered = Ordered(window, GPU=1)
    if found is None:
        ordered.executor.check_room(request_)
        assert ordered.executor.resources()[1] == {"CPU": 3.0, "GPU": 1.0}
        return
    with pytest.raises(
        TuneError, match=rf"max_concurrent_trials={window} .* but there is room for {found} here"
    ) as caught:
        ordered.executor.check_room(request_)
    assert "MINITUNE_NUM_CPUS" in str(caught.value)
    assert "add nodes" not in str(caught.value)


def test_what_can_never_start_is_refused():
    ordered = Ordered()
    for ask in (ordered.executor.check_room, ordered.executor.can_start):
        with pytest.raises(TuneError, match="can never be met"):
            ask(Resources([{"CPU": 4}]))
