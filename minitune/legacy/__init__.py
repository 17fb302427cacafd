"""Forms of Ray Tune that its later versions dropped, for scripts that still use them.

`minitune._alias` leads old names and old import paths here. The core asks this package in five places: a function that
takes `checkpoint_dir` or `reporter` and a class that defines `_train` are adapted in `trainables`, old keywords and the
functions of a search space in `run_experiments` are translated in `keywords`, and `Session` keeps the checkpoint of a
`checkpoint_dir` block until the next report. A script without old forms never imports it.

`loggers` makes callbacks of the old logger classes, for `run(loggers=...)`. The other modules are old modules of Ray
Tune under other paths, and only scripts import them.
"""
