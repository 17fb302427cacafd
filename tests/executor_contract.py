"""TrialExecutorContract: what every executor must do, with the actors that it runs and a driver for the executor.

Tests about processes (`isolates`) are skipped for an executor that has none: there, no actor can die alone. Workers
import this module for the actors, so it imports pytest only inside the tests: each worker would take longer to start.
"""

import functools
import os
import pickle
import signal
import threading
import time
from collections import deque
from contextlib import contextmanager
from pathlib import Path

from minitune.base import clock
from minitune.error import TuneError
from minitune.executors.trial_executor import (
    ActorSpec,
    CallRaised,
    CallReturned,
    Exited,
    Placed,
    Started,
)
from minitune.resources import Allocation, Resources

TOTALS = {"CPU": 2.0}
ONE_CPU = Resources([{"CPU": 1}])
NOTHING = Resources([{}])

PATIENCE_S = 20.0
"""How long an actor waits for another one, in seconds. Only a test that fails waits that long."""

GRACE_S = 10.0
"""The grace period of a stop, in seconds. No actor here needs that long."""


# -- actors -----------------------------------------------------------------------------------------------------------


class Actor:
    """The base of the actors: it keeps its host."""

    def __init__(self, host, *, allocation):
        self.host = host

    def report(self, value):
        """Answer the running call. Return whether it may continue, once it is called again."""
        return self.host.exchange(lambda: ((value,), lambda: None))


class Account(Actor):
    """Keeps a sum."""

    def __init__(self, host, balance=0, *, allocation):
        super().__init__(host, allocation=allocation)
        self._balance = balance
        self._allocation = allocation
        self._made_on = threading.get_ident()

    def add(self, amount):
        """Add to the sum, and return it."""
        self._balance += amount
        return self._balance

    def balance(self):
        """Return the sum at once."""
        return self._balance

    def count(self, last=0):
        """Report 1 up to `last`. It has a default for the calls that continue it: their arguments have no effect."""
        for number in range(1, last + 1):
            if not self.report(number):
                return "stopped"
        return "done"

    def allocation(self):
        """Return the resources of this actor."""
        return self._allocation

    def echo(self, *values):
        """Return the arguments."""
        return values

    def is_one_thread(self):
        """Whether the object was made on the thread that calls its methods."""
        return threading.get_ident() == self._made_on

    def fail(self, kind, message):
        """Raise."""
        fail_deep_inside(kind, message)

    def lock(self):
        """Return an object that cannot be pickled."""
        return threading.Lock()

    def spend(self, duration_s):
        """Let time pass on the current clock. Return the time that it then shows."""
        clock.current.sleep(duration_s)
        return clock.current.monotonic()


def fail_deep_inside(kind, message):
    """Raise an exception by its name."""
    kinds = {"ValueError": ValueError, "SystemExit": SystemExit}
    raise kinds[kind](message)


def refuse(host, *, allocation):
    """A factory that raises."""
    raise ValueError("this factory makes nothing")


class Worker(Actor):
    """Runs until it is stopped, like a function in `report()`. It appends notes about its end to a file."""

    def __init__(self, host, notes, *, allocation):
        super().__init__(host, allocation=allocation)
        self._notes = Path(notes)

    def begin(self):
        """Begin. The code answers from within, and continues to run."""
        try:
            while self.report("begun"):
                pass
        finally:
            self._note("unwound")

    def hang(self):
        """Do not answer until it is stopped."""
        until_s = time.monotonic() + PATIENCE_S
        while not self.host.is_stopped and time.monotonic() < until_s:
            time.sleep(0.005)

    def _note(self, text):
        with self._notes.open("a", encoding="utf-8") as file:
            file.write(text + "\n")

    def stop(self):
        """Called once the code that runs has ended."""
        self._note("stop")


class Mortal(Actor):
    """Ends its own process, or waits for another actor."""

    def answer_and_exit(self, code):
        """Answer, and end the process before anything else can be asked."""
        self.host.exchange(lambda: (("last words",), functools.partial(os._exit, code)))

    def kill_itself(self):
        """Die of SIGKILL, without an answer."""
        os.kill(os.getpid(), signal.SIGKILL)

    def hang(self):
        """Never answer."""
        time.sleep(PATIENCE_S)

    def meet(self, mine, other):
        """Create a file and wait for that of another actor, at most `PATIENCE_S`. Return whether it came."""
        Path(mine).touch()
        until_s = time.monotonic() + PATIENCE_S
        while not Path(other).exists() and time.monotonic() < until_s:
            time.sleep(0.005)
        return Path(other).exists()


class Counted:
    """A text that counts how often it is loaded in a process."""

    loads = 0

    def __init__(self, text):
        self.text = text

    def __reduce__(self):
        return _load_counted, (self.text,)


def _load_counted(text):
    Counted.loads += 1
    return Counted(text)


class Reader(Actor):
    """Reads a shared value."""

    def __init__(self, host, shared, *, allocation):
        super().__init__(host, allocation=allocation)
        self._shared = shared

    def value(self):
        """Return the value."""
        return self._shared.get()

    def read_twice(self):
        """Return the text of a `Counted`, whether both reads give one object, and how often this process loaded it."""
        first, second = self._shared.get(), self._shared.get()
        return first.text, first is second, Counted.loads


class Reusable(Actor):
    """Can be parked and reset. It keeps the names that it has had."""

    def __init__(self, host, name, outcome, *, allocation):
        super().__init__(host, allocation=allocation)
        self._history = [name]

    def history(self):
        """Return its names, in order."""
        return self._history

    def reset(self, name, outcome, allocation):
        """Become the actor of `name`. The outcome is `yes`, `no`, `raise`, `exit` or `slow`.

        The allocation is None if the resources are those of the actor before.
        """
        if outcome == "raise":
            raise ValueError("this actor cannot be reset")
        if outcome == "exit":
            raise SystemExit(3)
        if outcome == "slow":
            clock.current.sleep(0.75)
        if allocation is not None and not isinstance(allocation, Allocation):
            raise TypeError(f"the last argument of reset() must be an Allocation or None, but got {allocation!r}")
        self._history.append(name)
        return outcome != "no"


# -- watch ------------------------------------------------------------------------------------------------------------


class Watch:
    """Drives an executor, one event at a time. It keeps the events that the test has not seen yet.

    Args:
        executor: The executor.
        bound_s: How long an event may take, in seconds of real time.
    """

    def __init__(self, executor, bound_s):
        self.executor = executor
        self._bound_s = bound_s
        self._events = deque()
        self._fences = 0

    def next(self):
        """Return the next event, or fail if none comes in time. `Placed`, which no call expects, is left out."""
        until_s = time.monotonic() + self._bound_s
        while not self._events:
            assert time.monotonic() < until_s, f"no event came within {self._bound_s:g} s"
            events = self.executor.wait(self._bound_s)
            assert self.executor.has_queue or not any(isinstance(event, Placed) for event in events)
            self._events.extend(event for event in events if not isinstance(event, Placed))
        return self._events.popleft()

    def take(self, count):
        """Return the next `count` events."""
        return [self.next() for _ in range(count)]

    def start(self, actor_id, factory=Account, request=ONE_CPU, **kwargs):
        """Start an actor and take its `Started`, which must be the next event."""
        started = self.executor.start(ActorSpec(actor_id, factory, request, **kwargs))
        if started is not None:
            self._events.append(started)
        return self.expect(Started, actor_id)

    def value(self, actor_id, method, *args):
        """Call a method, and return its value."""
        self.executor.call(actor_id, method, *args)
        return self.expect(CallReturned, actor_id).value

    def error(self, actor_id, method, *args):
        """Call a method, and return the error that it raised."""
        self.executor.call(actor_id, method, *args)
        return self.expect(CallRaised, actor_id).error

    def stop(self, actor_id, keep=False):
        """Stop an actor and take its `Exited`, which must be the next event."""
        self.executor.stop(actor_id, GRACE_S, keep)
        return self.expect(Exited, actor_id)

    def expect(self, kind, actor_id):
        """Return the next event, which must be of this kind and from this actor."""
        event = self.next()
        assert isinstance(event, kind), f"{kind.__name__} of {actor_id!r} was expected, but got {event}"
        assert event.actor_id == actor_id, f"an event of {actor_id!r} was expected, but got {event}"
        return event

    def rest(self):
        """Wait for all events that earlier calls cause: start a new actor, and return the events until it has ended."""
        self._fences += 1
        fence = f"fence-{self._fences}#1"
        self.executor.start(ActorSpec(fence, functools.partial(Account, balance=0), NOTHING))
        self.executor.stop(fence, GRACE_S)
        others = []
        while True:
            event = self.next()
            if event.actor_id != fence:
                others.append(event)
            elif isinstance(event, Exited):
                return others


# -- contract ---------------------------------------------------------------------------------------------------------


class TrialExecutorContract:
    """Subclass it, name the class `Test...`, and override `make_executor`.

    Attributes:
        bound_s: How long an event may take, in seconds. Only a test that fails waits that long.
        owns_processes: Whether the executor itself starts, watches and kills its processes. If another system does that
            for it, as on a cluster, some clauses do not apply: it may not know the exit code or the signal that has
            ended a process, what a process sends in its last moment may be lost, and a process that the system has
            declared dead may take a moment to end.
    """

    bound_s = 30.0
    owns_processes = True

    def make_executor(self, totals, gpu_ids, directory):
        """Make an executor.

        Args:
            totals: The resources that it gives out.
            gpu_ids: The ids of the devices; their number is `totals["GPU"]`.
            directory: An empty directory, where it may store files.
        """
        raise NotImplementedError("say how an executor is made: override make_executor")

    @contextmanager
    def watch(self, directory, totals=None, gpu_ids=()):
        """An executor that is shut down when the test ends."""
        executor = self.make_executor(dict(totals or TOTALS), gpu_ids, directory)
        try:
            yield Watch(executor, self.bound_s)
        finally:
            executor.shutdown()

    # -- starting and calling --------------------------------------------------------------------------------------

    def test_an_actor_is_started_once(self, tmp_path):
        """One `Started` comes. It names the process and the allocation. The id cannot be used again."""
        with self.watch(tmp_path) as watch:
            started = watch.start("a#1", request=ONE_CPU)

            assert (started.pid != os.getpid()) == watch.executor.isolates
            assert started.host
            assert not started.reused
            assert [bundle.cpus for bundle in started.allocation.bundles] == [1]
            assert watch.value("a#1", "allocation") == started.allocation
            with _raises(RuntimeError):
                watch.executor.start(ActorSpec("a#1", Account, ONE_CPU))
            assert watch.rest() == []

    def test_each_call_gets_one_reply_and_the_state_is_kept(self, tmp_path):
        """The values of methods arrive, and all methods run on one thread."""
        with self.watch(tmp_path) as watch:
            watch.start("a#1", functools.partial(Account, balance=5))

            assert [watch.value("a#1", "add", amount) for amount in (1, 2, 3)] == [6, 8, 11]
            assert watch.value("a#1", "balance") == 11
            assert watch.value("a#1", "is_one_thread")
            assert watch.rest() == []

    def test_arguments_and_replies_are_copies(self, tmp_path):
        """A later change on one side does not reach the other."""
        with self.watch(tmp_path) as watch:
            watch.start("a#1")
            sent = {"layers": [1, 2]}
            watch.executor.call("a#1", "echo", sent, None, 3)
            sent["layers"].append(3)

            assert watch.expect(CallReturned, "a#1").value == ({"layers": [1, 2]}, None, 3)
            assert watch.value("a#1", "echo") == ()

    def test_functions_and_classes_of_the_caller_travel(self, tmp_path):
        """Factories and arguments may be local to a function. Plain pickle cannot handle these."""
        with self.watch(tmp_path) as watch:
            offset = 40

            class Local(Account):
                def shifted(self, shift):
                    return int(shift(self._balance)) + offset

            watch.start("a#1", lambda host, allocation: Local(host, 1, allocation=allocation))

            assert watch.value("a#1", "shifted", lambda balance: balance + 1) == 42

    def test_actors_are_apart_and_concurrent(self, tmp_path):
        """Two actors start and are called at the same time. Each has its own state and replies."""
        with self.watch(tmp_path) as watch:
            for name in ("a#1", "b#1"):
                watch.executor.start(ActorSpec(name, Account, ONE_CPU))
            started = watch.take(2)
            assert {type(event) for event in started} == {Started}
            assert {event.actor_id for event in started} == {"a#1", "b#1"}
            watch.executor.call("a#1", "add", 1)
            watch.executor.call("b#1", "add", 10)
            replies = watch.take(2)

            assert sorted(replies, key=lambda event: event.actor_id) == [
                CallReturned("a#1", 1),
                CallReturned("b#1", 10),
            ]

    def test_user_code_of_two_actors_runs_at_the_same_time(self, tmp_path):
        """Each actor waits for a file that only the other one writes (`isolates`)."""
        with self.watch(tmp_path) as watch:
            _needs_processes(watch)
            watch.start("a#1", Mortal)
            watch.start("b#1", Mortal)
            files = [str(tmp_path / "a"), str(tmp_path / "b")]
            watch.executor.call("a#1", "meet", *files)
            watch.executor.call("b#1", "meet", *reversed(files))

            assert [event.value for event in watch.take(2) if isinstance(event, CallReturned)] == [True, True]

    def test_a_call_waits_for_the_one_before(self, tmp_path):
        """A second call in flight is refused and changes nothing. The same holds for a call while the actor starts."""
        with self.watch(tmp_path) as watch:
            watch.executor.start(ActorSpec("a#1", Account, ONE_CPU))
            with _raises(RuntimeError):
                watch.executor.call("a#1", "add", 1)
            watch.expect(Started, "a#1")
            watch.executor.call("a#1", "add", 1)
            with _raises(RuntimeError):
                watch.executor.call("a#1", "add", 100)

            assert watch.expect(CallReturned, "a#1").value == 1
            assert watch.value("a#1", "add", 1) == 2

    def test_unknown_actors(self, tmp_path):
        """A call of an unknown actor is an error; a stop does nothing. The same holds for an actor that has ended."""
        with self.watch(tmp_path) as watch:
            with _raises(RuntimeError):
                watch.executor.call("a#1", "add", 1)
            watch.executor.stop("a#1", GRACE_S)
            watch.start("a#1")
            watch.stop("a#1")
            with _raises(RuntimeError):
                watch.executor.call("a#1", "add", 1)
            watch.executor.stop("a#1", GRACE_S)

            assert watch.rest() == []

    def test_a_call_may_answer_before_it_ends(self, tmp_path):
        """It waits until it is called again. Other calls are made meanwhile."""
        with self.watch(tmp_path) as watch:
            watch.start("a#1", functools.partial(Account, balance=5))
            assert watch.value("a#1", "count", 2) == (1,)
            assert watch.value("a#1", "add", 3) == 8
            assert watch.error("a#1", "fail", "ValueError", "too bad").type_name == "ValueError"
            assert watch.value("a#1", "count") == (2,)
            assert watch.value("a#1", "count") == "done"
            assert watch.value("a#1", "count", 1) == (1,)
            assert watch.stop("a#1").kind == "stopped"
            assert watch.rest() == []

    # -- exceptions ------------------------------------------------------------------------------------------------

    def test_an_exception_leaves_the_actor_alive(self, tmp_path):
        """An exception of any kind arrives with its traceback, wherever the actor raised it."""
        with self.watch(tmp_path) as watch:
            watch.start("a#1", functools.partial(Account, balance=7))
            error = watch.error("a#1", "fail", "ValueError", "too bad")
            assert (error.type_name, error.message) == ("ValueError", "too bad")
            assert "in fail_deep_inside" in error.traceback
            loaded = error.load()
            assert isinstance(loaded, ValueError)
            assert loaded.args == ("too bad",)
            assert watch.error("a#1", "fail", "SystemExit", "leaving").type_name == "SystemExit"
            assert watch.error("a#1", "no_such_method").type_name == "AttributeError"

            assert watch.value("a#1", "add", 1) == 8

    def test_a_factory_that_raises(self, tmp_path):
        """`CallRaised` comes instead of `Started`. The actor holds its resources until it is stopped."""
        with self.watch(tmp_path) as watch:
            watch.executor.start(ActorSpec("a#1", refuse, ONE_CPU))
            error = watch.expect(CallRaised, "a#1").error

            assert error.last_line() == "ValueError: this factory makes nothing"
            assert "in refuse" in error.traceback
            assert watch.executor.resources()[1]["CPU"] == 1
            assert watch.stop("a#1").kind == "stopped"
            assert watch.executor.resources()[1]["CPU"] == 2

    def test_a_reply_that_cannot_be_pickled(self, tmp_path):
        """The call raises an error, and the actor lives."""
        with self.watch(tmp_path) as watch:
            watch.start("a#1")

            message = watch.error("a#1", "lock").message
            assert message.startswith("a value of type lock cannot be sent to the driver (")
            assert watch.value("a#1", "add", 1) == 1

    def test_arguments_that_cannot_be_pickled(self, tmp_path):
        """A TypeError comes at once, and nothing changes."""
        with self.watch(tmp_path) as watch:
            watch.start("a#1")
            with _raises(TypeError):
                watch.executor.call("a#1", "add", threading.Lock())
            lock = threading.Lock()
            with _raises(TypeError):
                watch.executor.start(
                    ActorSpec("b#1", lambda thread, allocation: (lock, Account(thread, allocation=allocation)), ONE_CPU)
                )

            assert watch.executor.resources()[1]["CPU"] == 1
            assert watch.value("a#1", "add", 1) == 1
            assert watch.start("b#1").actor_id == "b#1"
            assert watch.stop("b#1").kind == "stopped"

            self._park(watch, "c#1")
            with _raises(TypeError):
                self._start_reusable(watch, "d#1", outcome=lock)
            assert watch.executor.resources()[1]["CPU"] == 1
            assert self._start_reusable(watch, "d#1").reused

    # -- the end of an actor -----------------------------------------------------------------------------------------

    def test_a_stopped_actor_unwinds(self, tmp_path):
        """Its code ends, then its `stop()` is called, then `Exited` comes."""
        with self.watch(tmp_path) as watch:
            notes = tmp_path / "notes"
            watch.start("a#1", functools.partial(Worker, notes=str(notes)))
            assert watch.value("a#1", "begin") == ("begun",)

            assert watch.stop("a#1").kind == "stopped"
            assert notes.read_text(encoding="utf-8").split() == ["unwound", "stop"]

    def test_nothing_but_exited_after_stop(self, tmp_path):
        """After a stop, neither the reply to the running call nor that to the start is reported."""
        with self.watch(tmp_path) as watch:
            watch.start("a#1")
            watch.executor.call("a#1", "add", 1)
            watch.executor.stop("a#1", GRACE_S)
            assert watch.expect(Exited, "a#1").kind == "stopped"

            watch.start("b#1", functools.partial(Worker, notes=str(tmp_path / "notes")))
            watch.executor.call("b#1", "hang")
            watch.executor.stop("b#1", GRACE_S)
            watch.executor.stop("b#1", GRACE_S)
            assert watch.expect(Exited, "b#1").kind == "stopped"

            watch.executor.start(ActorSpec("c#1", Account, ONE_CPU))
            watch.executor.stop("c#1", GRACE_S)
            assert watch.expect(Exited, "c#1").kind == "stopped"
            assert watch.rest() == []

    def test_the_replies_of_an_actor_that_dies_come_first(self, tmp_path):
        """Its last replies come first, then one `Exited`, even if it is called in between (`isolates`)."""
        with self.watch(tmp_path) as watch:
            _needs_processes(watch)
            if not self.owns_processes:
                _skip("the system that runs the processes may lose what they send just before they die")
            watch.start("a#1", Mortal)
            assert watch.value("a#1", "answer_and_exit", 3) == ("last words",)
            watch.executor.call("a#1", "hang")
            end = watch.expect(Exited, "a#1")

            assert (end.kind, end.cause, end.exit_code, end.counts) == ("died", "exit code 3", 3, True)
            assert watch.rest() == []
            with _raises(RuntimeError):
                watch.executor.call("a#1", "hang")

    def test_a_killed_actor(self, tmp_path):
        """One `Exited` names the signal, whether the actor or a test sent it. Other actors live (`isolates`)."""
        with self.watch(tmp_path) as watch:
            _needs_processes(watch)
            watch.start("a#1", Mortal)
            pid = watch.start("b#1", Mortal).pid
            watch.executor.call("a#1", "kill_itself")
            ends = [watch.expect(Exited, "a#1")]
            watch.executor.call("b#1", "hang")
            os.kill(pid, signal.SIGKILL)
            ends.append(watch.expect(Exited, "b#1"))

            for end in ends:
                assert (end.kind, end.counts) == ("died", True)
                if self.owns_processes:
                    assert (end.cause, end.exit_code) == ("SIGKILL (9)", -9)
            assert watch.executor.resources()[1]["CPU"] == 2
            assert watch.rest() == []

    def test_a_call_of_an_actor_that_has_just_died_has_no_effect(self, tmp_path):
        """A caller handles one event after the other, so it may call before it comes to the exit (`isolates`)."""
        with self.watch(tmp_path) as watch:
            _needs_processes(watch)
            os.kill(watch.start("a#1", Mortal).pid, signal.SIGKILL)
            watch.expect(Exited, "a#1")
            watch.executor.call("a#1", "hang")
            assert watch.rest() == []

    def test_an_actor_that_does_not_stop_is_killed(self, tmp_path):
        """Its code would run much longer than the grace period (`isolates`)."""
        with self.watch(tmp_path) as watch:
            _needs_processes(watch)
            pid = watch.start("a#1", Account).pid
            watch.executor.call("a#1", "spend", 1000.0)
            watch.executor.stop("a#1", grace_s=0.0)

            assert watch.expect(Exited, "a#1").kind == "stopped"
            self._expect_end(pid)

    # -- waiting -----------------------------------------------------------------------------------------------------

    def test_wait_without_patience_does_not_block(self, tmp_path):
        """`wait(0)` returns at once without an actor, with an idle one, and (`isolates`) while a call runs."""
        with self.watch(tmp_path) as watch:
            began_s = time.monotonic()
            assert watch.executor.wait(0) == []
            watch.start("a#1")
            assert watch.executor.wait(0) == []
            if watch.executor.isolates:
                watch.executor.call("a#1", "spend", 1000.0)
                assert watch.executor.wait(0) == []
                watch.executor.stop("a#1", grace_s=0.0)
            assert time.monotonic() - began_s < self.bound_s

    def test_a_wait_ends_when_its_time_is_over(self, tmp_path):
        """So much time passes on the executor's clock, although nothing happens."""
        with self.watch(tmp_path) as watch:
            now = watch.executor.clock.monotonic
            began_s = now()

            assert watch.executor.wait(0.02) == []
            assert now() - began_s >= 0.02

    def test_wake_ends_a_wait(self, tmp_path):
        """It ends the current wait, from another thread, or the next one. No event is lost."""
        with self.watch(tmp_path) as watch:
            began_s = time.monotonic()
            waker = threading.Thread(target=watch.executor.wake)
            waker.start()
            try:
                assert watch.executor.wait(self.bound_s) == []
            finally:
                waker.join()
            watch.executor.wake()
            watch.executor.wake()
            assert watch.executor.wait(self.bound_s) == []
            assert time.monotonic() - began_s < self.bound_s

            watch.executor.start(ActorSpec("a#1", Account, ONE_CPU))
            watch.executor.wake()
            assert watch.expect(Started, "a#1").actor_id == "a#1"

    # -- resources ---------------------------------------------------------------------------------------------------

    def test_resources_are_held_from_start_to_exited(self, tmp_path):
        """The totals stay, the free amounts are exact at every step, and a start without room is refused."""
        totals = {"CPU": 2.0, "tokens": 3.0, "memory": 1000.0}
        request = Resources([{"CPU": 1, "memory": 400}, {"CPU": 0.5, "tokens": 3}])
        with self.watch(tmp_path, totals) as watch:
            executor = watch.executor
            assert executor.resources() == (totals, totals)
            assert executor.can_start(request)
            executor.start(ActorSpec("a#1", Account, request))
            held = {"CPU": 0.5, "tokens": 0.0, "memory": 600.0}
            assert executor.resources() == (totals, held)
            assert not executor.can_start(request)
            with _raises(RuntimeError):
                executor.start(ActorSpec("b#1", Account, request))
            watch.expect(Started, "a#1")
            assert executor.resources() == (totals, held)
            executor.stop("a#1", GRACE_S)
            assert executor.resources() == (totals, held)
            watch.expect(Exited, "a#1")

            assert executor.resources() == (totals, totals)
            assert executor.can_start(request)
            assert watch.start("b#1", Account, request).actor_id == "b#1"

    def test_impossible_request_is_an_error(self, tmp_path):
        """`can_start` raises an error that names the amounts, unless requests wait in the queue of the system. A
        request that has to wait is no error.
        """
        with self.watch(tmp_path) as watch:
            if not watch.executor.has_queue:
                with _raises(TuneError, match="3"):
                    watch.executor.can_start(Resources([{"CPU": 3}]))
                with _raises(TuneError, match="tokens"):
                    watch.executor.can_start(Resources([{"tokens": 1}]), waiter="a")
            watch.start("a#1")

            assert not watch.executor.can_start(Resources([{"CPU": 2}]))
            if not watch.executor.has_queue:
                assert not watch.executor.can_start(Resources([{"CPU": 2}]), waiter="b")
            watch.executor.forget("b")
            assert watch.executor.can_start(ONE_CPU)
            assert watch.executor.can_start(NOTHING)

    def test_devices_are_given_out_one_by_one(self, tmp_path):
        """A whole device belongs to one actor. Several actors share one by fractions."""
        with self.watch(tmp_path, {"CPU": 4.0, "GPU": 2.0}, ("7", "9")) as watch:
            first = watch.start("a#1", request=Resources([{"GPU": 1}]))
            halves = [watch.start(name, request=Resources([{"GPU": 0.5}])) for name in ("b#1", "c#1")]

            given = [started.allocation.gpu_ids for started in (first, *halves)]
            assert given[1] == given[2]
            assert {given[0], given[1]} == {("7",), ("9",)}
            assert watch.executor.resources()[1]["GPU"] == 0
            assert not watch.executor.can_start(Resources([{"GPU": 0.5}]))

    # -- shared values -----------------------------------------------------------------------------------------------

    def test_a_shared_value_arrives(self, tmp_path):
        """The actor gets an equal value. The handle is small, even for a large value."""
        with self.watch(tmp_path) as watch:
            value = {"rows": list(range(100_000))}
            handle = watch.executor.share(value)

            assert len(pickle.dumps(handle)) < 2000
            assert handle.get() == value
            assert pickle.loads(pickle.dumps(handle)).get() == value
            watch.start("a#1", functools.partial(Reader, shared=handle))
            assert watch.value("a#1", "value") == value

    def test_a_shared_value_is_loaded_once_per_process(self, tmp_path):
        """Each process loads it once, however often it is read. An unpicklable value is refused (`isolates`)."""
        with self.watch(tmp_path) as watch:
            _needs_processes(watch)
            handle = watch.executor.share(Counted("data"))
            with _raises(TypeError):
                watch.executor.share({"model": threading.Lock()})
            for name in ("a#1", "b#1"):
                watch.start(name, functools.partial(Reader, shared=handle))
                assert watch.value(name, "read_twice") == ("data", True, 1)
                assert watch.value(name, "read_twice") == ("data", True, 1)

    # -- parking -----------------------------------------------------------------------------------------------------

    def test_a_parked_actor_is_used_again(self, tmp_path):
        """After `reset`, the same object serves under another id. A parked actor holds no resources."""
        with self.watch(tmp_path) as watch:
            first = self._park(watch, "a#1")
            assert watch.executor.resources()[1] == watch.executor.resources()[0]
            with _raises(RuntimeError):
                watch.executor.call("a#1", "history")
            again = self._start_reusable(watch, "b#1")

            assert again.reused
            assert again.pid == first.pid
            assert watch.value("b#1", "history") == ["a#1", "b#1"]
            assert watch.executor.resources()[1]["CPU"] == 1
            assert watch.stop("b#1", keep=True).kind == "parked"
            assert self._start_reusable(watch, "c#1").reused
            assert watch.value("c#1", "history") == ["a#1", "b#1", "c#1"]
            assert watch.stop("c#1").kind == "stopped"
            assert not self._start_reusable(watch, "d#1").reused

    def test_a_parked_actor_that_cannot_be_reset(self, tmp_path, monkeypatch):
        """The executor makes a new one, and reports no event of the old one."""
        monkeypatch.setenv("MINITUNE_FUNCTION_THREAD_TIMEOUT_S", "0.5")
        with self.watch(tmp_path) as watch:
            for number, outcome in enumerate(("no", "raise", "exit", "slow")):
                self._park(watch, f"a{number}#1")
                started = self._start_reusable(watch, f"b{number}#1", outcome=outcome)
                assert not started.reused
                assert watch.value(f"b{number}#1", "history") == [f"b{number}#1"]
                assert watch.stop(f"b{number}#1").kind == "stopped"
                assert watch.executor.resources()[1] == watch.executor.resources()[0]

            assert watch.rest() == []

    def test_a_parked_actor_waits_for_its_key_and_its_request(self, tmp_path):
        """For another key, another request or no key, a fresh actor is made. Without a key it is never kept."""
        with self.watch(tmp_path, {"CPU": 3.0}) as watch:  # a parked process may keep its resources on a cluster
            self._park(watch, "a#1")

            for name, key, request in (
                ("b#1", "another key", ONE_CPU),
                ("c#1", "key", Resources([{"CPU": 2}])),
                ("d#1", None, ONE_CPU),
            ):
                assert not self._start_reusable(watch, name, key=key, request=request).reused
                assert watch.stop(name, keep=key is None).kind == "stopped"
            assert self._start_reusable(watch, "e#1").reused

    def test_a_parked_actor_that_has_died(self, tmp_path):
        """A fresh actor is made, whether its death is already known or not (`isolates`)."""
        with self.watch(tmp_path) as watch:
            _needs_processes(watch)
            for number in range(2):
                pid = self._park(watch, f"a{number}#1").pid
                os.kill(pid, signal.SIGKILL)
                until_s = time.monotonic() + self.bound_s
                while number == 0 and _is_alive(pid):
                    assert time.monotonic() < until_s
                    assert watch.executor.wait(0.01) == []
                assert not self._start_reusable(watch, f"b{number}#1").reused
                assert watch.value(f"b{number}#1", "history") == [f"b{number}#1"]
                assert watch.stop(f"b{number}#1").kind == "stopped"

            assert watch.rest() == []

    def test_a_stop_beats_a_reset(self, tmp_path):
        """After a stop during a reset, only `Exited` follows."""
        with self.watch(tmp_path) as watch:
            self._park(watch, "a#1")
            watch.executor.start(ActorSpec("b#1", Reusable, ONE_CPU, reuse_key="key", args=("b#1", "yes")))
            watch.executor.stop("b#1", GRACE_S)

            assert watch.expect(Exited, "b#1").kind == "stopped"
            assert watch.executor.resources()[1] == watch.executor.resources()[0]
            assert watch.rest() == []

    # -- the end -----------------------------------------------------------------------------------------------------

    def test_shutdown_leaves_nothing(self, tmp_path):
        """No actor is left, in whatever state it was, no thread and no stored value. A second shutdown does nothing."""
        threads = set(threading.enumerate())
        with self.watch(tmp_path, {"CPU": 8.0}) as watch:
            pids = [
                watch.start("idle#1").pid,
                self._park(watch, "parked#1").pid,
                watch.start("begun#1", functools.partial(Worker, notes=str(tmp_path / "notes"))).pid,
                watch.start("busy#1").pid,
            ]
            watch.value("begun#1", "begin")
            watch.executor.share([1, 2, 3])
            watch.executor.call("busy#1", "add", 1)
            watch.executor.start(ActorSpec("starting#1", Account, ONE_CPU))
            watch.executor.shutdown()
            watch.executor.shutdown(grace_s=1.0)

            for pid in pids:
                if pid != os.getpid():
                    self._expect_end(pid)
            assert {path.name for path in tmp_path.iterdir()} <= {"notes"}
            for thread in set(threading.enumerate()) - threads:
                thread.join(self.bound_s)
                assert not thread.is_alive(), f"thread {thread.name!r} is left"

    # -- helpers -----------------------------------------------------------------------------------------------------

    def _start_reusable(self, watch, name, key="key", request=ONE_CPU, outcome="yes"):
        return watch.start(name, Reusable, request, reuse_key=key, args=(name, outcome))

    def _expect_end(self, pid):
        """Fail if a process lives that must have ended. See `owns_processes`."""
        until_s = time.monotonic() + (0.0 if self.owns_processes else self.bound_s)
        while _is_alive(pid) and time.monotonic() < until_s:
            time.sleep(0.01)
        assert not _is_alive(pid)

    def _park(self, watch, name):
        """Start a fresh actor and park it."""
        started = self._start_reusable(watch, name)
        assert not started.reused
        assert watch.stop(name, keep=True).kind == "parked"
        return started


def _raises(kind, match=None):
    """`pytest.raises`, imported here for the sake of the workers."""
    import pytest

    return pytest.raises(kind, match=match)


def _needs_processes(watch):
    """Skip a clause about processes for an executor that has none."""
    if not watch.executor.isolates:
        _skip("this executor runs its actors in the driver's process, where none can die alone")


def _skip(reason):
    import pytest

    pytest.skip(reason)


def _is_alive(pid):
    import psutil

    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
