"""`python -m minitune` is the `minitune` command."""

import sys

from minitune.commands.cli import main

if __name__ == "__main__":
    sys.exit(main())
