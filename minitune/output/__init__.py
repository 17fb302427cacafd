"""The views of a run: reporters, tables, the live view, the summary."""
