"""Relay: lets a driver have workers on another machine. It starts them there and passes their bytes on, both ways.

::

    driver                              relay, on the other machine                  worker
    RelayLauncher  <== one TCP link ==> serve(): a launcher of that machine  <-- control channel, report pipe -->

The relay does not read messages. It has a launcher of its own, so the life of a worker (start, exit code, peak memory,
the kill of its whole tree) is the same as on the driver's machine. It reports that life as the events of a `Listener`.
All data of a worker goes over one connection, in order, so its last messages come before its death. Nothing polls, and
no thread is between the connection and the driver's loop.

Either side takes the end of the connection for the death of the other side. If the driver is gone, the relay kills its
workers and exits. If the relay is gone, the zygote of its workers kills them and exits, within `CLOSE_S`. The driver
reports their ends only after that time, because two attempts of a trial must never run at the same time.

The connection carries packets: a kind, the number of a worker, a length, and a body.
"""

from __future__ import annotations

import hmac
import itertools
import os
import socket
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from minitune.actor import process_tree
from minitune.actor.channel import CHUNK_BYTES, Channel, ChannelClosedError, DriverEnd, Handle, OnBroken
from minitune.actor.launcher import Launcher, Listener, new_run_id
from minitune.actor.loop import Loop, Timer
from minitune.actor.messages import (
    CLOSE_S,
    EOF_S,
    INTERPRETER_HELLO_S,
    KILL_CONFIRM_S,
    PRELOAD_S,
    ProtocolError,
    as_text,
    join_fields,
    split_fields,
)
from minitune.actor.process import make_launcher
from minitune.actor.process_tree import MemoryKills

_HEAD = struct.Struct("!BII")
_BODY_BYTES = 64 * 1024 * 1024
"""The longest body of a packet; a longer frame travels in several."""
_GREETING_BYTES = 4096
"""The longest body that is accepted from a peer that has not shown the secret yet."""
CONNECT_S = 30.0
"""Seconds for a relay to reach the driver."""

# From the driver.
_LAUNCH, _CONTROL, _REPORTS, _SIGNAL, _KILL, _FORCE, _CLOSE_ENDS, _LEAVE, _PRELOAD = range(1, 10)
# From the relay; `_CONTROL` and `_REPORTS` go both ways.
_HELLO, _STARTED, _REFUSED, _LOST, _DEAD, _EXITED, _GONE, _BROKEN = range(11, 19)


class Link:
    """One end of the connection between driver and relay, on a loop. It never blocks.

    Args:
        loop: Calls back.
        end: A connected socket; this object closes it.
        handle: Called with the kind, the worker's number and the body of each packet.
        on_end: Called once, with the reason, when the connection has ended or shows something else than packets.
        limit_bytes: The longest body.
    """

    def __init__(
        self,
        loop: Loop,
        end: socket.socket,
        handle: Callable[[int, int, bytes], object],
        on_end: Callable[[str], object],
        limit_bytes: int = _BODY_BYTES,
    ):
        self.handle, self.on_end, self.limit_bytes = handle, on_end, limit_bytes
        self._buffer = bytearray()
        self._is_open = True
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._channel = Channel(end)
        self._channel.pass_on(loop, self._take, lambda error: self._finish(f"its connection ended ({error})"))

    def send(self, kind: int, number: int, *body: bytes | memoryview) -> None:
        """Send a packet now, or when it can be sent. The end of the connection is no error here: `on_end` is called."""
        if not self._is_open:
            return
        length = sum(map(len, body))
        if length > self.limit_bytes:
            whole = memoryview(b"".join(body))
            for begin in range(0, length, self.limit_bytes):
                self.send(kind, number, whole[begin : begin + self.limit_bytes])
            return
        head = _HEAD.pack(kind, number, length)
        if length <= CHUNK_BYTES:
            self._channel.send(b"".join((head, *body)))  # one call of the system
        else:
            self._channel.send(head, *body)

    def _take(self, data: bytes) -> None:
        self._buffer += data
        start = 0
        while self._is_open and start + _HEAD.size <= len(self._buffer):
            kind, number, length = _HEAD.unpack_from(self._buffer, start)
            if length > self.limit_bytes:
                self._finish(f"it sent {length} bytes in one piece, but {self.limit_bytes} is the limit")
                return
            end = start + _HEAD.size + length
            if end > len(self._buffer):
                break
            body = bytes(self._buffer[start + _HEAD.size : end])
            start = end
            self.handle(kind, number, body)
        del self._buffer[:start]

    def _finish(self, reason: str) -> None:
        if self._is_open:
            self.close()
            self.on_end(reason)

    def close(self) -> None:
        """Close the connection, without a call of `on_end`. May be called any number of times."""
        if self._is_open:
            self._is_open = False
            self._channel.close()


# -- on the other machine ----------------------------------------------------------------------------------------------
class Greeting(NamedTuple):
    """The first message of a relay: its name and its node.

    Attributes:
        name: The name that the driver has given it.
        host: Name of its machine.
        facts: Other facts, as texts by name.
    """

    name: str
    host: str
    facts: Mapping[str, str]


def serve(
    greeting: Greeting,
    address: tuple[str, int],
    secret: str,
    keep_descendants: bool,
    needed: Sequence[str] = (),
    path: Sequence[str] = (),
) -> None:
    """Run a relay, in the main thread of a process that does nothing else. Returns when the driver ends it.

    Args:
        greeting: The first message.
        address: Host and port at which the driver listens.
        secret: Proves that this is a relay of that driver.
        keep_descendants: See `make_launcher`.
        needed: See `make_launcher`.
        path: The driver's `sys.path`. A preload may import a module from there.

    Raises:
        OSError: If the driver cannot be reached within `CONNECT_S`.
    """
    end = socket.create_connection(address, timeout=CONNECT_S)
    sys.path.extend(entry for entry in path if entry not in sys.path)
    loop = Loop()
    relay = _Relay(loop, end, keep_descendants, needed)
    try:
        relay.greet(secret, greeting)
        while not relay.is_over:
            loop.turn(None)
    finally:
        relay.close()
        loop.close()


class _Relay:
    """The relay's state: its link to the driver, its launcher, and its workers by the numbers that the driver gives."""

    def __init__(self, loop: Loop, end: socket.socket, keep_descendants: bool, needed: Sequence[str]):
        self.is_over = False
        self._loop = loop
        self._link = Link(loop, end, self._on_packet, lambda reason: self._leave())
        self._launcher = make_launcher(loop, new_run_id(), keep_descendants, needed)
        self._workers: dict[int, _RelayedWorker] = {}
        self._memory_kills = MemoryKills()

    def greet(self, secret: str, greeting: Greeting) -> None:
        """Send the greeting."""
        facts = [part for pair in greeting.facts.items() for part in pair]
        self._link.send(_HELLO, 0, join_fields([secret, greeting.name, greeting.host, *facts]))

    def close(self) -> None:
        """Kill the remaining workers and release everything. Blocks for a short, bounded time."""
        self._launcher.close()
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()
        self._link.close()

    def _leave(self) -> None:
        self.is_over = True

    def _on_packet(self, kind: int, number: int, body: bytes) -> None:
        if kind == _LAUNCH:
            self._launch(number, body)
        elif kind == _PRELOAD:
            self._launcher.preload(body)
        elif kind == _LEAVE:
            self._leave()
        worker = self._workers.get(number)
        if worker is None:
            return
        if kind in (_CONTROL, _REPORTS):
            worker.ends[kind].send(body)
        elif kind == _SIGNAL:
            signal_number, whole_group = split_fields(body)
            self._launcher.signal(worker.token, int(signal_number or b""), bool(whole_group))
        elif kind == _KILL:
            self._launcher.kill(worker.token)
        elif kind == _FORCE:
            self._launcher.force(worker.token)
        elif kind == _CLOSE_ENDS:
            worker.close()

    def _launch(self, number: int, body: bytes) -> None:
        self._memory_kills.look()
        worker = _RelayedWorker(self._loop, self._link, self._memory_kills, number, self._workers)
        try:
            preload, alone = map(bool, split_fields(body))
            worker.token, control, reports = self._launcher.launch(worker, preload, alone)
        except OSError as error:
            self._link.send(_REFUSED, number, f"could not make a channel: {error}".encode())
            return
        self._workers[number] = worker
        worker.carry({_CONTROL: control, _REPORTS: reports})


class _RelayedWorker(Listener):
    """A worker, as its relay sees it. Passes on the bytes of its channels and the events of its launcher.

    Args:
        loop: The relay's loop.
        link: To the driver.
        memory_kills: Evidence of kills for lack of memory on this machine.
        number: The driver's number of the worker.
        workers: All workers of the relay, by number. This one removes itself when it is gone.
    """

    def __init__(
        self, loop: Loop, link: Link, memory_kills: MemoryKills, number: int, workers: dict[int, _RelayedWorker]
    ):
        self.token = ""
        self.ends: dict[int, DriverEnd] = {}
        self._loop = loop
        self._link = link
        self._memory_kills = memory_kills
        self._number = number
        self._workers = workers
        self._pid = 0
        self._evidence = ""

    def carry(self, ends: dict[int, DriverEnd]) -> None:
        """Pass on all bytes of these channels."""
        self.ends = ends
        for kind, end in ends.items():
            end.pass_on(self._loop, self._sender(kind), self._on_broken)

    def _sender(self, kind: int) -> Callable[[bytes], object]:
        return lambda data: self._link.send(kind, self._number, data)

    def _on_broken(self, error: ChannelClosedError | ProtocolError) -> None:
        """Report the end of a channel, unless the process is dying: a dying process closes its files first."""
        self._judge(self._loop.time() + KILL_CONFIRM_S)

    def _judge(self, until: float) -> None:
        if self._workers.get(self._number) is not self:
            return
        if process_tree.is_ending(self._pid) and self._loop.time() < until:
            self._loop.call_later(EOF_S, lambda: self._judge(until))
        else:
            self._link.send(_BROKEN, self._number)

    def _drain(self) -> None:
        for end in self.ends.values():
            while end.read():
                pass

    def close(self) -> None:
        """Close its channels. May be called any number of times."""
        for end in self.ends.values():
            end.close()

    # -- Listener ----------------------------------------------------------------------------------------------

    def on_started(self, pid: int) -> None:
        """See `Listener.on_started`."""
        self._pid = pid
        self._link.send(_STARTED, self._number, str(pid).encode())

    def on_refused(self, reason: str) -> None:
        """See `Listener.on_refused`."""
        self._forget()
        self._link.send(_REFUSED, self._number, reason.encode())

    def on_lost(self, reason: str) -> None:
        """See `Listener.on_lost`."""
        self._link.send(_LOST, self._number, reason.encode())

    def on_dead(self) -> None:
        """See `Listener.on_dead`."""
        self._drain()
        self._link.send(_DEAD, self._number)

    def on_exited(self, exit_code: int | None, peak_bytes: int) -> None:
        """See `Listener.on_exited`."""
        self._drain()
        self._link.send(_EXITED, self._number, self._end_fields(exit_code, peak_bytes))

    def on_gone(self, exit_code: int | None, peak_bytes: int, survivors: bool) -> None:
        """See `Listener.on_gone`."""
        self._drain()
        self._forget()
        self._link.send(_GONE, self._number, self._end_fields(exit_code, peak_bytes, survivors))

    def _end_fields(self, exit_code: int | None, peak_bytes: int, survivors: bool = False) -> bytes:
        if exit_code == -9 and not self._evidence:
            self._evidence = self._memory_kills.claim()
        code = None if exit_code is None else str(exit_code)
        return join_fields([code, str(peak_bytes), "survivors" if survivors else "", self._evidence])

    def _forget(self) -> None:
        self._workers.pop(self._number, None)
        self.close()


# -- the driver's side -------------------------------------------------------------------------------------------------
class RelayListener:
    """The socket at which the driver waits for its relays.

    Args:
        loop: The driver's loop.
        host: The address of this machine by which the others reach it.
        on_relay: Called on the loop with the greeting of each relay that has shown the secret, and its link. Returns
            False for a relay that is not expected; its connection is closed then.
    """

    def __init__(self, loop: Loop, host: str, on_relay: Callable[[Greeting, Link], bool]):
        self.secret = os.urandom(32).hex()
        self._loop, self._on_relay = loop, on_relay
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._server = socket.create_server((host, 0), family=family, backlog=512)
        self._server.setblocking(False)
        self.address: tuple[str, int] = self._server.getsockname()[:2]
        self._strangers: set[Link] = set()
        loop.watch(self._server.fileno(), self._on_ready)

    def _on_ready(self, mask: int) -> None:
        try:
            end, _ = self._server.accept()
        except OSError:  # the relay is gone already, or no descriptor is free
            return
        stranger = Link(self._loop, end, lambda *packet: None, lambda reason: None, _GREETING_BYTES)
        stranger.handle = lambda kind, number, body: self._on_greeting(stranger, kind, body)
        stranger.on_end = lambda reason: self._strangers.discard(stranger)
        self._strangers.add(stranger)

    def _on_greeting(self, link: Link, kind: int, body: bytes) -> None:
        self._strangers.discard(link)
        try:
            secret, name, host, *facts = map(as_text, split_fields(body))
        except (ProtocolError, ValueError):
            secret, name, host, facts = "", "", "", []
        link.limit_bytes = _BODY_BYTES
        is_ours = kind == _HELLO and hmac.compare_digest(secret.encode(), self.secret.encode())
        greeting = Greeting(name, host, dict(zip(facts[::2], facts[1::2], strict=False)))
        if not is_ours or not self._on_relay(greeting, link):
            link.close()

    def close(self) -> None:
        """Stop listening. May be called any number of times."""
        if self._server.fileno() >= 0:
            self._loop.unwatch(self._server.fileno())
            self._server.close()
        for stranger in list(self._strangers):
            stranger.close()
        self._strangers.clear()


class _RelayedEnd(DriverEnd):
    """The driver's end of a channel whose other end is at a relay's worker.

    Args:
        send: Sends bytes to the worker.
    """

    def __init__(self, send: Callable[..., object]):
        super().__init__()
        self._send = send
        self._handle: Handle | None = None
        self._on_broken: OnBroken  # given by `watch`

    def watch(self, loop: Loop, handle: Handle, on_broken: OnBroken) -> None:
        """See `DriverEnd.watch`."""
        self._handle, self._on_broken = handle, on_broken

    def feed(self, data: bytes) -> None:
        """Handle bytes that the relay has passed on."""
        if self._handle is None:
            return
        try:
            self._feed(data, self._handle)
        except ProtocolError as error:
            self.fail(error)

    def fail(self, error: ChannelClosedError | ProtocolError) -> None:
        """Report that no further message can arrive."""
        if self._handle is not None:
            self._handle = None
            self._on_broken(error)

    def send(self, *frames: bytes | memoryview) -> None:
        """See `DriverEnd.send`."""
        self._send(*frames)

    def read(self) -> bool:
        """See `DriverEnd.read`. The link has handed over everything that has arrived."""
        return False

    def close(self) -> None:
        """See `DriverEnd.close`."""
        self._handle = None


class RelayLauncher(Launcher):
    """The driver's side of one relay: a `Launcher` for workers on the relay's machine.

    Args:
        loop: The driver's loop.
        on_free: Called when its last worker is gone, by itself or with the relay.

    Attributes:
        greeting: The relay's greeting; None until it has connected.
        is_lost: Whether it is gone, or about to exit. It launches no more workers.
        cause: Why it is gone, as a text.
    """

    def __init__(self, loop: Loop, on_free: Callable[[RelayLauncher], object]):
        self.greeting: Greeting | None = None
        self.is_lost = False
        self._loop, self._on_free = loop, on_free
        self._link: Link | None = None
        self._listeners: dict[int, tuple[Listener, _RelayedEnd, _RelayedEnd]] = {}
        self._numbers = itertools.count(1)
        self.cause = ""
        self._timer: Timer | None = None
        self._evidence = ""
        self._preloads: list[bytes] = []

    def attach(self, greeting: Greeting, link: Link) -> None:
        """The relay has connected."""
        self.greeting, self._link = greeting, link
        link.handle, link.on_end = self._on_packet, self.lose
        for action in self._preloads:
            self._send(_PRELOAD, 0, action)

    def lose(self, cause: str, is_certain: bool = False) -> None:
        """The relay is gone, or cannot be reached: report the loss of its workers after `CLOSE_S`.

        May be called any number of times.

        Args:
            cause: Why, as a text that follows "the relay".
            is_certain: Whether this cause is more exact than an earlier one.
        """
        if is_certain or not self.cause:
            self.cause = cause
        if not self.is_lost:
            self.is_lost = True
            self._timer = self._loop.call_later(CLOSE_S, self._bury)

    def _bury(self) -> None:
        """Report that its workers are lost with it. They are dead by now."""
        self._timer = None
        if self._link is not None:
            self._link.close()
        where = f" on {self.greeting.host}" if self.greeting else ""
        listeners, self._listeners = self._listeners, {}
        for listener, *_ in listeners.values():
            listener.on_lost(f"the relay{where} is gone: {self.cause}")
            listener.on_gone(None, 0, False)
        self._on_free(self)

    def leave(self) -> None:
        """Tell the relay to kill its workers and to exit."""
        self.is_lost = True
        if self._link is not None:
            self._link.send(_LEAVE, 0)

    # -- Launcher ----------------------------------------------------------------------------------------------

    @property
    def hello_s(self) -> float:
        """See `Launcher.hello_s`. The first worker may have to wait for the preload."""
        return INTERPRETER_HELLO_S + len(self._preloads) * PRELOAD_S

    def launch(self, listener: Listener, preload: bool, alone: bool = False) -> tuple[str, DriverEnd, DriverEnd]:
        """See `Launcher.launch`. If the relay is lost, the listener hears that soon."""
        number = next(self._numbers)
        control = _RelayedEnd(self._sender(_CONTROL, number))
        reports = _RelayedEnd(self._sender(_REPORTS, number))
        self._listeners[number] = (listener, control, reports)
        self._send(_LAUNCH, number, join_fields(["preload" if preload else "", "alone" if alone else ""]))
        if self.is_lost and self._timer is None:
            self._timer = self._loop.call_later(0.0, self._bury)
        return str(number), control, reports

    def signal(self, token: str, number: int, whole_group: bool) -> None:
        """See `Launcher.signal`."""
        self._send(_SIGNAL, int(token), join_fields([str(int(number)), "group" if whole_group else ""]))

    def kill(self, token: str) -> None:
        """See `Launcher.kill`."""
        self._send(_KILL, int(token))

    def force(self, token: str) -> None:
        """See `Launcher.force`."""
        self._send(_FORCE, int(token))

    def preload(self, action: bytes) -> None:
        """See `Launcher.preload`. A relay that connects later gets the action then."""
        self._preloads.append(action)
        self._send(_PRELOAD, 0, action)

    def is_ending(self, pid: int) -> bool:
        """See `Launcher.is_ending`. The relay has checked that before it reported the end of the channel."""
        return False

    def close(self) -> None:
        """See `Launcher.close`. Does not wait for the relay."""
        self.leave()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._listeners.clear()
        if self._link is not None:
            self._link.close()

    # -- evidence of kills for lack of memory --------------------------------------------------------------------

    def look(self) -> None:
        """See `MemoryKills.look`. The relay does it."""

    def claim(self) -> str:
        """See `MemoryKills.claim`."""
        evidence, self._evidence = self._evidence, ""
        return evidence

    # -- the link --------------------------------------------------------------------------------------------------

    def _sender(self, kind: int, number: int) -> Callable[..., object]:
        return lambda *frames: self._send(kind, number, *frames)

    def _send(self, kind: int, number: int, *body: bytes) -> None:
        if self._link is not None:
            self._link.send(kind, number, *body)

    def _on_packet(self, kind: int, number: int, body: bytes) -> None:
        found = self._listeners.get(number)
        if found is None:
            return
        listener, control, reports = found
        if kind == _REPORTS:
            reports.feed(body)
        elif kind == _CONTROL:
            control.feed(body)
        elif kind == _STARTED:
            listener.on_started(int(body))
        elif kind == _LOST:
            listener.on_lost(as_text(body))
        elif kind == _DEAD:
            listener.on_dead()
        elif kind == _BROKEN:
            control.fail(ChannelClosedError("end of file"))
        elif kind == _REFUSED:
            del self._listeners[number]
            listener.on_refused(as_text(body))
        else:
            code, peak, survivors, evidence = split_fields(body)
            self._evidence = as_text(evidence)
            exit_code = None if code is None else int(code)
            if kind == _EXITED:
                listener.on_exited(exit_code, int(peak or b"0"))
            elif kind == _GONE:
                del self._listeners[number]
                listener.on_gone(exit_code, int(peak or b"0"), bool(survivors))
        if not self._listeners and not self.is_lost:
            self._on_free(self)
