"""A Ray actor as the driver sees it: a process that serves actors, one after the other, with one request at a time.

The side on the node is `RayActor`. A request is a call of a Ray actor; a thread of Ray's posts the answer to the
driver's loop, which does not poll. If the connection breaks before the answer has come, the same request is sent again,
and the actor carries out each one once.

A death has one source: the *watch*, a call that never returns. If a node dies while an answer travels, that answer is
in none of Ray's queues of calls any more, and Ray tells of its loss after ten minutes only.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import Any

from minitune.actor.loop import Loop, Timer
from minitune.actor.messages import Workplace
from minitune.base.pickling import dumps
from minitune.checkpoint import rename_prepared, temporary_path, written_by_us
from minitune.error import RemoteError
from minitune.executors.trial_executor import ActorSpec
from minitune.ray.cluster.actor import WATCH, Delivery, Here
from minitune.resources import Allocation

_AGAIN_S = 0.5
"""The pause before a request is sent again whose connection has broken."""


class ClusterActorPhase(Enum):
    """The phases of an actor: it waits for room, makes its object, is idle, answers a call, or is stopped."""

    WAITING = "waiting"
    STARTING = "starting"
    IDLE = "idle"
    CALLED = "called"
    STOPPING = "stopping"


class RayProcess:
    """A Ray actor, which serves one of our actors after the other, with one request at a time."""

    here: Here | None = None
    allocation = Allocation()
    actor: ActorOnCluster | None = None
    is_dead = False
    is_resetting = False

    def __init__(
        self,
        handle: Any,
        group: Any,
        spec: ActorSpec,
        loop: Loop,
        on_death: Callable[[RayProcess, BaseException], object],
    ):
        self.handle = handle
        self.group = group
        self.spec = spec
        self._request = handle.ask  # bound once: Ray makes a new object each time
        self._number = 0
        self._loop = loop
        self._on_death = on_death
        self._timers: list[Timer] = []
        self._watch()

    def _watch(self) -> None:
        from ray import exceptions

        def on_loop(future: Any) -> None:
            error = future.exception()
            if isinstance(error, exceptions.ActorUnavailableError):  # it may live, behind a broken connection
                self._loop.call_later(_AGAIN_S, self._watch)
            else:
                self._on_death(self, error)

        self._on_answer(self.handle.watch.options(concurrency_group=WATCH).remote(), on_loop)

    def _on_answer(self, reference: Any, then: Callable[[Any], object]) -> None:
        # A thread of Ray's calls this. Only `post` of the loop may be called from other threads.
        reference.future().add_done_callback(lambda future: self._loop.post(functools.partial(then, future)))

    def ask(self, then: Callable[[Delivery], object], verb: str, *args: Any) -> None:
        """Send a request. `then` gets the answer, unless the process dies."""
        self._number += 1
        self.send(then, functools.partial(self._request.remote, self._number, verb, *args))

    def send(self, then: Callable[[Any], object], call: Callable[[], Any]) -> None:
        """Call a method of the Ray actor, and call `then` on the loop with its value, unless the process dies. If the
        answer does not come through, `call` is called again.
        """
        from ray import exceptions

        def on_loop(future: Any) -> None:
            if self.is_dead:
                return
            error = future.exception()
            if error is None:
                value = future.result()
                then(Delivery(value) if isinstance(value, bytes) else value)
            elif isinstance(error, exceptions.RayTaskError):  # our side there has failed, but it lives
                then(Delivery(error=RemoteError.of(error)))
            else:
                self.after(_AGAIN_S, lambda: self.send(then, call))

        self._on_answer(call(), on_loop)

    def after(self, delay_s: float, callback: Callable[[], object]) -> None:
        """Call `callback` on the loop after this time, unless `cancel_timers` comes first."""
        self._timers.append(self._loop.call_later(delay_s, callback))

    def cancel_timers(self) -> None:
        """Cancel all calls of `after`."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def give_back(self) -> None:
        """Let Ray kill it and free its placement group."""
        import ray

        # Each on its own, and without errors: the cluster may be gone, and so may one of them.
        with suppress(Exception):
            ray.kill(self.handle, no_restart=True)
        if self.group is not None:
            with suppress(Exception):
                ray.util.remove_placement_group(self.group)


class ActorOnCluster:
    """One actor."""

    process: RayProcess
    shows_stacks = False
    why_stopped = "stopped"

    def __init__(self, spec: ActorSpec, workplace: Workplace):
        self.actor_id = spec.actor_id
        self.spec = spec
        self.workplace = workplace
        self.phase = ClusterActorPhase.WAITING
        # Pickled now, so that a value that cannot be sent is an error of the start, and not of a later retry.
        self.factory = dumps((spec.factory, spec.args), "the factory")
        self.reset_args = b""
        if spec.reuse_key is not None:
            # None: the process keeps its allocation, because Ray does not change what an actor holds.
            self.reset_args = dumps((*spec.args, None), "an argument of reset()")
        self.values: list[tuple[str, Any]] = []

    def commit(self, number: int) -> None:
        """Give a checkpoint its final name; before that, no other attempt can take it.

        Raises:
            FileNotFoundError: If it is not in the trial's directory.
            DiskError: If the disk of the run refuses it.
        """
        directory = self.spec.directory
        assert directory is not None
        # The name of the attempt is in the path, so an attempt that Ray has given up cannot take this one's place.
        attempt = int(self.actor_id.rpartition("#")[2])
        try:
            with written_by_us(directory):
                rename_prepared(temporary_path(directory, number, attempt), directory, number)
        except FileNotFoundError as missing:
            raise FileNotFoundError(
                f"a node has written checkpoint {number}, but it is not in {directory}: that is removed, or the node "
                "has a copy of the run's directory instead of the directory itself"
            ) from missing
