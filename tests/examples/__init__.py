"""The example application, task by task, as plain functions."""
