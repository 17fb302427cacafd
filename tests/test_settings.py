"""Settings from environment variables."""

from __future__ import annotations

import pytest

from minitune.settings import is_on


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", True),
        ("yes", True),
        ("TRUE", True),
        ("", False),
        ("0", False),
        ("false", False),
        ("False", False),
        ("no", False),
        (" off ", False),
    ],
)
def test_a_switch_is_off_by_the_words_for_off(monkeypatch: pytest.MonkeyPatch, text: str, expected: bool) -> None:
    monkeypatch.setenv("MINITUNE_TRUST", text)
    assert is_on("TRUST") is expected
    assert is_on("TRUST", {}) is False


def test_ray_tunes_variable_counts_if_ours_is_empty() -> None:
    rays = "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"
    own = "MINITUNE_NOSET_CUDA_VISIBLE_DEVICES"
    assert is_on("NOSET_CUDA_VISIBLE_DEVICES", {rays: "1", own: ""})
    assert not is_on("NOSET_CUDA_VISIBLE_DEVICES", {rays: "1", own: "0"})
