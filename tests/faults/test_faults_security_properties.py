"""Nothing is written outside the run's directory, for any names and values that users choose."""

import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from kit import fit

from minitune import choice, report

_PIECES = [
    *("..", ".", "/", "\\", "~", "$HOME", "CON", "nul", "\0", "\n", "\r", " ", "-", "a", "ü", "\ud800", "\u2028", ":")
]
_names = st.one_of(st.lists(st.sampled_from(_PIECES), max_size=8).map("".join), st.text(max_size=300))
_values = st.one_of(_names, st.binary(max_size=20), st.floats(), st.integers(), st.none(), st.lists(_names, max_size=3))


def _trainable(config):
    report({"y": 1, **{key: str(value)[:10] for key, value in config.items()}})


@settings(max_examples=25)
@given(_names, _names, _names, _names, _values)
def test_nothing_is_written_outside_the_runs_directory(run, trial, directory, key, value):
    """Each name at its turn, so that one that is refused does not hide the others."""
    with tempfile.TemporaryDirectory(prefix="names-") as top:
        storage = os.path.join(top, "deep", "er")
        os.makedirs(storage)
        attempts = [
            (run, {}, {}),
            ("run1", {"trial_name_creator": lambda _: trial}, {}),
            ("run2", {"trial_dirname_creator": lambda _: directory}, {}),
            ("run3", {}, {key: choice([value])}),
        ]
        for name, options, space in attempts:
            try:
                [result] = fit(_trainable, space, name=name, storage_path=storage, **options)
            except ValueError as error:
                assert "must" in str(error)  # noqa: PT017  # to be refused is as good
                assert not space, "a value is never refused"
            else:
                assert result.error is None
                assert Path(storage) in Path(result.path).resolve().parents
        assert os.listdir(top) == ["deep"]
        assert os.listdir(os.path.join(top, "deep")) == ["er"]
        for entry in os.scandir(storage):
            assert entry.is_dir(follow_symlinks=False)
            assert not set(entry.name) & set("\0\n\r\u2028")
            shutil.rmtree(entry.path)
