"""The switch after which `import ray` means minitune, on from the import of this module until `undo()`.

`python -m minitune.as_ray script.py` is Python with the switch on. The arguments are those of `python`.
"""

import os
import sys

from minitune.ray.switch import turn_on, undo

__all__ = ["turn_on", "undo"]

_MODULE = "minitune.as_ray"


def main() -> None:
    """Replace this process by an interpreter with the same options. `turn_on` has set `PYTHONPATH`."""
    if sys.flags.ignore_environment:
        sys.exit(f"{_MODULE} needs PYTHONPATH, which Python ignores with the options -E and -I")
    arguments = sys.argv[1:]
    before = sys.orig_argv[1 : len(sys.orig_argv) - len(arguments)]
    options = before[:-1]  # without `-mminitune.as_ray`, or `minitune.as_ray` after `-m`
    if before[-1] == _MODULE:
        options[-1] = options[-1].removesuffix("m")  # it may follow other options, as in `-um`
        if options[-1] == "-":
            del options[-1]
    os.execv(sys.executable, [sys.executable, *options, *arguments])


turn_on()

if __name__ == "__main__":
    main()
