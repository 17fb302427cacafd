"""The card that the tests need, and its memory before and after each test.

The process of the tests is the driver of their runs, and must never touch the card. So `nvidia-smi` and other processes
say what there is.
"""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

SCRIPTS = Path(__file__).with_name("scripts")

SLACK_MIB = 32
"""`nvidia-smi` counts memory of the kernel's driver that comes and goes without us."""
FREED_S = 20.0
"""The memory of a process that has ended may still be counted for a moment."""


class Card(NamedTuple):
    """The first card that this process may use."""

    index: str
    uuid: str
    name: str
    total_mib: int

    def used_mib(self) -> int:
        """Return how much of its memory is in use."""
        return int(_smi("memory.used", self.uuid)[0][0])


def _smi(columns: str, card: str = "") -> list[list[str]]:
    command = ["nvidia-smi", f"--query-gpu={columns}", "--format=csv,noheader,nounits"]
    if card:
        command.append(f"--id={card}")
    text = subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout
    return [[value.strip() for value in row] for row in csv.reader(text.splitlines())]


def _find() -> Card | str:
    """The card, or why there is none."""
    if shutil.which("nvidia-smi") is None:
        return "there is no nvidia-smi, so no card"
    try:
        cards = [
            Card(index, uuid, name, int(total)) for index, uuid, name, total in _smi("index,uuid,name,memory.total")
        ]
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return f"nvidia-smi shows no card: {error}"
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        first = visible.partition(",")[0].strip()
        cards = [card for card in cards if first and (card.index == first or card.uuid.startswith(first))]
    if not cards:
        return f"no card is left by CUDA_VISIBLE_DEVICES={visible!r}"
    asked = subprocess.run(
        [sys.executable, SCRIPTS / "asks_torch.py"], capture_output=True, text=True, timeout=120, check=False
    )
    if not asked.stdout:
        return f"PyTorch cannot use the card: {asked.stderr.strip().rpartition(chr(10))[2] or 'it has no CUDA'}"
    return cards[0]


_FOUND = pytest.StashKey[Any]()


def pytest_configure(config: pytest.Config) -> None:
    """Look for the card once."""
    config.stash[_FOUND] = _find()


def pytest_report_header(config: pytest.Config) -> str:
    """Name the card."""
    return f"card: {config.stash[_FOUND]}"


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say at the end whether a card was used, as the results of skipped tests are green, too."""
    found = config.stash[_FOUND]
    if isinstance(found, Card):
        terminalreporter.write_line(f"GPU tests: run on {found.name}, {found.total_mib} MiB")
    else:
        terminalreporter.write_line(f"GPU tests: NOT RUN, because {found}", red=True)


@pytest.fixture(scope="session")
def card(pytestconfig: pytest.Config) -> Card:
    """The card. Without one, the tests that want it are skipped."""
    found = pytestconfig.stash[_FOUND]
    if isinstance(found, str):
        pytest.skip(f"not run: {found}")
    return found


@pytest.fixture(autouse=True)
def memory_returns(card: Card, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test uses this card alone, and leaves its memory as it was."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", card.index)
    before = card.used_mib()
    yield
    until = time.monotonic() + FREED_S
    while (now := card.used_mib()) > before + SLACK_MIB and time.monotonic() < until:
        time.sleep(0.5)
    assert now <= before + SLACK_MIB, f"{now - before} MiB of the card are still in use"
