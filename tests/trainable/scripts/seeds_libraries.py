"""The libraries that are loaded get seeds."""

import random
import sys
import types

from minitune.base.randomness import seed_process

seeds = []
seed_process(3)  # none is loaded
first = random.random()
sys.modules["numpy.random"] = types.SimpleNamespace(seed=seeds.append, set_state=None)
sys.modules["torch"] = types.SimpleNamespace(default_generator=types.SimpleNamespace(manual_seed=seeds.append))
seed_process(3)
assert random.random() == first
seed_process(3, iteration=5)
assert random.random() != first
assert seeds[0] == seeds[1] != seeds[2] == seeds[3], seeds
assert all(0 <= seed < 2**32 for seed in seeds)
