"""The README's replay: the command that it shows prints what stands under it, but for the times of the machine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from minitune import cli

README = (Path(__file__).resolve().parent.parent.parent / "README.md").read_text(encoding="utf-8")


def masked(text: str) -> list[str]:
    text = re.sub(r"\S*valley:", "valley:", text)
    return re.sub(r"[\d.e-]+ s\b( \(\d+%\))?", "<time>", text).splitlines()


def test_the_replay_prints_what_the_readme_shows(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
    (place,) = [i for i, (_, block) in enumerate(blocks) if block.startswith("minitune replay")]
    script = blocks[0][1].partition("tuner =")[0] + blocks[place - 1][1]
    exec(script.replace("seed=0)", 'seed=0, executor="inline")'), {})

    assert cli.main(blocks[place][1].split()[1:]) == 0
    assert masked(capsys.readouterr().out) == masked(blocks[place + 1][1])
