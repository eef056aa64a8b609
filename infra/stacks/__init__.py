"""The three stacks: they only compose and grant."""
