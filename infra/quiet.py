"""Keeps jsii quiet about the version of Node, if imported before aws_cdk, which starts Node when it is imported.

On a version that Node's own makers have retired, or that jsii was not tested with, jsii frames a warning of thirty
lines, often enough to hide the one line about a mistake in an environment file. `make setup-node` is where the version
is chosen; whoever set the variables otherwise is obeyed.
"""

import os

os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "18,20")  # noqa: TID251 - for Node, a child
os.environ.setdefault("JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION", "1")  # noqa: TID251 - as above
