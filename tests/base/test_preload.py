"""Imports at the beginning of a function, which are done in advance."""

import functools
import sys

import pytest

from minitune import Trainable, with_parameters, with_resources
from minitune.base.preload import _first_function, first_imports, import_ahead


@pytest.fixture
def function_of(tmp_path):
    """Makes a function that begins with these lines."""

    def make(*lines):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.py"
        path.write_text("\n    ".join(("def outer(config):", *lines)) + "\n")
        names = {}
        exec(compile(path.read_text(), path, "exec"), names)
        return names["outer"]

    return make


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            ("import json, csv", "from os import path, sep", "from . import own", "import csv"),
            [("json", ()), ("csv", ()), ("os", ("path", "sep"))],
        ),
        (("import json", "json.dumps(1)", "import csv"), [("json", ())]),
        (('"""A text."""', "global json", "import json", "yield", "import csv"), [("json", ())]),
        (("if config: import json",), []),
    ],
)
def test_the_imports_at_the_beginning_of_a_function_are_found(function_of, lines, expected):
    assert first_imports(function_of(*lines)) == expected


def test_what_has_no_source_has_no_imports():
    names = {}
    exec("def train(config): import json", names)
    for value in (names["train"], len, 3, Trainable, lambda config: 1):
        assert first_imports(value) == []


def train(config):
    import json  # noqa: F401


class Class(Trainable):
    def step(self):
        return {}


class WithSetup(Class):
    def setup(self, config, data=None):
        import json  # noqa: F401


class WithConstructor(WithSetup):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)


@pytest.mark.parametrize(
    ("value", "function"),
    [
        (train, train),
        (with_parameters(train), train),
        (with_resources(with_parameters(train), {"cpu": 1}), train),
        (functools.partial(functools.partial(train)), train),
        (functools.wraps(train)(lambda config: train(config)), train),
        (Class, Class.step),
        (WithSetup, WithSetup.setup),
        (with_parameters(WithSetup, data=1), WithSetup.setup),
        (WithConstructor, WithConstructor.__init__),
        (Trainable, None),
        (3, 3),
    ],
)
def test_the_first_function_of_the_users_is_found_within_wrappers(value, function):
    assert _first_function(value) is function


def test_installed_packages_are_imported_in_advance_up_to_the_users_own_module(tmp_path, monkeypatch, function_of):
    installed = tmp_path / "site-packages"
    (installed / "first_of_mine").mkdir(parents=True)
    (installed / "first_of_mine" / "__init__.py").touch()
    (installed / "first_of_mine" / "part.py").touch()
    (installed / "second_of_mine.py").write_text("raise SystemExit(3)")
    (installed / "third_of_mine.py").touch()
    (tmp_path / "own_of_mine.py").touch()
    for directory in (installed, tmp_path):
        monkeypatch.syspath_prepend(str(directory))
    names = ("first_of_mine", "first_of_mine.part", "second_of_mine", "third_of_mine", "own_of_mine")

    def imported(*imports):
        for name in names:
            monkeypatch.delitem(sys.modules, name, raising=False)
        import_ahead(first_imports(function_of(*imports)))
        return [name for name in names if name in sys.modules]

    assert imported("from first_of_mine import part", "import third_of_mine") == [
        "first_of_mine",
        "first_of_mine.part",
        "third_of_mine",
    ]
    assert imported("import first_of_mine", "import own_of_mine", "import third_of_mine") == ["first_of_mine"]
    assert imported("import missing_of_mine", "import third_of_mine") == []
    assert imported("import first_of_mine", "import second_of_mine", "import third_of_mine") == ["first_of_mine"]
    assert imported("import sys, math, minitune", "import third_of_mine") == ["third_of_mine"]
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
