"""`minitune run`: programs as trials, with real processes. Examples of the page `programs.md` run as tests, too."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from kit import fit, is_gone, journal_of, listening, wait_until
from manual_pages import MANUAL

from minitune import get_context, report
from minitune.analysis import ExperimentAnalysis
from minitune.commands.selecting import seconds
from minitune.trainable import program as program_module
from minitune.trainable.command_line import read_command
from minitune.trainable.printed import RESERVED, report_in
from minitune.trainable.program import Program

SCRIPTS = Path(__file__).with_name("scripts")

Run = Callable[..., tuple[int, str, str]]

HOSTILE = ["a b", "it's", 'q"', "new\nline", "-x", "--", "$(id); `id`", "", "{x}", "é", "}"]
"""Values that a shell, a parser of options or a template could change."""


def trials(name="run"):
    return ExperimentAnalysis(name).trials


def program(code, directory):
    """A trainable that is a script of the shell, for a run in this process."""
    return Program(read_command(["sh", "-c", code])[0], str(directory))


def shell(code, *more):
    """The command of a program that is a script of the shell; `more` are $1, $2, ..."""
    return ["--", "sh", "-c", code, "sh", *more]


# -- the command line --------------------------------------------------------------------------------------------------
def test_values_arrive_as_they_are(run):
    code = "import json, sys; print(json.dumps({'got': sys.argv[1:]}))"
    place = f"{{x: grid_search({HOSTILE!r})}}"
    status, _, _ = run("run", "--name", "run", "--", sys.executable, "-c", code, place, "<{x}>", "{{x}}", '{"a": {}}')

    assert status == 0
    got = [trial.last_result["got"] for trial in trials()]
    assert got == [[value, f"<{value}>", "{x}", '{"a": {}}'] for value in HOSTILE]


def test_three_command_lines_are_shown_and_nothing_runs(run, tmp_path):
    status, out, _ = run("run", "--dry-run", "--", "touch", "{x: grid_search(['a b', 'c', 'd', 'e'])}")

    assert (status, out.splitlines()) == (0, ["touch 'a b'", "touch c", "touch d"])
    assert list(tmp_path.iterdir()) == []


def test_the_command_lines_that_are_shown_follow_the_seed(run):
    shown = [run("run", "--dry-run", "--seed", seed, "--", "echo", "{x: uniform(0, 1)}")[1] for seed in "112"]
    assert shown[0] == shown[1] != shown[2]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--", "no-such-program"], 1, "there is no program 'no-such-program'"),
        (["--", __file__], 1, f"{__file__} is not executable: put its interpreter before it"),
        (["--time-budget", "10x", "--", "true"], 2, "such as 90s, 10m, 2h, but got 10x"),
        (["--", "echo", "{x: unifrom(0, 1)}"], 2, "did you mean 'uniform'?"),
        (["--", "echo", "{x: choice([__import__('os').mkdir('made')])}"], 2, "literals"),
        (["--", "echo", "{x: uniform(*[0, 1])}"], 2, "literals"),
        (["--", "echo", f"{{x: {'-' * 50_000}1}}"], 2, "expected a domain such as"),
        ([], 2, "a command is needed"),
        (["train.py"], 2, "a command goes behind --"),
        (["python", "train.py", "--lr", "1"], 2, "train.py --lr 1; a program and its arguments go behind --"),
        (["--search", "tpe", "--", "true"], 2, "tpe needs --metric and --mode"),
        (["--scheduler", "asha", "--", "true"], 2, "asha needs --metric and --mode"),
        (["--pattern", "loss", "--", "true"], 2, "named groups"),
        (["--pattern", "(", "--", "true"], 2, "no regular expression"),
        (["--metric", "loss", "--", "true"], 2, "--metric and --mode go together"),
        (["--metric", "done", "--mode", "max", "--", "true"], 2, "with this name is called done_: write done_"),
        (["--max-t", "3", "--", "true"], 2, "--max-t is for --scheduler asha, hyperband"),
        (
            ["--metric", "v", "--mode", "min", "--scheduler", "hyperband", "--grace", "3", "--", "true"],
            2,
            "--grace is for --scheduler asha, but got hyperband",
        ),
        (["--time-budget", "0", "--", "true"], 2, "0 < S"),
        (["--cpus", "many", "--", "true"], 2, "invalid float value: 'many'"),
        (["--cpus", "-1", "--", "true"], 1, "expected 0 <= amount < infinity for resource 'CPU', but got -1"),
        (["--num-samples", "0", "--", "true"], 1, "num_samples must be an int >= 1, or -1 for no end, but got 0"),
        (["--search", "tpee", "--metric", "v", "--mode", "min", "--", "true"], 1, "did you mean 'tpe'?"),
    ],
)
def test_wrong_arguments_are_refused_at_once(run, arguments, status, message, tmp_path):
    found, out, err = run("run", *arguments)

    assert (found, out) == (status, "")
    assert "minitune: " in err
    assert message in err
    assert list(tmp_path.iterdir()) == []


class Made(Exception):
    """Ends a command where its run would begin."""


@pytest.fixture
def made(monkeypatch):
    """What a command has made a `Tuner` of."""
    found = {}

    def note(program, **configs):
        found.update(configs, program=program)
        raise Made

    def note_scheduler(name, **arguments):
        found.update(scheduler=name, arguments=arguments)

    monkeypatch.setattr("minitune.Tuner", note)
    monkeypatch.setattr("minitune.create_scheduler", note_scheduler)
    return found


def test_each_option_has_its_place(run, made, tmp_path):
    options = [
        *("--metric", "loss", "--mode", "max", "--num-samples", "7", "--search", "tpe", "--time-budget", "30"),
        *("--concurrent", "3", "--timeout", "9.5", "--retries", "2", "--seed", "5", "--storage", str(tmp_path / "s")),
        *("--cpus", "2", "--gpus", "0.5", "--name", "mine", "--pattern", "loss (?P<loss>.*)"),
    ]
    with pytest.raises(Made):
        run("run", *options, "--", "true", "{x: uniform(0, 1)}")
    tune, of_run = made["tune_config"], made["run_config"]
    assert (tune.metric, tune.mode, tune.num_samples, tune.search_alg) == ("loss", "max", 7, "tpe")
    assert (tune.time_budget_s, tune.max_concurrent_trials, tune.trial_timeout_s, tune.seed) == (30, 3, 9.5, 5)
    assert (of_run.name, of_run.storage_path) == ("mine", str(tmp_path / "s"))
    assert of_run.failure_config.max_failures == 2
    kept = of_run.checkpoint_config
    assert (kept.num_to_keep, kept.checkpoint_score_attribute, kept.checkpoint_score_order) == (1, "loss", "max")
    assert list(made["param_space"]) == ["x"]

    with pytest.raises(Made):
        run("run", "--num-samples", "-1", "--time-budget", "1m", "--", "true")
    tune = made["tune_config"]
    assert (tune.num_samples, tune.time_budget_s, tune.confirm) == (-1, 60, 0)


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        (["asha", "--max-t", "9", "--grace", "4"], {"max_t": 9, "grace_period": 4}),
        (["hyperband", "--max-t", "9"], {"max_t": 9}),
    ],
)
def test_a_scheduler_gets_its_options_by_its_own_names(run, made, options, arguments):
    with pytest.raises(Made):
        run("run", "--metric", "v", "--mode", "min", "--scheduler", *options, "--", "true", "{x: uniform(0, 1)}")
    assert (made["scheduler"], made["arguments"]) == (options[0], arguments)


@pytest.mark.parametrize(
    ("options", "resources"),
    [
        (["--cpus", "2.0", "--gpus", "0"], {"CPU": 2}),
        (["--gpus", "0.5"], {"CPU": 1, "GPU": 0.5}),
        (["--cpus", "1.5", "--gpus", "1"], {"CPU": 1.5, "GPU": 1}),
    ],
)
def test_a_trial_gets_the_resources_of_the_options(run, made, options, resources):
    with pytest.raises(Made):
        run("run", *options, "--", "true")
    assert made["program"].resources.required_resources == resources


# -- reports -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("line", "options", "expected"),
    [
        ('  {"v": NaN}', [], {"v": pytest.approx(float("nan"), nan_ok=True)}),
        ("epoch 4: v=1e-3", ["--pattern", r"epoch (?P<epoch>\d+): v=(?P<v>\S+)"], {"epoch": 4, "v": 0.001}),
    ],
)
def test_a_line_is_a_report(run, line, options, expected):
    code = 'echo "report of today"; echo "{no json}"; printf "%s\\n" "$1"'
    status, _, _ = run("run", "--name", "run", *options, *shell(code, line))

    (trial,) = trials()
    assert status == 0
    assert trial.last_result["training_iteration"] == 1
    assert {name: trial.last_result[name] for name in expected} == expected


OUTPUTS = {
    "bar": b"\r 10%|#   |\r100%|####|\r            \rreport loss=0.5\n",
    "bar-json": b'1/2 [=> ] loss: 2\r2/2 [==] loss: 1\r{"loss": 0.5}\n',
    "colour": b"\x1b[32mreport loss=0.5\x1b[0m\n",
    "colour-json": b'\x1b[1m{"loss": 0.5}\x1b[0m\n',
    "erased": b"50%\x1b[2K\rreport loss=0.5\n",
    "mark": b'\xef\xbb\xbf{"loss": 0.5}\n',
    "windows": b'{"loss": 0.5}\r\n',
    "no newline": b'{"loss": 0.5}',
}


def test_a_line_is_what_a_terminal_shows(run, tmp_path):
    for name, output in OUTPUTS.items():
        (tmp_path / name).write_bytes(output)
    status, _, _ = run("run", "--name", "run", *shell('cat "$1"', f"{{x: grid_search({[*OUTPUTS]})}}"))

    assert status == 0
    assert [trial.last_result["loss"] for trial in trials()] == [0.5] * len(OUTPUTS)
    assert [Path(trial.local_path, "stdout").read_bytes() for trial in trials()] == list(OUTPUTS.values())


def test_a_pattern_finds_the_last_state_of_a_progress_bar(run, tmp_path):
    (tmp_path / "output").write_bytes(b"".join(b"\r%d/9 loss: \x1b[1m0.%d\x1b[0m \n" % (n, n) for n in (1, 2)))
    status, _, _ = run("run", "--name", "run", "--pattern", r"/9 loss: (?P<loss>\S+)\s\s", *shell("cat output"))

    (trial,) = trials()
    assert (status, trial.last_result["loss"], trial.last_result["training_iteration"]) == (0, 0.2, 2)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_output_is_bytes_whatever_the_locale_is(run, monkeypatch, encoding):
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    printed = "café € 😀\n".encode() + b"\xff\n"
    code = f"import os; [os.write(stream, {printed!r}) for stream in (2, 1)]; os.write(1, b'report v=1')"
    status, _, _ = run("run", "--name", "run", "--", sys.executable, "-c", code)

    (trial,) = trials()
    assert status == 0
    assert Path(trial.local_path, "stdout").read_bytes() == printed + b"report v=1"
    assert Path(trial.local_path, "stderr").read_bytes() == printed


def test_words_of_minitune_are_metrics_of_the_program(run):
    line = json.dumps({"reward": 1, "deep": {"done": True}, "config/x": 2} | dict.fromkeys(RESERVED, True))
    status, _, _ = run("run", "--name", "run", *shell('echo "$1"; echo "$1"; : {x: choice([3])}', line))

    (trial,) = trials()
    assert (status, trial.last_result["training_iteration"], trial.last_result["done"]) == (0, 2, True)
    assert trial.last_result["config"] == {"x": 3}
    assert trial.last_result["trial_id"] == trial.trial_id
    assert [trial.last_result[f"{name}_"] for name in RESERVED] == [True] * len(RESERVED)
    assert trial.last_result["config_/x"] == 2


def test_the_manual_lists_the_words_of_minitune():
    listed = set(re.findall(r"`(\w+)", (MANUAL / "trainables.md").read_text(encoding="utf-8")))
    assert listed >= RESERVED


def test_words_of_minitune_in_a_report_of_python_code_keep_their_meaning(run):
    code = "import minitune; [minitune.report({'v': v, 'done': v == 2}) for v in range(5)]"
    status, _, _ = run("run", "--name", "run", "--", sys.executable, "-c", code)

    assert (status, trials()[0].last_result["v"]) == (0, 2)


def test_python_code_reports_without_a_buffer(run):
    command = [sys.executable, str(SCRIPTS / "reports_without_a_buffer.py")]
    status, _, _ = run("run", "--name", "run", "--pattern", "(?P<w>never)", "--", *command)

    (trial,) = trials()
    assert status == 0
    assert (trial.last_result["v"], trial.last_result["training_iteration"]) == (2, 2)
    logged = 'no newline{"v": 1}\n{"v": 2.0, "name": "<class \'decimal.Decimal\'>"}\n'
    assert run("logs", "run")[1] == logged


@pytest.mark.parametrize(
    ("code", "message", "last"),
    [
        ("echo out; echo reason >&2; exit 3", "the program ended with exit status 3", "reason"),
        ("echo report v=1; kill -9 $$", "the program was killed by SIGKILL, possibly out of memory\n", "report v=1"),
        (
            "echo out; exec 2>/dev/null; sh -c 'kill -9 $$'; exit $?",
            "the program ended with exit status 137\n",
            "out",
        ),
        (r"printf '1%%\r\033[31m2%%\033[m\r\nend\n' >&2; exit 3", "the program ended with exit status 3", "2%\n  end"),
        ("echo hello; echo warned >&2", "the program ended without a report: it must print a line such as", "hello"),
        ("echo warned >&2", "the program ended without a report: it must print a line such as", "warned"),
    ],
)
def test_a_program_that_fails_shows_its_last_lines(run, code, message, last):
    status, out, _ = run("run", "--name", "run", *shell(code))

    assert status == 3
    assert f"minitune.error.ProgramError: {message}" in out
    assert f"its last lines:\n  {last}\n" in out
    assert "Traceback" not in out
    assert run("rerun", "run")[0] == 3


# -- ends --------------------------------------------------------------------------------------------------------------
def test_a_stop_reaches_a_program_that_prints_nothing(run, monkeypatch, bound_s):
    monkeypatch.setenv("MINITUNE_FORCE_TRIAL_CLEANUP_S", "60")  # longer than the limit of this test
    code = "trap 'echo stopped; exit 0' TERM; echo report v=1; sleep 1000 & wait"
    status, _, _ = run("run", "--name", "run", "--time-budget", str(bound_s(0.5)), *shell(code))

    assert (status, run("logs", "run")[1]) == (0, "report v=1\nstopped\n")


def test_a_program_that_ignores_the_stop_is_killed_with_its_children(run, monkeypatch, bound_s):
    monkeypatch.setenv("MINITUNE_FORCE_TRIAL_CLEANUP_S", "0.3")
    code = "trap '' TERM; sleep 1000 & echo report child=$!; wait; wait"
    run("run", "--name", "run", "--time-budget", str(bound_s(0.5)), *shell(code))

    (trial,) = trials()
    assert is_gone(trial.last_result["child"])


def test_a_program_that_takes_too_long_shows_its_own_last_lines(run, bound_s):
    command = shell("echo report v=1; echo here it hangs; sleep 1000")
    status, out, _ = run("run", "--name", "run", "--timeout", str(bound_s(0.5)), *command)

    assert status == 3
    _, _, last = out.partition("last lines of its output:\n")
    assert last.startswith("report v=1\nhere it hangs\n")


def test_a_stop_of_the_scheduler_ends_the_program(run):
    code = "i=0; while :; do i=$((i + 1)); echo report v=$i; done"
    status, _, _ = run(
        "run", "--metric", "v", "--mode", "max", "--scheduler", "asha", "--max-t", "3", "--name", "run", *shell(code)
    )

    assert (status, trials()[0].last_result["v"]) == (0, 3)


def test_a_program_that_a_signal_for_all_has_ended_starts_again(run, caplog):
    code = 'echo report v=1; [ -e "$1/once" ] || { touch "$1/once"; kill -HUP $$; }'
    status, _, _ = run("run", "--name", "run", *shell(code, "{trial_dir}"))

    assert (status, trials()[0].num_failures) == (0, 0)
    assert "lost its worker (KeyboardInterrupt: the program was killed by SIGHUP)" in caplog.text
    status, out, err = run("rerun", "run")
    assert (status, "failed after 1 report" in out) == (3, True)
    assert "the program was killed by SIGHUP" in err


def test_a_process_that_outlives_its_program_does_not_hold_the_trial(run):
    status, _, _ = run("run", "--name", "run", *shell("sleep 1000 & echo report child=$!"))

    assert (status, is_gone(trials()[0].last_result["child"])) == (0, True)


def test_a_process_that_floods_the_output_of_its_program_does_not_hold_the_trial(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(program_module, "_LATE_S", 0.01)
    # A session of its own: no signal to the program's group reaches it.
    grid = fit(program("setsid yes & echo report child=$!", tmp_path))

    assert grid[0].error is None
    wait_until(lambda: is_gone(grid[0].metrics["child"]), "the pipe is closed, so that the process ends")


def test_a_burst_at_the_end_is_read_whole_while_reports_are_slow(tmp_path, monkeypatch):
    monkeypatch.setattr(program_module, "_LATE_S", 0.01)
    burst = "i=0; while [ $i -lt 3000 ]; do echo report v=$i; i=$((i + 1)); done; : >over"
    has_ended = listening(on_trial_result=lambda **info: wait_until((tmp_path / "over").exists))
    grid = fit(program(burst, tmp_path), callbacks=[has_ended])

    assert (grid[0].error, grid[0].metrics["v"], grid[0].metrics["training_iteration"]) == (None, 2999, 3000)


@pytest.mark.parametrize("stream", [1, 2])
def test_a_full_disk_below_the_output_is_the_cause_and_no_hang(run, stream):
    name = "stdout" if stream == 1 else "stderr"
    # The second attempt appends to the device.
    code = f"""
    [ -L "$1/{name}" ] || {{ ln -sf /dev/full "$1/{name}"; exit 1; }}
    head -c 1000000 /dev/zero >&{stream}; echo report v=1
    """
    status, out, _ = run("run", "--retries", "1", "--name", "run", *shell(code, "{trial_dir}"))

    assert (status, "No space left on device" in out) == (3, True)


# -- checkpoints -------------------------------------------------------------------------------------------------------
COUNT = """
file="$MINITUNE_CHECKPOINT_DIR/step"; step=$(cat "$file" 2>/dev/null || echo 0); echo "start $step"
while [ $step -lt 4 ]; do
    step=$((step + 1)); echo $step >"$file.new"; mv "$file.new" "$file"; echo report v=$step
    if [ $step = 2 ] && [ ! -e "$1/once" ]; then touch "$1/once"; sleep "$2"; exit 1; fi
done
"""


def test_a_program_that_replaces_its_directory_goes_on_without_checkpoints(run):
    replace = 'rm -r "$MINITUNE_CHECKPOINT_DIR"; touch "$MINITUNE_CHECKPOINT_DIR"'
    status, _, _ = run("run", "--name", "run", *shell(f"{replace}; echo report v=1"))
    assert status == 0
    assert not any("program" in name for name in os.listdir(trials("run")[0].local_path))


def test_an_interrupted_run_is_resumed_from_the_checkpoint(script):
    driver = script.start_minitune(
        "run", "--cpus", "1", "--metric", "v", "--mode", "max", "--name", "run", *shell(COUNT, "{trial_dir}", "1000")
    )
    script.wait_until(
        lambda: any(
            json.loads(line)["v"] == 2
            for path in script.storage.glob("run/*/result.json")
            for line in path.read_text().splitlines()
        )
    )
    driver.send_signal(signal.SIGINT)
    _, stderr = script.finish(driver)
    assert driver.returncode == 4
    assert f"interrupted by SIGINT; resume with minitune resume {script.storage / 'run'}\n" in stderr

    assert script.run_minitune("resume", "run").returncode == 0
    shown = script.run_minitune("logs", "run").stdout
    assert [line for line in shown.splitlines() if "start" in line] == ["start 0", "start 2"]


# -- the other commands ------------------------------------------------------------------------------------------------
def test_the_best_command_line_can_be_pasted(run):
    run(
        "run",
        "--metric",
        "v",
        "--mode",
        "max",
        "--name",
        "run",
        *shell('echo "report v=$1"', "{v: grid_search([1, 2])}", "a 'b'"),
    )

    assert """command         sh -c 'echo "report v=$1"' sh 2 'a '"'"'b'"'"''""" in run("best", "run")[1].splitlines()
    assert json.loads(run("show", "run", "1", "--json")[1])["command"][-2:] == ["2", "a 'b'"]
    status, out, _ = run("rerun", "run", "1")
    assert (status, "iteration 1: v=2" in out) == (0, True)


def test_a_stop_calls_the_functions_that_wait_for_it(monkeypatch, bound_s):
    monkeypatch.setenv("MINITUNE_FORCE_TRIAL_CLEANUP_S", "60")  # longer than the limit of this test

    def waits(config):
        told = threading.Event()
        get_context().on_stop(told.set)
        report({"x": 1})
        told.wait()

    grid = fit(waits, time_budget_s=bound_s(1), executor="local")

    assert grid[0].metrics is not None
    assert grid[0].metrics["x"] == 1


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("python -u dir/train.py --lr 1", "train"),
        ("/usr/bin/env python3.11 train.py", "train"),
        ("python -m papermill train.ipynb", "papermill"),
        ("./descent 1", "descent"),
        ("{program: choice(['a.py'])}", "program"),
    ],
)
def test_the_run_is_named_after_the_program(words, name):
    words_of = shlex.split(words) if "{" not in words else [words]
    assert read_command(words_of)[0].name == name


# -- small parts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"), [("90", 90), ("90s", 90), ("10m", 600), ("1.5h", 5400), ("2d", 172800), ("1e3", 1000)]
)
def test_a_time_may_have_a_unit(text, expected):
    assert seconds(text) == expected


def test_a_program_prints_its_reports_in_the_order_of_its_other_prints(script):
    source = SCRIPTS / "prints_and_reports.py"
    lines_printed = script.run(source, MINITUNE_PROGRAM="1").removesuffix("\n").split("\n")
    assert [report_in(line) or line for line in lines_printed] == ["before", {"loss": 1}, "after"]


def checkpoints_of():
    """The numbers of the checkpoints on record, in order."""
    found = [record.get("checkpoint") for record in journal_of("run") if record["type"] in ("result", "checkpoint")]
    return [checkpoint["number"] for checkpoint in found if checkpoint]


def test_only_a_change_of_the_directory_is_a_checkpoint(tmp_path):
    code = (
        'cd "$MINITUNE_CHECKPOINT_DIR"; if [ -e weights ]; then echo report n=3; exit 0; fi; '
        "echo 1 > weights; echo report n=1; echo report n=2; exit 1"
    )
    (result,) = fit(program(code, tmp_path), max_failures=1)
    assert (result.metrics["n"], checkpoints_of()) == (3, [0])
