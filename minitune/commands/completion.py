"""`minitune completion`: a script with which Tab completes commands, options and names of runs in bash or zsh.

The scripts know commands and options; a test compares them with the parsers. For the names of runs they call `minitune
completion runs`. A name may have any characters: a script never lets the shell expand it, and quotes what it inserts.
"""

from __future__ import annotations

import argparse
import os

from minitune.commands import Commands, set_command

_WORDS = r"""_minitune_words() {
    case $1 in
        '') echo run ls show best report watch logs resume stop rm rerun doctor demo completion help ;;
        run) echo --help --metric --mode --num-samples --search --scheduler --max-t --grace --time-budget --cpus \
            --gpus --concurrent --name --storage --timeout --retries --confirm --seed \
            --pattern --dry-run --json ;;
        ls) echo --help --sort --filter --columns --json ;;
        show) echo --help --why --metric --mode --scope --json --config ;;
        best) echo --help --metric --mode --scope --json --config ;;
        report) echo --help --output --metric --mode ;;
        watch) echo --help --web --port --no-browser ;;
        logs) echo --help --follow --stderr ;;
        resume) echo --help --run --errored --restart-errored --add-samples --json ;;
        rm) echo --help --yes ;;
        rerun) echo --help --pdb --script ;;
        demo) echo --help --seed --num-samples --storage ;;
        stop|doctor|completion|help) echo --help ;;
    esac
}
_minitune_takes_runs() {
    case $1 in
        ls|show|best|report|watch|logs|resume|stop|rm|rerun) ;;
        *) return 1 ;;
    esac
}
"""
_BASH = r"""# Completes minitune in bash. In ~/.bashrc: eval "$(minitune completion bash)"
_minitune() {
    local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} quote= name
    COMPREPLY=()
    case $word in
        [\"\']*) quote=${word:0:1} word=${word:1} ;;
    esac
    [[ $quote == \' ]] || word=${word//\\/}
    if (( COMP_CWORD == 1 )); then
        COMPREPLY=($(compgen -W "$(_minitune_words '')" -- "$word"))
    elif [[ " ${COMP_WORDS[*]:1:COMP_CWORD-1} " == *' -- '* ]]; then
        return
    elif [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$(_minitune_words "$command")" -- "$word"))
    elif _minitune_takes_runs "$command"; then
        while IFS= read -r name; do
            [[ $name == "$word"* ]] || continue
            case $quote in
                \') name=${name//\'/\'\\\'\'} ;;
                \") # no quote, which ends the word for readline, and no !, which stands for an earlier command
                    [[ $name == *[\"!]* ]] && continue
                    name=${name//\\/\\\\} name=${name//\$/\\\$} name=${name//\`/\\\`} ;;
                *) printf -v name %q "$name" ;;
            esac
            COMPREPLY+=("$name")
        done < <("${1/#\~\//$HOME/}" completion runs 2>/dev/null)
    fi
}
complete -o default -F _minitune minitune
"""
_ZSH = r"""# Completes minitune in zsh. In ~/.zshrc, behind compinit: eval "$(minitune completion zsh)"
_minitune() {
    local -a names
    if (( CURRENT == 2 )); then
        compadd -- $(_minitune_words '')
    elif (( ${words[(i)--]} < CURRENT )); then
        _files
    elif [[ $PREFIX == -* ]]; then
        compadd -- $(_minitune_words "$words[2]")
    elif _minitune_takes_runs "$words[2]"; then
        names=(${(f)"$(${(Q)~words[1]} completion runs 2>/dev/null)"})
        compadd -a names || _files
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
_SCRIPTS = {"bash": f"{_WORDS}{_BASH}", "zsh": f"#compdef minitune\n{_WORDS}{_ZSH}"}


def add_parser(commands: Commands) -> None:
    """Add the parser of `minitune completion`."""
    parser = commands.add_parser(
        "completion",
        description="Print a script for a shell. With it, Tab completes commands, options and names of runs.",
        epilog='A line in ~/.bashrc loads it: eval "$(minitune completion bash)"; for zsh, a line in ~/.zshrc.',
    )
    parser.add_argument(
        "what", choices=(*_SCRIPTS, "runs"), help="the shell for which the script is; runs: what the scripts ask for"
    )
    set_command(
        parser, completion, "minitune completion bash >> ~/.bashrc", "minitune completion zsh > ~/.zfunc/_minitune"
    )


def completion(options: argparse.Namespace) -> int:
    """Run `minitune completion`: print a script, or the names of the runs below the storage path, one in a line."""
    from minitune.base.text import echo

    if options.what in _SCRIPTS:
        echo(_SCRIPTS[options.what], end="")
        return 0
    for name in _names_of_runs():
        if name.isprintable():  # a line break would make two names of it
            echo(name)
    return 0


def _names_of_runs() -> list[str]:
    from minitune.base.files import local_path
    from minitune.config import default_storage_path
    from minitune.record.layout import find_runs

    storage = local_path(default_storage_path())
    return [os.path.relpath(path, storage) for path in find_runs(storage)]
