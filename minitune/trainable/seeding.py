"""Seeds for the global random generators of a process that belongs to one trial."""

from __future__ import annotations

import random

from minitune._global_draws import seed_global_generators


def seed_process(seed: int, iteration: int = 0, failures: int = 0) -> None:
    """Seed the global generators of `random` and, as far as they are loaded by now, of numpy and torch.

    So a trial that draws from them draws the same numbers in every run with the same seed, and no two trials draw the
    same ones. A function of the arguments alone: a trial that goes on from a checkpoint draws new numbers, and the
    same ones however often it was paused before; one that is tried again draws others, or it would fail again wherever
    chance has a part in it.

    Args:
        seed: The trial's seed.
        iteration: The iteration that it goes on from; 0 at a fresh start.
        failures: How often it has failed.
    """
    again = f"/failures/{failures}" if failures else ""
    seed_global_generators(random.Random(f"{seed}/iteration/{iteration}{again}").getrandbits(32))
