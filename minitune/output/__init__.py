"""The views of a running run.

`progress` collects what a reporter shows. `reporters` is the interface of those that users can write. `live_reporter`
is the default one, also under Ray Tune's names: `live` renders what it redraws, and `screen` is the terminal or
notebook. `trial_output` shows the output of trials. What they show comes from `view`.
"""
