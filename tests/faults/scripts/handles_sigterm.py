"""A run that SIGTERM ends, for which the user has a handler."""

import os
import signal

from script_kit import fit, hurry, slow

hurry()

STORAGE = os.environ["MINITUNE_STORAGE_PATH"]


def handler(number, frame):
    closed = b'"type":"close"' in open(os.path.join(STORAGE, "run", "journal"), "rb").read()
    print("mine", signal.Signals(number).name, closed, flush=True)


signal.signal(signal.SIGTERM, handler)
print(fit(slow, (0, 1)).interrupted)
