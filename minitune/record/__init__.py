"""What a run leaves on disk, and what later drivers and readers make of it."""
