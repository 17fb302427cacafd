"""The digits example tells what it needs."""

from __future__ import annotations

import sys

import pytest

from minitune.examples import digits


def test_without_scikit_learn_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    assert digits.main([]) == 1
    assert "minitune[examples]" in capsys.readouterr().err
