"""Executors run the actors of trials: in processes, in this process, on learning curves, or on a Ray cluster.

The driver calls an executor, which returns events from `wait`, and imports nothing of the driver.

Modules
-------
::

    trial_executor   TrialExecutor: the protocol, and the events. The driver knows nothing else of this folder.
    admission        Admission: the base of all executors. LoopExecutor: that of local and ray, whose events come from
                     other processes
    local            LocalTrialExecutor: each actor in a process on this machine. It calls `minitune.actor`.
    inline           InlineTrialExecutor: all actors in this process, one thread at a time
    simulated        SimulatedExecutor: an actor is a position on a learning curve, and time is virtual
    ray              RayTrialExecutor: each actor in a Ray actor. ray_actor is its side on the node, ray_cluster asks
                     about nodes and admits actors, ray_files carries checkpoints and output
    logical_order    OrderedExecutor: puts the events of another executor into an order that does not depend on time
    known_reports    KnownReports: answers for actors whose report is known, in place of another executor
    ledger           Ledger: which actors have which CPUs, memory and GPUs, and which requests wait
    devices          what this machine has

One actor
---------
1. `can_start` asks the ledger whether there is room; if not, the request waits there.
2. `start` takes the resources and makes the actor, or takes a parked one: Started follows.
3. `call` sends a method's name and arguments: CallReturned or CallRaised follows.
4. `stop` ends the actor, or parks it: Exited follows, and the resources are free.

Each of these returns at once. Only `wait` blocks, until an event has come or `wake` is called.
"""
