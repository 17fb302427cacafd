"""The views of a running run.

`progress` collects what a reporter shows. `reporters` are those that users can choose or replace, with text from
`status_block`. `live_reporter` is the default one: `live` renders what it redraws, and `screen` is the terminal or
notebook. `trial_output` shows the output of trials, and warns of large files. `rows` are trials and metrics as all
views show them, `comparison` those of several runs. `pace` estimates the rest of a run, `remarks` says what is unusual,
and `colors` are the colours.
"""
