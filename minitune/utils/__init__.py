"""The small helpers that users know from Ray Tune, under the paths that they have there.

`diagnosis` finds out why a trainable cannot be pickled or restored. `nested` flattens and merges dicts. `for_searchers`
checks values and flattens lists.
"""

from minitune.base.lazy import listing, submodules
from minitune.record.layout import date_text as date_str
from minitune.utils.diagnosis import diagnose_serialization, validate_save_restore, warn_if_slow
from minitune.utils.for_searchers import is_nan, is_nan_or_inf, unflatten_list_dict
from minitune.utils.nested import deep_update, flatten_dict, merge_dicts, unflatten_dict, unflattened_lookup

__all__ = [
    "date_str",
    "deep_update",
    "diagnose_serialization",
    "flatten_dict",
    "is_nan",
    "is_nan_or_inf",
    "merge_dicts",
    "unflatten_dict",
    "unflatten_list_dict",
    "unflattened_lookup",
    "validate_save_restore",
    "warn_if_slow",
]

__dir__ = listing(__all__)
__getattr__ = submodules(__name__)
