"""`minitune completion`: a script that completes command lines in a shell, and the candidates for which it asks.

A script knows no command. At each Tab it runs `minitune completion SHELL -- WORDS`, with the words behind `minitune` up
to the cursor; the last one may be incomplete or empty. The answer has a line for each candidate. Without a candidate,
the shell completes names of files.

The name of an argument says what it takes: a run, a trial, a metric, columns.
"""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import get_args

from minitune.commands import Commands, behind_dashes, set_command

Candidates = Mapping[str, str]
"""The descriptions of candidates; they may be empty. A shell with descriptions shows them."""

_BASH = """\
# Completes minitune in bash. In ~/.bashrc: eval "$(minitune completion bash)"
_minitune() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        [[ ${COMP_WORDS[COMP_CWORD]} == [\\"\\']* ]] || printf -v line %q "$line"
        COMPREPLY+=("$line")
    done < <("${1/#\\~\\//$HOME/}" completion bash -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -o nosort -F _minitune minitune 2>/dev/null || complete -o default -F _minitune minitune
"""
_ZSH = """\
#compdef minitune
# Completes minitune in zsh. In ~/.zshrc, behind compinit: eval "$(minitune completion zsh)"
_minitune() {
    local line
    local -a found
    while IFS= read -r line; do
        found+=("$line")
    done < <(${(Q)~words[1]} completion zsh -- "${(@)words[2,CURRENT]}" 2>/dev/null)
    if (( $#found )); then
        _describe -V minitune found
    else
        _files
    fi
}
if [[ $funcstack[1] == _minitune ]]; then
    _minitune "$@"
else
    compdef _minitune minitune
fi
"""
_FISH = """\
# Completes minitune in fish: minitune completion fish > ~/.config/fish/completions/minitune.fish
function __minitune_candidates
    set -l before (commandline -opc)
    set -l word (commandline -ct)
    set -l found ($before[1] completion fish -- $before[2..-1] "$word" 2>/dev/null)
    if set -q found[1]
        printf '%s\\n' $found
    else
        __fish_complete_path "$word"
    end
end
complete -c minitune -f -k -a '(__minitune_candidates)'
"""
_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}

_LONGEST = 60
"""The maximum number of characters of a parameter in the description of a trial."""


def add_parser(commands: Commands) -> None:
    """Add the parser of `minitune completion`."""
    parser = commands.add_parser(
        "completion",
        usage="minitune completion [-h] {bash,zsh,fish}",
        description="Print a script for a shell. With it, Tab completes commands, options, runs, trials, metrics and "
        "columns.",
        epilog='A line in ~/.bashrc loads it: eval "$(minitune completion bash)"; for zsh, a line in ~/.zshrc.',
    )
    parser.add_argument("shell", choices=tuple(_SCRIPTS), help="the shell for which the script is")
    set_command(
        parser,
        completion,
        "minitune completion bash >> ~/.bashrc",
        "minitune completion fish > ~/.config/fish/completions/minitune.fish",
        own_begins=behind_dashes,
    )


def completion(options: argparse.Namespace) -> int:
    """Run `minitune completion`: print the script, or the candidates for the last of the words behind `--`."""
    from minitune.base.text import echo, one_line

    if not options.own:
        echo(_SCRIPTS[options.shell], end="")
        return 0
    words = [_unquoted(word) for word in options.own]
    cut = 0
    if options.shell == "bash":
        words, cut = _joined(words)
    for value, text in candidates(words).items():
        line = value[cut:]
        text = one_line(text)
        if options.shell == "zsh":
            line = line.replace(":", "\\:")
            line += f":{text}" if text else ""
        elif options.shell == "fish" and text:
            line += f"\t{text}"
        echo(line)
    return 0


# -- the words ---------------------------------------------------------------------------------------------------------
def _unquoted(word: str) -> str:
    """A word as the shell would pass it on, although its quotes may still be open."""
    for end in ("", '"', "'"):
        try:
            return " ".join(shlex.split(word + end))
        except ValueError:
            continue
    return word


def _joined(words: list[str]) -> tuple[list[str], int]:
    """The words with `--option=value`, at which bash splits, as one; and how many characters of the last one bash does
    not replace.
    """
    joined: list[str] = []
    cut = 0
    for word in words:
        is_value = bool(joined) and joined[-1].startswith("--") and joined[-1].endswith("=")
        if is_value or (word == "=" and joined and joined[-1].startswith("--")):
            joined[-1] += word
        else:
            joined.append(word)
    if joined[-1].startswith("--"):
        option, sign, _ = joined[-1].partition("=")
        cut = len(option + sign) if sign else 0
    return joined, cut


# -- the candidates ----------------------------------------------------------------------------------------------------
def candidates(words: list[str]) -> Candidates:
    """What the last of these words behind `minitune` may become, with descriptions; empty if that is not known."""
    from minitune.cli import COMMANDS, parser_of

    *before, word = words
    if not before:
        return _that_begin(word, {name: text for name, (_, text) in COMMANDS.items()})
    name = before[0]
    if name not in COMMANDS or "--" in before:
        return {}
    parser = parser_of(name)
    action, given = _awaited(parser, before[1:])
    is_value = action is not None and bool(action.option_strings)
    option, sign, value = word.partition("=")
    if not is_value and sign and option in parser._option_string_actions:
        found = _values(parser._option_string_actions[option], given, value)
        return {f"{option}={each}": text for each, text in found.items()}
    if not is_value and word.startswith("-"):
        return _that_begin(word, _options(parser))
    if action is None:
        return {}
    return _values(action, given, word)


def _that_begin(word: str, known: Candidates) -> Candidates:
    return {each: text for each, text in known.items() if each.startswith(word)}


def _options(parser: argparse.ArgumentParser) -> Candidates:
    return {
        option: action.help or ""
        for action in parser._actions
        if action.help != argparse.SUPPRESS
        for option in action.option_strings[-1:]
    }


def _awaited(parser: argparse.ArgumentParser, words: Iterable[str]) -> tuple[argparse.Action | None, dict[str, str]]:
    """The argument to which the word behind these words belongs, and the value of each argument in them, by name."""
    positional = [action for action in parser._actions if not action.option_strings]
    option: argparse.Action | None = None
    given: dict[str, str] = {}
    for word in words:
        if option is not None:
            given[option.dest] = word
            option = None
        elif word.startswith("-"):
            option = parser._option_string_actions.get(word)
            if option is not None and option.nargs == 0:
                option = None
        elif positional:
            given.setdefault(positional[0].dest, word)
            if positional[0].nargs not in ("*", "+"):
                del positional[0]
    if option is not None:
        return option, given
    return positional[0] if positional else None, given


def _values(action: argparse.Action, given: Mapping[str, str], word: str) -> Candidates:
    """The values of an argument that begin like the word."""
    from minitune.commands.selecting import ERRORS

    if action.choices is not None:
        return _that_begin(word, dict.fromkeys(map(str, action.choices), ""))
    source = _SOURCES.get(action.dest)
    if source is None:
        return {}
    done = ""
    if action.dest in _LISTS:
        # Only the last name of a list is incomplete.
        done, comma, word = word.rpartition(",")
        done += comma
    try:
        known = source(given.get("run") or given.get("runs"))
    except ERRORS:  # no such run, or a damaged one: the command itself will say so
        return {}
    return {done + each: text for each, text in _that_begin(word, known).items()}


def _runs(_: str | None) -> Candidates:
    from minitune.base.files import local_path
    from minitune.config import default_storage_path
    from minitune.record.layout import LAST, find_runs

    storage = local_path(default_storage_path())
    names = [os.path.relpath(path, storage) for path in find_runs(storage)]
    return dict.fromkeys([*names, LAST] if names else names, "")


def _trials(run: str | None) -> Candidates:
    from minitune.output.rows import row_of, values_text
    from minitune.record.layout import LAST, run_path
    from minitune.record.standing import read_standing

    story, _ = read_standing(run_path(run or LAST))
    rows = [row_of(trial, ()) for trial in story.trials]
    return {str(row.number): f"{row.ended} {values_text(row.params, _LONGEST)}".strip() for row in rows}


def _metrics(run: str | None) -> Candidates:
    from minitune.experiment.goal import reported_metrics
    from minitune.record.layout import LAST, run_path
    from minitune.record.standing import read_standing

    story, _ = read_standing(run_path(run or LAST))
    return dict.fromkeys(reported_metrics(story.trials), "")


def _columns(run: str | None) -> Candidates:
    from minitune.commands.look import listing_of

    return dict.fromkeys(listing_of(run).columns(), "")


def _pages(_: str | None) -> Candidates:
    from minitune.commands.manual import read_pages

    return dict.fromkeys(sorted(read_pages()), "")


def _searchers(_: str | None) -> Candidates:
    from minitune.search.by_name import SearcherName

    return dict.fromkeys(get_args(SearcherName), "")


def _schedulers(_: str | None) -> Candidates:
    from minitune.schedulers import SchedulerName

    return dict.fromkeys(get_args(SchedulerName), "")


_SOURCES: dict[str, Callable[[str | None], Candidates]] = {
    "run": _runs,
    "runs": _runs,
    "target": _runs,
    "trial": _trials,
    "metric": _metrics,
    "sort": _columns,
    "columns": _columns,
    "filter": _columns,
    "search": _searchers,
    "scheduler": _schedulers,
    "subject": _pages,
}
"""Where the values of an argument come from, by its name. They get the run in the words before, if there is one."""
_LISTS = ("sort", "columns")
"""The arguments that are names with commas between them."""
