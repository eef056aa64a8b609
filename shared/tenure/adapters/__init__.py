"""The ports, carried out: on AWS, on this machine, and in memory. No rules here: what an answer means is decided in core."""
