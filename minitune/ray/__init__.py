"""Everything that exists for scripts and clusters of Ray. Without this folder, minitune still tunes.

::

    names       Ray's import paths and names, and where they lead; what is left out, and what to do instead
    switch      `minitune.as_ray`: after it, `import ray` means this package; `stand_in` is what Python finds then
    legacy      forms that later versions of Ray Tune dropped
    trainers    the trainers of Ray Train, with one worker
    cluster     the executor of a Ray cluster
    in_trial    reports of a training that a trial has started with a trainer
    lightning   what Ray Train has for Lightning

Python asks `names` only about names that it does not find (`minitune.base.lazy`). `run` and `Experiment` ask `legacy`
only about Ray's old keywords, and `run_experiments` about functions of `spec`.

`import minitune.ray as ray` is for scripts that name `ray` itself. It has the names of `minitune`, but as
`__version__`, which scripts compare, that of Ray whose interface this package follows.
"""

from __future__ import annotations

from typing import Any

import minitune

__version__ = "2.60.0"
"""The version of Ray whose interface this package follows."""


def __getattr__(name: str) -> Any:
    return getattr(minitune, name)


def __dir__() -> list[str]:
    return dir(minitune)
