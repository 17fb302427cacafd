"""The small helpers that users know from Ray Tune, under the paths that they have there.

`diagnosis` finds out why a trainable cannot be pickled or restored. `nested` flattens and merges dicts.
"""

from minitune.base.lazy import listing, submodules
from minitune.record.layout import date_text as date_str
from minitune.utils.diagnosis import diagnose_serialization, validate_save_restore
from minitune.utils.nested import deep_update, flatten_dict, merge_dicts, unflatten_dict

__all__ = [
    "date_str",
    "deep_update",
    "diagnose_serialization",
    "flatten_dict",
    "merge_dicts",
    "unflatten_dict",
    "validate_save_restore",
]

__dir__ = listing(__all__)
__getattr__ = submodules(__name__)
