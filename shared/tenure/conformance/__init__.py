"""Whether a back end answers as AWS documents: the semantics on which the protocol stands, looked at one by one.

Run by `tenure conformance` against an account of yours or an emulator. Everything it works on it makes itself, under
names of its own, and removes again.
"""
