"""The composition roots, a file for each role: each knows which adapters its role runs on, and nobody else does."""
