"""Seeds: what gives one, and that of each part of a run."""

from minitune.base.seeds import component_seed


def test_parts_of_a_run_draw_from_seeds_of_their_own():
    """The numbers are written down once: a difference would break the resuming of old runs."""
    found = {name: component_seed(7, name) for name in ("searcher", "scheduler", "ids")}
    assert found == {"searcher": 3450349831, "scheduler": 1160977335, "ids": 4157599793}
