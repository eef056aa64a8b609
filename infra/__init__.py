"""The deployment, as a CDK app: constructs of one capability each, stacks that compose and grant, typed environments.

Nothing here is imported by the library. Everything that may differ between environments is in `environments/*.toml`.
"""
