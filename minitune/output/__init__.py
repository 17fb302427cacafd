"""The views of a running run.

`progress` collects what a reporter shows. `reporters` is the interface of those that users can write. `live_reporter`
is the default one, also under Ray Tune's names: `live` renders what it redraws, `summary` says what stays at the end,
and `screen` is the terminal or notebook. `trial_output` shows the output of trials, and warns of large files. `rows`
are trials and metrics as all views show them, `comparison` those of several runs. `pace` estimates the rest of a run,
`remarks` says what is unusual, and `colors` are the colours.
"""
