#!/bin/sh
# Print a Python that can make the environment: 3.11 or later with venv and pip. PYTHON=... is tried first.
# Each candidate is run, not only looked up: a version manager's shim may stand for nothing.
for candidate in ${PYTHON:+"$PYTHON"} python3 python3.14 python3.13 python3.12 python3.11 python; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
        if "$candidate" -c 'import ensurepip, venv' >/dev/null 2>&1; then
            exec "$candidate" -c 'import sys; print(sys.executable)'
        fi
        without_venv="$candidate"
    fi
done
if [ -n "$without_venv" ]; then
    echo "parley: $without_venv is new enough but lacks venv or ensurepip; install them (Debian: apt install python3-venv)" >&2
else
    echo "parley: Python 3.11 or later is needed; found $(python3 --version 2>/dev/null || echo none)." \
        "Install one, or name it: make PYTHON=/path/to/python3.11 setup" >&2
fi
exit 1
