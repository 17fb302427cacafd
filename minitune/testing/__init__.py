"""Contract suites: what every plug-in of a kind must do, as classes to subclass in a test suite of your own."""
