"""Executors run the actors of trials. The driver calls them; `wait` returns events.

::

    trial_executor   TrialExecutor, the protocol: all that the driver knows
    admission        Admission, the base of all; LoopExecutor, that of local and `ray.cluster`
    local            each actor in a process (`minitune.actor`)
    inline           all actors in this process
    logical_order    OrderedExecutor: an order that does not depend on time
    ledger, devices  who has which resources; what there is

1. `can_start` asks the ledger; without room, the request waits there.
2. `start` takes the resources and an actor: Started follows.
3. `call`: CallReturned or CallRaised follows.
4. `stop` ends or parks the actor: Exited follows.

Each returns at once. Only `wait` blocks, until an event or `wake`.
"""
