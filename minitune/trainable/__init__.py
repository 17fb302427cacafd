"""The code that runs in a worker: trainables, and the functions that they can call.

`trial_actor` makes the object that the driver calls, around a function (`function_runner`) or around an object of a
user's `Trainable` (`trainable`). The driver calls its `train`, `save` and `restore`; `session` connects `report` with
the running `train`, and `context` tells about the trial: `metric_checks` looks at the metrics, `auto_fields` adds keys.
`util` prepares a trainable in the driver, where `registry` has some by name; `old_forms` are those of earlier versions
of Ray Tune. `program` is a trainable that runs a command: `command_line` finds its parameters, and `printed`
the reports in its output.
"""

from minitune.base.lazy import listing, submodules
from minitune.trainable.session import get_checkpoint, report
from minitune.trainable.trainable import Trainable, TrainingResult
from minitune.trainable.util import with_parameters, with_resources

__all__ = [
    "Trainable",
    "TrainingResult",
    "get_checkpoint",
    "report",
    "with_parameters",
    "with_resources",
]

__dir__ = listing(__all__)
__getattr__ = submodules(__name__)
