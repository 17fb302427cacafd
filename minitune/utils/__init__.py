"""The small helpers that users know from Ray Tune, under the paths that they have there.

`diagnosis` finds out why a trainable cannot be pickled or restored, and waits for a free GPU. `nested` flattens and
merges dicts. `mock_trainable` has a trainable for tests. Nothing else of minitune calls them.
"""

from minitune._alias import listing, submodules
from minitune.record.layout import date_text as date_str
from minitune.utils.diagnosis import diagnose_serialization, validate_save_restore, wait_for_gpu, warn_if_slow
from minitune.utils.nested import deep_update, flatten_dict, merge_dicts, unflatten_dict, unflattened_lookup

__all__ = [
    "date_str",
    "deep_update",
    "diagnose_serialization",
    "flatten_dict",
    "merge_dicts",
    "unflatten_dict",
    "unflattened_lookup",
    "validate_save_restore",
    "wait_for_gpu",
    "warn_if_slow",
]

__dir__ = listing(__all__)
__getattr__ = submodules(__name__)
