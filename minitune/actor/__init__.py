"""Actors: an object in a process of its own, called by method name, at most one call in flight.

Knows nothing of tuning and imports nothing of the rest but the error types. Start with `ActorProcess` in `process`; the
messages and the sequence diagram are in `messages`. Nothing is imported here, since a worker starts from here too.
"""
