"""Shared by all layers: checks, files, pickling, text. It imports nothing of ours but error, settings and clock."""
