"""ZygoteLauncher: lets zygotes fork the workers. Linux only.

A launcher has up to three kinds of zygotes:

- The *bare* one has imported the modules that all workers need, and nothing else. The driver may start it ahead.
- The *loaded* one has also preloaded values of this run, such as the trainable. Workers that may use them wait until it
  has loaded them. A preload that fails, takes too long, or makes forking unsafe is left to each worker.

While workers come and go quickly, one is always forked in advance, the *spare*, so that the next actor need not wait.
If the system forbids the fork, later workers are new interpreters.

If a zygote dies, its workers die with it by the parent-death signal, and the launcher kills their descendants by their
markers. One that is stuck (see `doubt`) is killed.
"""

from __future__ import annotations

import itertools
import logging
import select
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

if sys.platform != "linux":
    raise ImportError("the zygote needs Linux; other systems start a new interpreter per worker")

from minitune.actor import process_tree
from minitune.actor.channel import Ends, worker_sockets
from minitune.actor.launcher import End, Launcher, OnEnd
from minitune.actor.loop import READ, WRITE, Loop, TimeLimit
from minitune.actor.messages import (
    CLOSE_S,
    FORBIDDEN_EXIT,
    PRELOAD_S,
    SHORT_LIFE_S,
    ZYGOTE_ANSWER_S,
    ZYGOTE_HELLO_S,
)
from minitune.actor.packets import Packet, receive_packet
from minitune.actor.process_tree import Sweep, marker_of
from minitune.actor.sockets import Socket
from minitune.actor.zygote_process import ZygoteProcess
from minitune.base.disk import has_too_many_open
from minitune.base.process_limits import with_limits

if TYPE_CHECKING:
    from minitune.actor.doubt import Doubt
    from minitune.actor.interpreter_launcher import InterpreterLauncher

_log = logging.getLogger("minitune")


@dataclass
class _ForkedWorker:
    """The launcher's record of one worker.

    Attributes:
        ours: The driver's ends of its pipes, closed here only of a spare.
        zygote: The one that was asked to fork it, or None.
    """

    token: int
    on_end: OnEnd
    began_s: float
    ours: Ends
    theirs: Ends | None
    zygote: ZygoteProcess | None = None


class ZygoteLauncher(Launcher):
    """A `Launcher` with zygotes."""

    def __init__(
        self,
        loop: Loop,
        run_id: str,
        keep_descendants: bool,
        needed: Sequence[str] = (),
        ahead: ZygoteProcess | None = None,
    ):
        self._loop = loop
        self._run_id = run_id
        self._keep_descendants = keep_descendants
        self._needed = needed
        self._ahead = ahead
        self._zygotes: set[ZygoteProcess] = set()
        self._doubts: dict[ZygoteProcess, Doubt] = {}
        self._bare: ZygoteProcess | None = None
        self._preload = _Preload(self, loop)
        self._tokens = itertools.count(1)
        self._workers: dict[int, _ForkedWorker] = {}
        self._spare: _ForkedWorker | None = None
        self._lives_are_short = False
        self._interpreters: InterpreterLauncher | None = None  # in use where no zygote may fork

    @property
    def hello_s(self) -> float:
        if self._interpreters is not None:
            return self._interpreters.hello_s
        return ZYGOTE_HELLO_S + self._preload.longest_s  # a worker may have to wait for it

    @property
    def importing(self) -> str:
        return self._preload.importing

    # -- Launcher ----------------------------------------------------------------------------------------------

    def launch(self, on_end: OnEnd, preload: bool) -> tuple[int, Socket, Socket]:
        if self._interpreters is not None:
            return self._interpreters.launch(on_end, preload)
        # the zygote that `_choose` would choose, if it is ready
        zygote = self._preload.ready_zygote if preload and self._preload.actions else self._bare
        worker = self._take_spare(zygote)
        if worker is None:
            worker = self._new(on_end)
            self.fork_or_hold(worker, preload)
        else:
            worker.on_end = on_end
            worker.began_s = self._loop.time()
        # The next spare is asked for after this worker, so it does not delay it.
        if self._lives_are_short and self._spare is None and zygote is not None:
            self._fork_ahead(zygote)
        return worker.token, *worker.ours

    def signal(self, token: int, number: int, whole_group: bool) -> None:
        worker = self._workers.get(token)
        if worker is None and self._interpreters is not None:
            self._interpreters.signal(token, number, whole_group)
        elif worker is not None and worker.zygote is not None:
            self.send(worker.zygote, ("signal", token, int(number), whole_group))

    def kill(self, token: int) -> None:
        worker = self._workers.get(token)
        if worker is None:
            if self._interpreters is not None:
                self._interpreters.kill(token)
        elif worker.zygote is not None:
            self.send(worker.zygote, ("kill", token))
        elif worker.theirs is not None:  # no zygote was asked for it yet; otherwise it is being killed already
            self._loop.call_later(0.0, lambda: self._finish(worker, End()))

    def force(self, token: int) -> None:
        """The driver does the zygote's work."""
        worker = self._workers.get(token)
        if worker is None:
            if self._interpreters is not None:
                self._interpreters.force(token)
            return
        if worker.zygote is not None:
            self._question(worker.zygote)  # a stuck one would keep every later worker waiting as well
        self._sweep([worker], End())

    def doubt(self, token: int, on_sound: Callable[[], object]) -> None:
        worker = self._workers.get(token)
        if worker is None:
            if self._interpreters is not None:
                self._interpreters.doubt(token, on_sound)
        elif worker.zygote is not None:
            self._question(worker.zygote).call_if_sound(on_sound)
        elif worker.theirs is not None:  # it waits for a preload; otherwise its zygote has died, and its end follows
            on_sound()

    def preload(self, action: bytes) -> None:
        if self._interpreters is None:
            self._preload.add(action)

    def close(self) -> None:
        killed = [zygote for zygote in list(self._zygotes) if self._retire(zygote)]
        left = [marker_of(self._run_id, each.token) for each in self._workers.values() if each.zygote in killed]
        if left:
            process_tree.sweep(left, CLOSE_S)
        self._drop_spare(self._spare)
        for worker in self._workers.values():
            _close_ends(worker.theirs)
        self._workers.clear()
        if self._interpreters is not None:
            self._interpreters.close()

    # -- zygotes ---------------------------------------------------------------------------------------------

    def start_zygote(self) -> ZygoteProcess:
        """Start a zygote, or take the one that was started ahead."""
        zygote = self._ahead or ZygoteProcess(self._run_id, self._keep_descendants, self._needed)
        self._ahead = None
        self._zygotes.add(zygote)
        self._loop.watch(zygote.end.fileno(), partial(self._on_socket, zygote))
        self._loop.watch(zygote.pidfd, lambda mask: self._on_zygote_dead(zygote))
        return zygote

    def drop_zygote(self, zygote: ZygoteProcess) -> None:
        """Fork no more workers from a zygote; its workers live on."""
        if self._spare is not None and self._spare.zygote is zygote:
            self._drop_spare(self._spare)
        if not any(worker.zygote is zygote for worker in self._workers.values()):
            zygote.popen.kill()  # it may be busy with foreign code; its death will be reported

    def _question(self, zygote: ZygoteProcess) -> Doubt:
        doubt = self._doubts.get(zygote)
        if doubt is None:
            from minitune.actor.doubt import Doubt  # most runs have none

            is_busy = partial(self._preload.is_loading_in, zygote)
            doubt = self._doubts[zygote] = Doubt(self._loop, is_busy, partial(self._end_stuck, zygote))
            self.send(zygote, ("ask",))
        return doubt

    def _end_stuck(self, zygote: ZygoteProcess) -> None:
        zygote.cause = f"the zygote did not answer for {ZYGOTE_ANSWER_S:g} s and was killed"
        zygote.popen.kill()  # its death will be reported
        self._forget(zygote)

    def _forget(self, zygote: ZygoteProcess) -> None:
        if zygote is self._bare:
            self._bare = None
        self._preload.on_zygote_dead(zygote)

    def _retire(self, zygote: ZygoteProcess) -> bool:
        """End a zygote and its workers; returns whether descendants may live."""
        doubt = self._doubts.pop(zygote, None)
        if doubt is not None:
            doubt.close()
        self._loop.unwatch(zygote.end.fileno())
        self._loop.unwatch(zygote.pidfd)
        self._zygotes.discard(zygote)
        return zygote.close()

    def _on_zygote_dead(self, zygote: ZygoteProcess) -> None:
        """Kill the descendants of its workers, which die with it."""
        # First its last words: a worker whose end it has reported is not lost.
        while self._receive(zygote):
            pass
        self._retire(zygote)
        reason = zygote.cause or f"the zygote ended with status {zygote.popen.returncode}"
        self._forget(zygote)
        lost = [worker for worker in self._workers.values() if worker.zygote is zygote]
        if zygote.popen.returncode in (FORBIDDEN_EXIT, -signal.SIGSYS):
            reason = "the system does not allow to fork workers"
            self._use_interpreters(reason)
        elif lost:
            _log.warning("%s; %d worker(s) are lost with it", reason, len(lost))
        for worker in lost:
            worker.zygote = None  # so that nothing is sent to it any more
        # One search finds the descendants of all of them: it reads every process of the machine.
        self._sweep(lost, End("lost", reason))

    def _sweep(self, workers: list[_ForkedWorker], end: End) -> None:
        """Kill the trees of workers in place of the zygote, and report their end."""

        def on_done(survivors: bool) -> None:
            for worker in workers:
                self._finish(worker, end._replace(survivors=survivors))

        if workers:
            Sweep(self._loop, [marker_of(self._run_id, worker.token) for worker in workers], on_done)

    # -- the spare worker --------------------------------------------------------------------------------------

    def _fork_ahead(self, zygote: ZygoteProcess) -> None:
        try:
            spare = self._new(_ignore)
        except OSError:  # no file descriptor is free; the next launch will report that
            return
        # It may end after it was dropped, when there is another spare already.
        spare.on_end = lambda end: self._drop_spare(spare)
        self._spare = spare
        self._ask(zygote, spare)

    def _take_spare(self, zygote: ZygoteProcess | None) -> _ForkedWorker | None:
        """Return the spare worker, if it is alive and from this zygote."""
        spare = self._spare
        if spare is None or spare.zygote is not zygote:
            return None
        if _has_hung_up(spare.ours[0]):
            self._drop_spare(spare)
            return None
        self._spare = None
        return spare

    def _drop_spare(self, spare: _ForkedWorker | None) -> None:
        """Forget a spare worker: without its channels it ends."""
        if spare is not None and spare is self._spare:
            _close_ends(spare.ours)
            self._spare = None

    # -- workers -----------------------------------------------------------------------------------------------

    def _new(self, on_end: OnEnd) -> _ForkedWorker:
        ours, theirs = worker_sockets()
        token = next(self._tokens)
        worker = self._workers[token] = _ForkedWorker(token, on_end, self._loop.time(), ours, theirs)
        return worker

    def fork_or_hold(self, worker: _ForkedWorker, preload: bool) -> None:
        """Request a worker from the right zygote, or let it wait until that has loaded."""
        if worker.token not in self._workers:  # it was killed while it has waited
            return
        try:
            zygote = self._choose(preload)
        except OSError as error:
            if has_too_many_open(error):
                raise
            # Not at once: the caller of `launch` does not know the token yet.
            end = End("refused", with_limits(f"the zygote could not be started: {error}"))
            self._loop.call_later(0.0, lambda: self._finish(worker, end))
            return
        if zygote is None:
            self._preload.held.append(worker)
        else:
            self._ask(zygote, worker)

    def _ask(self, zygote: ZygoteProcess, worker: _ForkedWorker) -> None:
        worker.zygote = zygote
        assert worker.theirs is not None
        self.send(zygote, ("fork", worker.token), worker.theirs)
        worker.theirs = None

    def _choose(self, preload: bool) -> ZygoteProcess | None:
        """Return the zygote for a worker, started if necessary; None while it is still loading."""
        if preload and self._preload.actions:
            self._preload.ensure_zygote()
            if self._preload.is_loading:
                return None
            if self._preload.ready_zygote is not None:
                return self._preload.ready_zygote
        if self._bare is None:
            self._bare = self.start_zygote()
        return self._bare

    def _use_interpreters(self, reason: str) -> None:
        """Start new interpreters from now on, because this system never allows the fork."""
        if self._interpreters is None:
            from minitune.actor.interpreter_launcher import InterpreterLauncher

            _log.warning("%s, so each starts a new interpreter, which takes longer", reason)
            self._interpreters = InterpreterLauncher(self._loop, self._run_id, self._keep_descendants, self._tokens)

    def _finish(self, worker: _ForkedWorker, end: End) -> None:
        if self._workers.pop(worker.token, None) is not None:
            if worker.theirs is not None:
                _close_ends(worker.theirs)
            worker.on_end(end)

    # -- the socket --------------------------------------------------------------------------------------------

    def send(self, zygote: ZygoteProcess, packet: Packet, attached: Sequence[Socket] = ()) -> None:
        """Send a packet to a zygote, now or when its socket accepts it; then close the attached sockets."""
        zygote.outbox.send(packet, attached)
        if zygote.outbox.unsent and zygote.end.fileno() >= 0:
            self._loop.watch(zygote.end.fileno(), partial(self._on_socket, zygote), READ | WRITE)

    def _on_socket(self, zygote: ZygoteProcess, mask: int) -> None:
        if mask & WRITE:
            zygote.outbox.flush()
            if not zygote.outbox.unsent:
                self._loop.watch(zygote.end.fileno(), partial(self._on_socket, zygote))
        if mask & READ and not self._receive(zygote):
            self._loop.unwatch(zygote.end.fileno())  # its descriptor will report its death

    def _receive(self, zygote: ZygoteProcess) -> bool:
        """Handle one packet; return whether there may be more."""
        try:
            packet = receive_packet(zygote.end)
        except OSError as error:
            return isinstance(error, BlockingIOError) and zygote.popen.poll() is None
        if packet is None:
            return False
        (kind, *fields), _ = packet
        if zygote in self._doubts:
            if kind == "here":
                self._doubts.pop(zygote).answered()
                return True
            self._doubts[zygote].hear()
        if kind == "importing":
            (self._preload.importing,) = fields
            return True
        if kind == "preloaded":
            self._preload.on_answer(zygote, *fields)
            return True
        token, *facts = fields
        worker = self._workers.get(token)
        if worker is None:
            pass  # the driver has done the zygote's work
        elif kind == "ended":
            self._lives_are_short = self._loop.time() - worker.began_s < SHORT_LIFE_S
            self._finish(worker, End("died", "", *facts))
        elif kind == "refused":
            self._finish(worker, End("refused", *facts))
        return True


class _Preload:
    """The actions of all preloads, and the loaded zygote, which carries them out in order.

    If one fails, the others are repeated in a new zygote, without a trace of it.
    """

    def __init__(self, launcher: ZygoteLauncher, loop: Loop):
        self.importing = ""
        self.held: list[_ForkedWorker] = []
        self._launcher = launcher
        self._zygote: ZygoteProcess | None = None
        self.actions: list[bytes] = []
        self._num_open = 0  # so many of the actions, the last ones, are not answered yet
        self._limit = TimeLimit(loop)  # for the first open action

    @property
    def is_loading(self) -> bool:
        """Whether an action is not carried out yet."""
        return self._num_open > 0

    def is_loading_in(self, zygote: ZygoteProcess) -> bool:
        """Whether this zygote is carrying out an action, with a limit of its own."""
        return self.is_loading and zygote is self._zygote

    @property
    def ready_zygote(self) -> ZygoteProcess | None:
        """The zygote that has loaded everything."""
        return None if self._num_open else self._zygote

    @property
    def longest_s(self) -> float:
        """Seconds that a worker may have to wait."""
        return len(self.actions) * PRELOAD_S if self._num_open else 0.0

    def add(self, action: bytes) -> None:
        """Carry out one more action."""
        self.actions.append(action)
        if self._zygote is None:
            self.ensure_zygote()
        else:
            self._send(self._zygote, action)

    def on_answer(self, zygote: ZygoteProcess, failure: str, unsafe: str) -> None:
        self.importing = ""
        if zygote is not self._zygote:  # it was dropped before this answer came
            return
        if failure:
            _log.debug(
                "preloading failed; each worker loads the trainable itself and reports its own error:\n%s", failure
            )
        if failure or unsafe:
            self._leave_out(unsafe or "it failed")
            return
        self._num_open -= 1
        if self._num_open:
            self._expect_answer()
        else:
            self._release()

    def on_zygote_dead(self, zygote: ZygoteProcess) -> None:
        if zygote is not self._zygote:
            return
        self._zygote = None
        if self._num_open:
            self._leave_out(f"the process that loads it ended with status {zygote.popen.returncode}")

    def ensure_zygote(self) -> None:
        """Start the zygote, unless there is one, and send it all actions."""
        if self._zygote is not None:
            return
        try:
            zygote = self._zygote = self._launcher.start_zygote()
        except OSError as error:
            self._give_up(f"could not start a process for it: {error}")
            return
        for action in self.actions:
            self._send(zygote, action)

    def _send(self, zygote: ZygoteProcess, action: bytes) -> None:
        self._launcher.send(zygote, ("preload", action))
        self._num_open += 1
        self._expect_answer()

    def _expect_answer(self) -> None:
        self._limit.set(PRELOAD_S, lambda: self._leave_out(f"it takes longer than {PRELOAD_S:g} s"))

    def _leave_out(self, reason: str) -> None:
        """Drop the action in progress, and repeat the others in a new zygote."""
        _log.info("each worker loads the trainable itself, because loading it once for all failed: %s", reason)
        # Answers come in order, so the first open action is the one that has failed or hangs. What it has done to the
        # zygote cannot be undone.
        culprit = len(self.actions) - self._num_open
        others = self.actions[:culprit] + self.actions[culprit + 1 :]
        self._drop()
        self.actions = others
        if others:
            self.ensure_zygote()
        else:
            self._release()

    def _give_up(self, reason: str) -> None:
        _log.info("workers are started without preload: %s", reason)
        self._drop()
        self._release()

    def _drop(self) -> None:
        zygote = self._zygote
        self._zygote = None
        self.actions = []
        self._num_open = 0
        self._limit.clear()
        if zygote is not None:
            self._launcher.drop_zygote(zygote)

    def _release(self) -> None:
        """Start the workers that have waited."""
        self._limit.clear()
        held = self.held
        self.held = []
        for worker in held:
            self._launcher.fork_or_hold(worker, preload=True)


def _ignore(end: End) -> None:
    """For a worker that has no owner yet."""


def _close_ends(ends: Sequence[Socket] | None) -> None:
    for end in ends or ():
        end.close()


def _has_hung_up(end: Socket) -> bool:
    """Whether the process at the other end is dead: the kernel shows that before the zygote reports it."""
    poll = select.poll()
    poll.register(end, 0)  # a hang-up is reported although no event is asked for
    return bool(poll.poll(0))
