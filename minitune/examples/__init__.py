"""Programs to read, run and change: `python -m minitune.examples.<name>`."""
