"""The commands of `minitune`, a module each: `main(arguments, prog)` parses, does, prints, and returns the exit status.

Exit statuses mean the same everywhere: 0 all went well; 1 the command could not do it, with the reason in one line on
standard error; 2 the command line makes no sense; 3 it was done, and trials have failed; 4 the run that it was about
has ended before its trials.
"""
