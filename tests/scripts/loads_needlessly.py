"""Runs a command, and prints which of the modules that the first argument names it has loaded."""

import sys

import minitune.commands.cli

try:
    minitune.commands.cli.main(sys.argv[2:])
except SystemExit:
    print([name for name in sys.argv[1].split() if name in sys.modules], file=sys.stderr)
