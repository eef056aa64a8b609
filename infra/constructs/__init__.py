"""One capability each. `TaskExecutor` is all of them together, for a CDK app of one's own."""
