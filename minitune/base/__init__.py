"""Shared by all layers: checks, files, pickling, text.

Modules
-------
::

    checks         arguments of users: an error names the argument, the rule and the value
    calls          calls of users whose arguments do not fit
    text           values, names and errors as text for people; standard output
    table          tables and curves, as text and as HTML
    json_text      JSON: fast, and strict from any value
    pickling       pickles between driver, workers and later processes
    shared_values  values that are stored once and mapped by many processes
    preload        the imports of a function, done in advance by the process that forks the workers
    files          paths and files of a run: open, replace, append, sync, remove
    disk           which errors of a disk end a run, and what they say
    descriptors    how many files may be open
    forks          which process made an object: a child that is forked later has a copy
    processes      whether a process lives, since when, its environment and its children
    limits         why a process or a thread cannot be started
    cgroups        the control groups of this process
    randomness     the global generators of random numbers
    actor_thread   runs the code of one actor on a thread
    user_thread    the thread that runs a trial's code where the trial has a process to itself
    user_code      the user's code that the driver's thread runs, which a signal handler may end
    read_only      lists and dicts that refuse changes
"""
