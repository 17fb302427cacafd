"""The views of a running run.

`progress` collects what a reporter shows. `reporters` are those that users can choose or replace, with text from
`table`. `live` is the block that is redrawn, and `screen` the terminal or notebook where it is redrawn. `trial_output`
shows the output of trials, and limits their files.
"""
