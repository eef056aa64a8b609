"""The workers of a pool on Fargate."""
