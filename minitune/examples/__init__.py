"""`quickstart` is the program of `minitune demo`, to read, run and change. It imports only what users import."""
