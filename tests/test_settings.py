"""Settings: which variable decides and what is no number."""

import pytest

from minitune.base import text
from minitune.base.settings import (
    SETTINGS,
    check_numbers,
    is_on,
    number_setting,
    setting,
    variable_of,
)

NUMBERS = [name for name, entry in SETTINGS.items() if entry.is_number]
OF_RAY = [(name, entry.also[0]) for name, entry in SETTINGS.items() if entry.also]


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    for name, entry in SETTINGS.items():
        for variable in (f"MINITUNE_{name}", *entry.also):
            monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(text, "_said", set())


@pytest.mark.parametrize(("name", "of_ray"), OF_RAY)
def test_a_setting_is_read_from_its_own_variable_then_from_that_of_ray(name, of_ray, monkeypatch):
    own = f"MINITUNE_{name}"
    assert (setting(name), variable_of(name)) == (SETTINGS[name].default, own)
    monkeypatch.setenv(of_ray, " 7 ")
    assert (setting(name), variable_of(name)) == ("7", of_ray)
    monkeypatch.setenv(own, "8")
    assert (setting(name), variable_of(name)) == ("8", own)
    monkeypatch.setenv(own, "  ")
    assert (setting(name), variable_of(name)) == ("7", of_ray), "a blank one is not set"


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
def test_a_switch_is_off_by_the_words_for_off(monkeypatch, text, expected):
    monkeypatch.setenv("MINITUNE_TRUST", text)
    assert is_on("TRUST") is expected


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_must_not_be_negative_before_a_run_begins(name, monkeypatch):
    check_numbers()
    for good in ("0", "2.5", "1e3"):
        monkeypatch.setenv(f"MINITUNE_{name}", good)
        check_numbers()
        assert number_setting(name) == float(good)
    for bad in ("-1", "nan", "many"):
        monkeypatch.setenv(f"MINITUNE_{name}", bad)
        for check in (check_numbers, lambda: number_setting(name)):
            with pytest.raises(ValueError, match=f"^MINITUNE_{name} must be a number >= 0, but got '{bad}'$"):
                check()


def test_the_error_names_the_variable_that_was_read(monkeypatch):
    monkeypatch.setenv("TUNE_WARN_THRESHOLD_S", "soon")
    with pytest.raises(ValueError, match=r"^TUNE_WARN_THRESHOLD_S must be a number >= 0, but got 'soon'$"):
        check_numbers()


def test_a_setting_that_may_be_a_text_is_not_checked(monkeypatch):
    monkeypatch.setenv("MINITUNE_EXECUTOR", "local")
    monkeypatch.setenv("MINITUNE_GLOBAL_CHECKPOINT_S", "auto")
    check_numbers()
