"""A callback that forks processes, which signals end."""

import multiprocessing
import os
import signal
import sys
import time

from script_kit import fit, hurry

from minitune import Callback

hurry()


class Starts(Callback):
    def on_trial_result(self, **info):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            ready, end = multiprocessing.Pipe()
            child = multiprocessing.get_context("fork").Process(target=wait, args=(end,))
            child.start()
            ready.recv()
            os.kill(child.pid, number)
            child.join()
            print(child.exitcode)


def wait(end):
    try:
        end.send(None)
        while True:
            time.sleep(0.05)  # in short pieces: a signal just before a sleep is handled after it
    except KeyboardInterrupt:
        sys.exit(5)


results = fit(lambda config: {"y": 1}, xs=[0], callbacks=[Starts()])
print(results.interrupted, results.num_errors)
