"""What every other part may use: it imports nothing of the package."""
