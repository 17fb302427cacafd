"""What a user sees of a run: reporters, tables, the live view, the summary."""
