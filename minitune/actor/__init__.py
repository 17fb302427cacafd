"""Actors: an object in a process of its own, called by method name, at most one call in flight.

Workers start from here, so this module imports nothing.

Processes
---------
- The *driver* is the user's process. One of its threads turns a `Loop`; nothing on it blocks.
- A *worker* is the process of one actor at a time. When the actor has ended, it may be *parked* for the next one.
- A *zygote* is a small process with a single thread that has imported what all workers need, and forks them (Linux).
- Where there is no zygote, each worker is a new interpreter, and a *guard* kills the workers if the driver dies.

Modules
-------
::

    remote_actor          RemoteActor, in the driver: an actor's calls, its stop, its events; TRANSITIONS, its phases
    process               WorkerProcess, in the driver: the process of a worker, from its start to its death
    worker                Worker, in its own process: the loops of its two threads, and reports
    surroundings          what a worker sets for user code (directory, streams, environment), and restores after it
    messages, channel     what driver and worker say, with the limits of both; how it is carried
    sockets               connected sockets that no setting of the user's process reaches
    loop                  the driver's loop: descriptors, timers, calls from other threads
    launcher              the interface of a launcher, and what all launchers share
    zygote_launcher       workers from zygotes: zygote_process is one zygote as the driver sees it, packets is what
                          they say, zygote is the process itself, doubt finds out whether it is stuck
    interpreter_launcher  workers that are new interpreters; guard is the process that outlives the driver
    process_tree          lists, stops and kills processes; finds out why one was killed

One start
---------
`RemoteActor.start` calls `WorkerProcess.start`, and that `Launcher.launch`, which returns the driver's ends of two
channels at once. Boot is sent into the first one. The process comes later: a zygote forks it (`Zygote._fork`), or it is
a new interpreter (`worker.main`). Both continue in `worker.serve`: the worker sends Hello, reads Boot, and makes the
actor's object.

One call
--------
`RemoteActor.call` sends Call on the work pipe. The worker's main thread calls the method, and its answer becomes
CallReturned or CallRaised. A method may also answer by a report, and wait in it: Reported is the answer to one call,
and GoOn is the next call.

One stop
--------
`RemoteActor.stop` sends Stop on the control pipe, which the worker's control thread always reads. From then on, a
report raises `TrialStopped`. Quit, on the work pipe, is the driver's answer to whatever the main thread sends next. It
comes at once if the main thread already waits for a message.

One hand-over
-------------
A parked process keeps its last actor's object. `RemoteActor.take_over` sends Move: the worker cleans up, and the object
is reset for the next actor; if that fails, the executor gets NotReset, and starts another process.

One death
---------
Only the report of the kernel to the parent counts as a death, not the end of a channel: a forked child may hold it
open, and a living worker may have closed it. The parent (the zygote or the InterpreterLauncher) reaps the worker, kills
what is left of its tree, and reports one `End` when all of it is dead. Then `WorkerProcess` reads what the worker had
sent, so no message is lost, and `RemoteActor` makes the event Exited of it.

Who may kill
------------
The number of a process may belong to another one as soon as the parent has reaped it. So only a worker's parent sends
signals by its number. If the zygote does not answer in time, the driver kills the processes with the worker's marker.

Three things lead to the descendants of a worker: an orphan becomes a child of the zygote, its session may be the
worker's, and its environment holds the worker's marker. A tree is stopped from the top before it is killed, so nothing
in it can fork on or be reaped (`process_tree.freeze`).

- If the driver dies, the zygote or the guard kills all workers and their descendants.
- If a zygote dies, the kernel kills its workers (parent-death signal), and the launcher their descendants.
"""
