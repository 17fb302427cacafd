"""Programs to read, run and change: `python -m minitune.examples.<name>`.

quickstart  a network on real flowers, with early stopping and checkpoints (also `minitune demo`)
pbt         a population of trainings finds a learning-rate schedule
resume      a tuning is killed in the middle, and resumed

They import only what users import.
"""
