"""Copies of a checkpoint that are killed at random moments. None is seen half."""

import os
import random
import signal
import sys
import time

from minitune.checkpoint import commit_copy, matches

source, trials = os.path.join(sys.argv[1], "source"), sys.argv[1]
os.mkdir(source)
for n in range(150):
    with open(os.path.join(source, f"part-{n}"), "wb") as file:
        file.write(os.urandom(2000))
trial = os.path.join(trials, "whole")
os.mkdir(trial)
begin = time.perf_counter()
record = commit_copy(source, trial, 0, 1)
takes_s = time.perf_counter() - begin
randomness = random.Random(7)
for n in range(60):
    trial = os.path.join(trials, f"trial-{n}")
    os.mkdir(trial)
    pid = os.fork()
    if not pid:
        commit_copy(source, trial, 0, 1)
        signal.pause()
    time.sleep(randomness.uniform(0, 1.3) * takes_s)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    for name in os.listdir(trial):
        if name.startswith("checkpoint_"):
            assert matches(record, trial), f"{trial} shows half a checkpoint"
            print("whole")
        else:
            print("temporary")
