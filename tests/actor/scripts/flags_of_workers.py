"""Actors whose workers have the interpreter's flags."""

import os
import sys

from actor_driver import Driver, Group


def flags():
    return sys.flags.optimize, sys.warnoptions, os.environ.get("HOME")


with Group() as group:
    driver = Driver(group)
    driver.start("a")
    assert driver.call("a", "add", 2) == 2
    if driver.call("a", "call", flags) != flags():  # no assert: -O would leave it out
        sys.exit(f"{driver.call('a', 'call', flags)} instead of {flags()}")
    assert driver.call("a", "call", int, "7") == 7
    group.kill("a")
    assert driver.ended("a").cause == "SIGKILL (9)"
    driver.start("b")
    group.call("b", "exit_process", 3)
    assert driver.ended("b").cause == "exit code 3"
    driver.start("c")
    assert driver.stop("c").cause == "stopped"
print("fine")
