"""What stands on libraries that few people use. Without this folder, minitune works, but for these names.

::

    hyperopt, ax, bayesopt, nevergrad    searchers; users import them as `minitune.search.hyperopt` and so on
    aim, comet                           trackers; users import them as `minitune.integration.aim` and so on

`minitune.ray.names` leads these names here, and nothing else in the package imports this folder. A module imports its
library when it is used. The folders of `tests/extras` with the names of the modules have their tests.
"""
