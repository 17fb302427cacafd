"""`minitune completion`: what Tab offers, and the scripts of the shells, run by the shells that are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command_runs import fit_three

from minitune import cli
from minitune.commands.completion import candidates

COMMAND = f"#!{sys.executable}\nfrom minitune.cli import main\nraise SystemExit(main())\n"


@pytest.fixture(autouse=True)
def in_storage(storage: Path, storage_of_its_own: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The storage has one run, `run`, with the trials 0, 1 and 2."""
    monkeypatch.setenv("MINITUNE_STORAGE_PATH", str(storage))


def offered(line: str) -> list[str]:
    return list(candidates(line.split(" ")))


# -- candidates --------------------------------------------------------------------------------------------------------
def test_the_first_word_becomes_a_command() -> None:
    assert offered("") == list(cli.COMMANDS)
    assert offered("co") == ["compare", "completion"]
    assert candidates(["compa"]) == {"compare": cli.COMMANDS["compare"][1]}


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_option_of_a_command_is_offered(name: str) -> None:
    known = {option for option in cli.parser_of(name)._option_string_actions if option.startswith("--")}
    assert {option for option in offered(f"{name} -") if option.startswith("--")} == known


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("show ", ["run", "last"]),
        ("show r", ["run"]),
        ("compare run ", ["run", "last"]),
        ("resume ru", ["run"]),
        ("show run ", ["0", "1", "2"]),
        ("show --json run ", ["0", "1", "2"]),
        ("logs run 1", ["1"]),
        ("best run --metric ", ["loss"]),
        ("best run --metric=", ["--metric=loss"]),
        ("best --metric ", ["loss"]),
        ("best run --mode ", ["min", "max"]),
        ("best run --config=a", ["--config=args"]),
        ("ls run --sort lo", ["loss", "logdir"]),
        ("ls run --columns loss,config", ["loss,config/x"]),
        ("ls --sort na", ["name"]),
        ("ls run --filter lo", ["loss", "logdir"]),
        ("help sch", ["schedulers"]),
        ("completion ", ["bash", "zsh", "fish"]),
        ("best --mode max run --metric ", ["loss"]),
        ("ls run --limit 3 --sort lo", ["loss", "logdir"]),
        ("run --search tp", ["tpe"]),
    ],
)
def test_a_word_becomes_what_its_argument_takes(line: str, values: list[str]) -> None:
    assert offered(line) == values


@pytest.mark.parametrize(
    "line", ["dmeo ", "show none ", "show run 0 ", "run -- python --", "run --name ", "best none --metric "]
)
def test_nothing_is_offered_for_a_word_that_may_be_anything(line: str) -> None:
    assert offered(line) == []


def test_a_trial_is_described_by_its_state_and_its_parameters() -> None:
    assert candidates(["show", "run", ""]) == {"0": "finished x=0", "1": "finished x=1", "2": "failed x=2"}


def test_a_run_whose_record_is_damaged_offers_no_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fit_three(tmp_path)
    monkeypatch.setenv("MINITUNE_STORAGE_PATH", str(tmp_path))
    (tmp_path / "run" / "journal").write_text("no record\n" * 3)
    capsys.readouterr()

    assert cli.main(["completion", "bash", "--", "show", "run", ""]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("shell", "words", "lines"),
    [
        ("bash", ["best", "run", "--metric", "=", "lo"], ["loss"]),  # bash splits at =, and replaces what is behind it
        ("bash", ["best", "run", "--metric", "="], ["loss"]),
        ("bash", ["best", "run", "--metric=lo"], ["loss"]),
        ("bash", ["best", "run", "--mode", "=", "min", "--metric", "=", ""], ["loss"]),
        ("bash", ["best", "run", "--mode", "m"], ["min", "max"]),
        ("bash", ["run", "=", "--metr"], ["--metric"]),  # no option stands before it
        ("zsh", ["best", "run", "--metric=lo"], ["--metric=loss"]),
        ("fish", ["best", "run", "--config=a"], ["--config=args"]),
        ("zsh", ["show", "run", "2"], ["2:failed x=2"]),
        ("fish", ["show", "run", "2"], ["2\tfailed x=2"]),
        ("bash", ["show", "run", "2"], ["2"]),
        ("bash", ["show", "'ru"], ["run"]),
        ("bash", ["show", '"ru'], ["run"]),
        ("bash", ["show", "r\\u"], ["run"]),
        ("bash", ["compare", "run", "last", "--metric", ""], ["loss"]),
        ("bash", ["ls", "run", "--sort", "loss,logd"], ["loss,logdir"]),
        ("bash", ["ls", "run", "--columns", "trial,loss,"], None),
    ],
)
def test_a_shell_gets_what_replaces_the_word(
    shell: str, words: list[str], lines: list[str] | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["completion", shell, "--", *words]) == 0
    found = capsys.readouterr().out.splitlines()
    if lines is None:
        assert found
        assert all(line.startswith("trial,loss,") and line.count(",") == 2 for line in found)
    else:
        assert found == lines


# -- shells ------------------------------------------------------------------------------------------------------------
def completed(shell: list[str], code: str, tmp_path: Path, *arguments: str, before: str = "") -> list[str]:
    """What a shell prints that runs the script for it, with other code around. `minitune` is in its PATH."""
    program = tmp_path / "bin" / "minitune"
    program.parent.mkdir()
    program.write_text(COMMAND)
    program.chmod(0o755)
    env = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "PYTHONPATH": os.pathsep.join(sys.path)}
    name = Path(shell[0]).name
    script = subprocess.run([program, "completion", name], env=env, capture_output=True, text=True, check=True).stdout
    done = subprocess.run([*shell, "-c", before + script + code, *arguments], env=env, capture_output=True, text=True)
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("words", "values"),
    [
        (["comple"], ["completion"]),
        (["show", "run", ""], ["0", "1", "2"]),
        (["best", "run", "--metric", "=", "lo"], ["loss"]),
        (["best", "run", "--metric", "="], ["loss"]),
        (["ls", "my\\ "], ["my\\ run"]),
        (["ls", '"my '], ["my run"]),
        (["ls", "run", "--filter", "'conf"], ["config/x"]),
        (["show", "my\\ run", "2"], ["2"]),
        (["show", "./"], []),
    ],
)
def test_bash_completes_a_word(
    words: list[str], values: list[str], storage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    for name in ("run", "my run"):
        shutil.copytree(storage / "run", runs / name)
    monkeypatch.setenv("MINITUNE_STORAGE_PATH", str(runs))
    code = (
        'complete -p minitune >/dev/null\nCOMP_WORDS=(minitune "$@")\nCOMP_CWORD=$#\n_minitune minitune\n'
        'for one in "${COMPREPLY[@]}"; do echo "$one"; done'
    )
    assert completed(["bash"], code, tmp_path, "bash", *words) == values


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
def test_zsh_completes_a_word_with_descriptions(tmp_path: Path) -> None:
    code = (
        "_describe() { print -rl -- $found }\n_files() { print files }\n"
        'words=(minitune "$@")\nCURRENT=$#words\n_minitune\n'
    )
    found = completed(["zsh", "-f"], code, tmp_path, "zsh", "show", "run", "", before="compdef() {}\n")
    assert found == ["0:finished x=0", "1:finished x=1", "2:failed x=2"]


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_fish_completes_a_word_with_descriptions(tmp_path: Path) -> None:
    found = completed(["fish", "--no-config"], "complete -C 'minitune show run '", tmp_path)
    assert found == ["0\tfinished x=0", "1\tfinished x=1", "2\tfailed x=2"]


@pytest.mark.parametrize(
    ("shell", "lines"),
    [
        ("zsh", ["0:finished x=0", "1:finished x=1", "2:failed x=2"]),
        ("fish", ["0\tfinished x=0", "1\tfinished x=1", "2\tfailed x=2"]),
        ("bash", ["0", "1", "2"]),
    ],
)
def test_each_shell_gets_candidates_in_its_form(
    shell: str, lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert cli.main(["completion", shell, "--", "show", "run", ""]) == 0
    assert capsys.readouterr().out.splitlines() == lines


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_asks_for_the_candidates_of_its_own_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", shell]) == 0
    assert f" completion {shell} -- " in capsys.readouterr().out


def test_another_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["completion", "tcsh"])
    assert ended.value.code == 2
    assert "minitune: argument shell: invalid choice: 'tcsh'" in capsys.readouterr().err
