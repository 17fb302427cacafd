"""What stands on libraries that few people use. Without this folder, minitune works, but for these names.

::

    hyperopt, ax, bayesopt, nevergrad    searchers; users import them as `minitune.search.hyperopt` and so on
    _library                             what the searchers share
    aim, comet                           trackers; users import them as `minitune.integration.aim` and so on

`search.by_name` leads names of searchers here, `minitune.ray.names` these paths, and nothing else in the package
imports this folder. A module imports its library when it is used. The folders of `tests/extras` with the names of the
modules have their tests.
"""
