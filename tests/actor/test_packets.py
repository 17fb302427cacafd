"""Packets between driver and zygote, and those that wait until the other end reads."""

import os
import socket
import sys

import pytest

from minitune.actor.loop import socket_pair

if sys.platform != "linux":
    pytest.skip("only Linux has zygotes", allow_module_level=True)
from minitune.actor.packets import PACKET_BYTES, Outbox, receive_packet, send_packet


@pytest.fixture
def ends():
    ends = socket_pair(socket.SOCK_SEQPACKET)
    yield ends
    for end in ends:
        end.close()


def test_packets_come_whole_and_in_their_order(ends):
    packets = [("fork", 1), ("setup", True, ("a", "b"), ()), ("preload", bytes(PACKET_BYTES // 2)), ("ask",)]
    for packet in packets:
        send_packet(ends[0], packet)
        assert receive_packet(ends[1]) == (packet, [])
    ends[0].close()
    assert receive_packet(ends[1]) is None


def test_descriptors_come_with_their_packet(ends):
    pipes = [os.pipe() for _ in range(2)]
    send_packet(ends[0], ("fork", 1), [pipes[0][1], pipes[1][1]])
    send_packet(ends[0], ("ask",))
    found = receive_packet(ends[1])
    assert found is not None
    packet, descriptors = found
    assert packet == ("fork", 1)
    for (reader, _), writer, text in zip(pipes, descriptors, (b"one", b"two"), strict=True):
        assert not os.get_inheritable(writer)
        os.write(writer, text)
        assert os.read(reader, 10) == text
    assert receive_packet(ends[1]) == (("ask",), [])
    for descriptor in (*descriptors, *pipes[0], *pipes[1]):
        os.close(descriptor)


def test_what_the_socket_does_not_take_waits_for_the_reader(ends):
    outbox = Outbox(ends[0])
    large = "x" * 10_000
    count = 0
    while not outbox.unsent:
        outbox.send(("importing", count, large))
        count += 1
    ours, theirs = socket_pair()
    outbox.send(("fork", count), [theirs])
    assert theirs.fileno() >= 0, "it is not sent yet"
    waiting = len(outbox.unsent)
    outbox.flush()
    assert len(outbox.unsent) == waiting
    found = []
    descriptors = []
    while len(found) <= count:
        received = receive_packet(ends[1])
        found.append(received[0][1])
        descriptors += received[1]
        outbox.flush()
    assert found == list(range(count + 1))
    assert not outbox.unsent
    assert theirs.fileno() < 0
    os.write(descriptors[0], b"alive")
    assert ours.recv(10) == b"alive"
    os.close(descriptors[0])
    ours.close()


def test_what_waits_is_dropped_with_its_descriptors(ends):
    outbox = Outbox(ends[0])
    while not outbox.unsent:
        outbox.send(("importing", "x" * 10_000))
    ours, theirs = socket_pair()
    outbox.send(("fork", 1), [theirs])
    outbox.drop()
    assert not outbox.unsent
    assert theirs.fileno() < 0
    assert ours.recv(10) == b"", "nobody holds the other end"
    ours.close()


def test_packets_to_a_dead_receiver_are_lost_without_an_error(ends):
    outbox = Outbox(ends[0])
    ends[1].close()
    ours, theirs = socket_pair()
    outbox.send(("fork", 1), [theirs])
    outbox.send(("ask",))
    assert not outbox.unsent
    assert theirs.fileno() < 0
    ours.close()
