"""The files of a run on disk: writing them, reading them, and resuming a run from them."""
