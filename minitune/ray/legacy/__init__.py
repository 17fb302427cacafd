"""Forms of Ray Tune that its later versions dropped, for scripts that still use them.

`minitune.ray.names` leads old names and old import paths here. `run` and `Experiment` ask `keywords` to translate old
keywords, and `run_experiments` the functions of a search space. A script without old forms never imports this package.
Old forms of functions and classes, such as `train(config, reporter)`, are adapted in `minitune.trainable.old_forms`.
"""
