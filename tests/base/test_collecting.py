"""The collector of garbage, paused for a while."""

import gc

import pytest

from minitune.base.collecting import collector_paused


@pytest.mark.parametrize("was_on", [True, False])
def test_after_a_pause_the_collector_is_on_only_if_it_was(was_on):
    before = gc.isenabled()
    (gc.enable if was_on else gc.disable)()
    try:
        with collector_paused():
            assert not gc.isenabled()
        assert gc.isenabled() == was_on
    finally:
        (gc.enable if before else gc.disable)()
