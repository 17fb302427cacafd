"""The read model: what is shown of a run, before a surface gives it a form.

`best` says which trials are the best ones. `facts` has a run and a trial as plain data, `rows` a trial as a row of a
table, and `summary` a run in a few lines. `remarks` says what is unusual, `pace` how long a run will take, `history`
the course of a run, and `importances` which parameters matter. `colors` are the colours of states.

The surfaces are `output` and `commands` for terminals, `visualization` for browsers, and JSON.
"""
