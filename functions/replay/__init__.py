"""The replay duty as a function."""
