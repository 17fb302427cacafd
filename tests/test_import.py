"""What `import minitune` loads, and what it offers."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import minitune

ROOT = Path(__file__).resolve().parent.parent


def test_import_loads_neither_dependencies_nor_processes():
    code = (
        "import sys, minitune; print([name for name in ('cloudpickle', 'psutil', 'multiprocessing', 'numpy', 'pandas') "
        "if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("name", minitune.__all__)
def test_every_public_name_is_there_and_documented(name):
    value = getattr(minitune, name)
    assert name == "__version__" or value.__doc__


def test_type_checkers_see_the_same_names_as_users():
    tree = ast.parse((ROOT / "minitune" / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {alias.asname for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert typed == set(minitune.__all__) - {"__version__"}


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = minitune.nonsense
