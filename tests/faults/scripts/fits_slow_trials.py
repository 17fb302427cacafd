"""A run of two slow trials."""

from script_kit import fit, hurry, slow

hurry()
fit(slow, (0, 1))
