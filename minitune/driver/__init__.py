"""The driver: one run, from its plan to its last record.

`docs/how-it-works.md` follows a configuration through these modules.

::

    functions          `run` and `run_experiments`, the older entry points
    experiment_spec    Experiment
    plan               what the user wants
    parts              makes plug-ins and executor
    driver             Driver: `open`, `loop`, `close`
    interrupts         signals during a run
    open_run           takes directory, lock and journal
    resume, replay     ResumedDriver; the journal, told to trials and plug-ins
    snapshot           the states of plug-ins
    state              RunState: settings, trials, requests; WaitingTrials
    tune_controller    TuneController: one turn of the loop
    events             Events: what follows each event of a worker
    launching          Launcher: draws trials and starts them
    hooks              Hooks: all calls to plug-ins
    transitions        `take`: a transition, its record and hooks
    outcomes           Outcomes: a trial goes on, is saved, pauses, ends
    failure            Failures: failed attempts, lost workers; metrics that results need
    limits             Backoff and Deadlines
"""
