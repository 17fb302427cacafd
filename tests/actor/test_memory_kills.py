import os

from minitune.actor.process_tree import MemoryKills
from minitune.base import cgroups


def machine(top, kills, group=None):
    """What the kernel shows: the counter of the whole machine comes late in a long file."""
    others = "".join(f"counter_{number} 1\n" for number in range(1_000))
    (top / "vmstat").write_text(f"{others}oom_kill {kills}\n{others}")
    if group is not None:
        (top / "memory.events").write_text(f"oom 9\noom_kill {group}\noom_group_kill 7\n")
    return MemoryKills([str(top / "memory.events"), str(top / "vmstat")])


def test_a_kill_is_evidence_for_one_death(tmp_path):
    kills = machine(tmp_path, 3)
    assert kills.claim() == ""
    machine(tmp_path, 4)

    assert "rose to 4" in kills.claim()
    assert kills.claim() == ""
    machine(tmp_path, 6)
    assert [bool(kills.claim()) for _ in range(3)] == [True, True, False]


def test_kills_before_a_worker_was_started_are_no_evidence(tmp_path):
    kills = machine(tmp_path, 3)
    machine(tmp_path, 4)
    kills.look()

    assert kills.claim() == ""


def test_the_counter_of_our_own_group_comes_first(tmp_path):
    kills = machine(tmp_path, 3, group=0)
    machine(tmp_path, 3, group=1)

    assert kills.claim().endswith("memory.events")


def test_nothing_is_known_where_the_kernel_shows_no_counter(tmp_path):
    (tmp_path / "vmstat").write_text("oom_killer 5\noom_kill none\n")
    kills = MemoryKills([str(tmp_path / "vmstat"), str(tmp_path / "missing")])
    kills.look()

    assert kills.claim() == ""


def test_our_own_group_is_found_also_if_its_name_is_no_text(tmp_path, monkeypatch):
    group = tmp_path / os.fsdecode(b"caf\xe9")
    group.mkdir()
    (group / "memory.events").write_text("oom_kill 0\n")
    (tmp_path / "own").write_bytes(b"0::/caf\xe9\n")
    monkeypatch.setattr(cgroups, "ROOT", str(tmp_path))
    monkeypatch.setattr(cgroups, "OWN", str(tmp_path / "own"))
    kills = MemoryKills()
    (group / "memory.events").write_text("oom_kill 1\n")
    assert "memory.events" in kills.claim()
