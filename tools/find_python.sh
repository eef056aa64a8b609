#!/bin/sh
# Prints the first Python that runs, is 3.11 or newer and can make a venv.
#
# Being found is not enough: a version manager leaves shims on the path that fail when their version is not selected.
# So each candidate is run. With --anywhere, versions that a version manager holds but has not selected count too.
set -u
oldest='import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))'

runs() { command -v "$1" >/dev/null 2>&1 && "$1" -c "$oldest" >/dev/null 2>&1; }

for version in 3.13 3.12 3.11 3; do
    candidates="python$version"
    if [ "${1:-}" = --anywhere ] && [ "$version" != 3 ]; then
        candidates="$candidates $(ls -d "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python3 2>/dev/null || true)"
    fi
    for candidate in $candidates; do
        if runs "$candidate"; then
            command -v "$candidate"
            exit 0
        fi
    done
done
echo "tenure needs Python 3.11 or newer, with the venv module; none of python3.13, 3.12, 3.11 or python3 runs here" >&2
exit 1
