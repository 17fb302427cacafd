"""Runs scripts one after the other, each in a fork of this interpreter, which imports the package once for all.

Its input is JSON: for each script its path and its environment variables. What a script prints goes to a file of its
name and the suffix `.out`. The output is JSON, too: the exit codes.
"""

import json
import os
import runpy
import sys
import tempfile
from pathlib import Path

import minitune


def run(script: Path, environment: dict[str, str]) -> None:
    """Become the process of a script."""
    with script.with_suffix(".out").open("w") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(script.parent)
    sys.argv = [str(script)]
    sys.path[0] = str(script.parent)
    runpy.run_path(str(script), run_name="__main__")


with tempfile.TemporaryDirectory() as storage:  # imports what any run needs
    minitune.run(lambda config: {"x": 1}, storage_path=storage, verbose=0)
minitune.shutdown()  # the resources of the machine are open again
codes = []
for path, variables in json.load(sys.stdin):
    sys.stdout.flush()
    child = os.fork()
    if not child:
        run(Path(path), variables)
        sys.exit()
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(json.dumps(codes))
