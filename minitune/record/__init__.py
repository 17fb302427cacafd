"""The files of a run on disk. This folder knows no plug-ins and no driver.

::

    records             the fields of each kind of record
    codec               a record as JSON, and back
    journal             Journal: a checked line for each record
    lock                RunLock: one driver for each run; trust
    stop_requests       what other processes ask a driver
    layout              names of runs, directories and error files
    recorder            Recorder: writes all events of the trials
    trial_directories   makes, checks them
    checkpoint_manager  which checkpoints are kept
    housekeeper         the threads that sync and remove files
    run_files           what else a resume needs
    story               Story: the state of a run, from its records
    reading             reads a run into a Story
    reports             the results of a trial
    decisions           the reasons of decisions
    past_run            learning curves
    standing            whether a run is running, has ended, or was interrupted

Writing: Recorder, `records`, `codec`. Reading: `journal`, `codec`, Story, `reading`.
"""
