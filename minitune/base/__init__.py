"""What all layers share: checks, files, pickling, text. It imports nothing of ours but error, settings and clock."""
