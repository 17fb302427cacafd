"""The executor of a Ray cluster: each actor in a Ray actor on some node.

::

    executor    RayTrialExecutor; requests and answers, room, reuse
    process     the driver's side of one Ray actor
    actor       the node's side
    nodes       the cluster's totals, connections, why a node or an actor died
    values      values of `put` on the nodes

Nothing here imports Ray before a run asks for `executor="ray"`. `driver.parts` makes the executor.
"""
