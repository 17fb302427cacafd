"""What is said of a disk that refuses a file of a run."""

import errno
import os

import pytest

from minitune.base.disk import disk_error, gone_error, refuses_writes


def refused(number):
    return OSError(number, os.strerror(number))


@pytest.mark.parametrize(
    ("number", "way_out", "is_of_writes"),
    [
        (errno.ENOSPC, "free some space", True),
        (errno.EDQUOT, "free some space", True),
        (errno.EROFS, "check path and disk", True),
        (errno.EIO, "check path and disk", False),
    ],
)
def test_each_refusal_has_its_way_out(number, way_out, is_of_writes):
    error = refused(number)
    assert f"{way_out}, then resume it with Tuner.restore('/runs/a'" in str(
        disk_error("/runs/a", "/runs/a/journal", "written", error)
    )
    assert refuses_writes(error) is is_of_writes


def test_a_directory_that_has_gone_is_to_be_put_back_and_a_journal_is_written_again():
    assert "put it back, then resume it" in str(gone_error("/runs/a", "/runs/a"))
    assert "put it back" not in str(gone_error("/runs/a", "/runs/a/journal"))
