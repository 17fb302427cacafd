"""What a script may ask and report outside of a trial."""

import logging

logging.basicConfig(format="%(message)s")
from minitune.trainable import get_checkpoint, report
from minitune.trainable.context import get_context, get_gpu_ids

for _ in range(3):
    assert report({"x": 1}) is None
    assert get_checkpoint() is None
    assert get_context().get_trial_id() is None
    assert get_context().get_bundles() is None
    assert get_gpu_ids() == []
