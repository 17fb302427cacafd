"""Shared by all layers.

::

    settings              the environment variables
    clock                 the time, also a virtual one
    lazy                  names that are loaded when used, and the door to `ray.names`
    checks, calls         arguments and calls of users: an error names rule and value
    conditions            the language of `ls --filter`
    numbers               what counts as a number
    text, table           values for people
    json_text             JSON, fast, and strict from any value
    lines                 lines of what a program prints
    pickling              pickles between processes
    shared_values         stored once and mapped by many processes
    saved, snapshots      states of plug-ins, and their file
    preload               imports that the zygote does
    files, disk           paths and files; errors of a disk that end a run
    process_limits        errors of processes that cannot start
    forks                 which process made an object
    script                the script, in workers
    processes, cgroups    what the system says about a process
    seeds, randomness     seeds; the global generators
    collecting            pauses the garbage collector
    plugin_calls          one call to a plug-in, and what its errors mean
    actor_thread          runs the code of one actor
    user_code             where the code of users runs
    read_only             lists and dicts that refuse changes
"""

__version__ = "0.1.0"
"""The version of the package."""
