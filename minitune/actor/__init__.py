"""Actors: an object in a process of its own, called by method name, at most one call in flight.

This package knows nothing of tuning: of the rest it imports `base` and the error types only. It serves the executors.
Workers start from here, so this module imports nothing.

Processes
---------
- The *driver* is the user's process. One of its threads turns a `Loop` and calls everything here; nothing on it blocks.
- A *worker* is the process of one actor at a time. When the actor has ended, it may be *parked* for the next one.
- A *zygote* is a small process with a single thread that has imported what all workers need, and forks them (Linux).
- Where there is no zygote, each worker is a new interpreter, and a *guard* kills the workers if the driver dies.

Modules
-------
::

    process               ActorProcess, in the driver: one worker from its start to its end, and the actor in it
    worker                Worker, in its own process: the loops of its two threads, and reports
    surroundings          what a worker sets for user code (directory, streams, environment), and restores after it
    messages, channel     what driver and worker say, with the limits of both; how it is carried
    loop                  the driver's loop: descriptors, timers, calls from other threads
    launcher              the interface of a launcher, and what all launchers share
    zygote_launcher       workers from zygotes: zygote_process is one zygote as the driver sees it, packets is what
                          they say, zygote is the process itself
    interpreter_launcher  workers that are new interpreters; guard is the process that outlives the driver
    process_tree          lists, stops and kills processes; finds out why one was killed

One start
---------
The executor calls `ActorProcess.start`. That calls `Launcher.launch`, which returns the driver's ends of two channels
at once, and sends Boot into the first one. The process comes later:

- The ZygoteLauncher sends the worker's ends to a zygote. `Zygote._fork` forks, and the child leaves the zygote's loop
  with its `Seat`.
- The InterpreterLauncher starts a new interpreter with `worker.main`, which makes the Seat.

Both continue in `worker.serve`. The worker sends Hello, reads Boot, takes its place, and makes the actor's object. Its
answer becomes the event Started.

One call
--------
`ActorProcess.call` sends Call on the work pipe. The worker's main thread waits there; it calls the method, and its
answer becomes CallReturned or CallRaised. A method may also answer by a report, and wait in it: Reported is the answer
to one call, and GoOn is the next call.

One stop
--------
`ActorProcess.stop` sends Stop on the control pipe, which the worker's control thread always reads. From then on, a
report raises `TrialStopped`. Quit, on the work pipe, is the driver's answer to whatever the main thread sends next; it
comes at once if the main thread already waits for a message.

One death
---------
A death is what the kernel reports, never silence, and never the end of a channel: a child that the worker has forked
may hold the channel open, and a living worker may have closed it. The worker's process descriptor (pidfd) becomes
ready. Then the launcher calls, in this order:

- `on_dead`: `ActorProcess` reads what the worker had sent, so no message is lost.
- `on_exited`: the parent has the exit status. Some of the worker's descendants still live and are being killed.
- `on_gone`: all of them are dead, so the event Exited follows, and the actor's resources are free.

Each wait for the next of these has a time limit; see `ActorProcess`. After a stop, the time limits form a ladder: the
grace period, a dump of the stacks, SIGTERM, SIGKILL for the whole tree.

Who may kill
------------
The number of a process may belong to another process as soon as the parent has reaped it. So only the parent of a
worker sends signals by its number: the zygote, or the InterpreterLauncher in the driver. The driver asks the zygote. If
the zygote does not answer in time, the driver kills the worker by its process descriptor, and searches all processes
for the worker's marker.

The descendants of a worker can leave its process group and its session. Three things lead to them. An orphan becomes a
child of the zygote. Its session may still be the worker's. Its environment holds the worker's marker, which consists of
the group's identifier and the worker's name. A tree is stopped from the top before it is killed, so nothing in it can
fork on or be reaped (`process_tree.freeze`).

- If the driver dies, the zygote or the guard kills all workers and their descendants.
- If a zygote dies, the kernel kills its workers (parent-death signal), and the launcher their descendants.
"""
