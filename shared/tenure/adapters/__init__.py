"""The ports, carried out: on AWS, on this machine, and in memory. No rules here: core decides what an answer means."""
