#!/bin/sh
# Starts a program of ours in a container: start.sh MODULE. Looks for a Python: what the job says, then what the node has.
here=${0%/*}
if [ -n "$TONY_ENVIRONMENT" ]; then
    mkdir -p .environment && tar -xf "$TONY_ENVIRONMENT" -C .environment || exit
    for python in .environment/bin/python3 .environment/*/bin/python3; do
        if [ -x "$python" ]; then
            exec "$python" -I -S "$here/start.py" "$@"
        fi
    done
    echo "tony: the job's environment has no bin/python3 that runs on host $(uname -n) (scheduler.yarn.python = \"environment\")." >&2
    exit 127
fi
for python in "$TONY_PYTHON" python3 python3.14 python3.13 python3.12 python3.11; do
    if [ -n "$python" ] && command -v "$python" >/dev/null 2>&1; then
        exec "$python" -I -S "$here/start.py" "$@"
    fi
done
echo "tony: there is no python3 on host $(uname -n): PATH is $PATH${TONY_PYTHON:+, and scheduler.yarn.python is $TONY_PYTHON}. Install Python 3.11 or later on the nodes, name one with \
scheduler.yarn.python, or ship your own with scheduler.yarn.python = \"own\", or with the job's environment: \"environment\"." >&2
exit 127
