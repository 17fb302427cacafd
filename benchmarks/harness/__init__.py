"""Starts the runs of the benchmarks, checks their records, and shows the figures. The runs are scripts in `runs/`."""
