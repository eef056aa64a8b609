"""What keeps tasks from being lost and dead letters from being forgotten: one duty a file, each run to an end.

Every duty may be killed between any two of its calls and run again: rows are written before messages are sent, and
messages deleted only after what they stand for is in a row.
"""
