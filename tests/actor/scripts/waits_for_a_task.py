"""A worker that is ready and gets no task."""

import socket

from minitune.actor import worker
from minitune.actor.channel import WorkerEnd

ours, theirs = socket.socketpair()
control = socket.socketpair()
print("here", flush=True)
worker.serve(worker.Worker(WorkerEnd(theirs.fileno()), WorkerEnd(control[1].fileno()), "marker"))
