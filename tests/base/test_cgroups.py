"""The control groups of this process."""

import os

import pytest

from minitune.base import cgroups
from minitune.base.cgroups import own_groups, read_text


@pytest.mark.parametrize(
    ("own", "groups"),
    [
        ("0::/\n", [""]),
        ("0::/a/b\n", ["a/b", "a", ""]),
        ("0::/../elsewhere\n", [""]),
        ("4:memory:/a\n", ["memory/a", "memory"]),
        (
            "4:cpu,memory:/a\n",
            ["cpu,memory/a", "cpu,memory", "memory/a", "memory"],
        ),
        ("3:cpu:/a\n", []),
        ("3:cpu:/a\n0::/b\n", ["b", ""]),
        ("", []),
        ("0::/with:colon\n", ["with:colon", ""]),
    ],
)
def test_the_groups_of_a_controller_are_its_own_and_those_above(tmp_path, monkeypatch, own, groups):
    monkeypatch.setattr(cgroups, "ROOT", "/top")
    monkeypatch.setattr(cgroups, "OWN", str(tmp_path / "own"))
    (tmp_path / "own").write_text(own)
    found = list(own_groups("memory"))
    assert [os.path.normpath(path) for path in found] == [os.path.normpath(f"/top/{group}") for group in groups]


def test_a_file_that_cannot_be_read_is_empty(tmp_path):
    (tmp_path / "limit").write_bytes(b" max\xff\n")
    assert read_text(tmp_path / "limit") == "max\udcff"
    assert read_text(tmp_path / "missing") == ""
