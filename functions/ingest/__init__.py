"""The ingest duty as a function."""
