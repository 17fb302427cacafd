"""Actors: an object in a process of its own, called by method name, at most one call in flight.

Workers start from here, so this imports nothing. See `docs/processes.md`.

::

    remote_actor          RemoteActor: an actor, as the driver sees it
    process               WorkerProcess: a worker from start to death
    worker                Worker, in its own process
    surroundings          what a worker sets for user code, and restores
    messages, channel     what driver and worker say, and how it is carried
    loop                  the driver's loop: descriptors, timers, other threads; pairs of sockets
    launcher              what both launchers share
    zygote_launcher       forked workers
    zygote_process        a zygote, for the driver
    packets               what driver and zygote say
    zygote                the process that forks workers
    interpreter_launcher  workers that are new interpreters
    process_tree          stops and kills processes; why one was killed
"""
