"""How the benchmarks are run, checked and shown; the runs themselves are scripts in `runs/`."""
