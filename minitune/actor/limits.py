"""Every limit of this package, in one place: seconds end in `_S`, bytes in `_BYTES`.

All times are read from the monotonic clock. Tests divide them; nothing else changes them.
"""

from __future__ import annotations

import errno

ZYGOTE_HELLO_S = 30.0
"""From the fork to the worker's first word, before any user code."""
INTERPRETER_HELLO_S = 60.0
"""The same where a worker is a new interpreter."""
PRELOAD_S = 120.0
"""For loading a file in the zygote; after that workers load it for themselves, without a limit."""
SHOW_S = 0.1
"""For a worker to show the stacks of its threads; then a signal makes it do so."""
DUMP_TO_TERM_S = 0.02
"""From that signal to the one to terminate: while the first is pending, another thread would get the second."""
SHORT_LIFE_S = 1.0
"""Workers that live less long are followed by others so soon that it pays to have one ready."""
TERM_TO_KILL_S = 1.0
"""From the termination signal to the kill, when the grace period is over."""
KILL_CONFIRM_S = 10.0
"""From the kill until all of the tree must be dead; then it is given up and said so."""
EXIT_STATUS_S = 1.0
"""From a death to its exit status; then the status is called unknown."""
EOF_S = 0.25
"""From end-of-file on the channel until the process is looked at: a dying one closes its files first."""
PARK_S = 2.0
"""For a parked worker to take its new place."""
SWEEP_TICK_S = 0.005
"""Between two passes."""
QUIET_PASSES = 2
"""Passes that must find nothing where processes are found by their environment alone."""
UNKNOWN_PASSES = 10
"""Passes that the zygote waits for an orphan to show whose it is; one that has cleared its environment never will."""
CLOSE_S = 2.0
"""For a zygote to clear up and leave after its socket was closed."""
DRIVER_CHECK_S = 0.25
"""How often those who cannot be told look whether the driver still lives."""

MESSAGE_BYTES = 64 * 1024 * 1024
"""The longest body of a message; settable per group."""
LAST_LINES = 20
"""Lines of a dead worker's output that go into its end event."""
DUMP_LINES = 100
"""The same where its stacks were dumped."""
LAST_LINES_BYTES = 8192
"""How much of the end of each output file is looked at for them."""

HIGH_DESCRIPTOR = 1100
"""Where the worker's channel is put, out of the way of `os.closerange(3, 1024)`, if the limit allows."""
OOM_SCORE = 500
"""Added to a worker's score: where memory runs out, the kernel is to choose a worker, never the driver."""
CHANNEL_LOST_EXIT = 113
"""Exit code of a worker that finds its channel closed by the code that it runs."""
NO_THREAD_EXIT = 114
"""Exit code of a worker that got no thread before any user code ran."""
FORBIDDEN_EXIT = 115
"""Exit code of a zygote that is not allowed to do its work."""
FORBIDDEN = (errno.EPERM, errno.EACCES, errno.ENOSYS)
"""Errors by which a system says that a call is never allowed, as a filter of system calls does; not: not now."""

THREAD_CAPS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
"""Environment variables by which numerical libraries choose their number of threads; all are 1 during a preload."""

NO_THREADS = {"JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""Keeps pyarrow, which pandas imports, from starting a thread when it is imported, in a preload. That thread tidies up
for an allocator that is not even in use unless it is asked for."""
