"""The embedded stack: tenure's AWS on one machine, without docker, Node or a network, for `tenure dev`, demo and tests.

The queues, the table, the bucket and the parameters are moto's, in this process; what AWS would do with them (poll
queues for Lambda, keep containers running, call reconcile each minute) is done here, by its rules.
"""
