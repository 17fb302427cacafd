"""A module with a trainable. No worker can import it: there it raises an error, or ends the process."""

import os

if "MINITUNE_RUN_ID" in os.environ:  # in a worker, or in what workers are copied from
    if os.environ["NEEDY"] == "raises":
        raise ImportError("libfoo is missing")
    os._exit(7)


def trainable(config):
    return {"score": 1}
