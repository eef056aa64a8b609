"""The rules of tenure, and nothing else.

Everything below this package is pure: no input or output, no clock, no randomness, no threads. What a rule needs
to know of the world (the time, a fresh identifier, a random number) is handed to it as an argument; what it wants
done comes back as data.
"""
