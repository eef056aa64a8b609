"""The reconcile duty as a function."""
