"""Callbacks that report from other libraries' training loops; each module needs the library that it is named after."""
