"""Values that are stored once for all trials."""

from __future__ import annotations

import os
import pickle
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from minitune.base.shared_values import ObjectStore, ValueFile


@pytest.mark.parametrize(("memory_bytes", "places"), [(0, 1), (3 << 20, 2), (9 << 20, 1)])
def test_large_values_are_in_memory_as_far_as_it_is_enough_each_at_its_place(
    memory_bytes: int, places: int, tmp_path: Path
) -> None:
    with closing(ValueFile(str(tmp_path / "values"), "elsewhere", memory_bytes)) as values:
        refs = [values.put(pickle.PickleBuffer(bytes([number]) * (2 << 20))) for number in range(3)]
        assert [bytes(ref.get()[:1]) for ref in refs] == [b"\0", b"\1", b"\2"]
        if sys.platform == "linux":  # elsewhere all of them are on the disk
            assert len({ref.path for ref in refs}) == places


def test_a_value_that_cannot_be_stored_leaves_nothing_in_the_store(tmp_path: Path) -> None:
    store = ObjectStore(str(tmp_path / "objects"))
    with pytest.raises(TypeError, match="lock"):
        store.put([threading.Lock()], "[lock]", 10)
    assert os.listdir(tmp_path / "objects") == []
