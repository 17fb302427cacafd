"""Programs to read, run and change: `python -m minitune.examples.<name>`.

quickstart     a network on real flowers, with early stopping and checkpoints (also `minitune demo`)
digits         scikit-learn on handwritten digits, with checkpoints to load (needs `minitune[examples]`)
tpe_asha       a searcher that learns and a scheduler that stops early, together
pbt            a population of trainings finds a learning-rate schedule
resume         a tuning is killed in the middle, and resumed
torch_spirals  PyTorch on CPUs or shared GPUs (needs `minitune[torch]`)
ci_smoke       a training as a test, for CI
"""
