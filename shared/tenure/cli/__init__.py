"""The command line, `tenure`: one file for each group of commands, listed in registry.py and loaded when asked for."""
