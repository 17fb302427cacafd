"""Takes each path of its arguments as attributes of the package."""

import functools
import sys

import minitune.ray as ray

for path in sys.argv[1:]:
    functools.reduce(getattr, path.split(".")[1:], ray)
