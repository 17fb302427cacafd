"""A run that may lack threads or processes, and prints the error."""

from minitune import RunConfig, TuneError, Tuner

try:
    Tuner(lambda config: {"x": 1}, run_config=RunConfig(verbose=0)).fit()
except TuneError as error:
    print(error)
