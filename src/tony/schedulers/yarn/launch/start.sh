#!/bin/sh
# Starts a program of ours in a container: start.sh MODULE. Looks for a Python: the one that the job says, or what the node has.
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
if [ -n "$TONY_PYTHON" ] && command -v "$TONY_PYTHON" >/dev/null 2>&1; then
    exec "$TONY_PYTHON" -I -S "$here/start.py" "$@"
fi
for python in python3 python3.14 python3.13 python3.12 python3.11; do
    found=$(command -v "$python" 2>/dev/null) && break
done
if [ -n "$TONY_PYTHON" ]; then
    echo "tony: there is no $TONY_PYTHON on host $(uname -n) (scheduler.yarn.python$TONY_PYTHON_PLACE): PATH is $PATH${found:+, with $found on it}. Name one that \
every node has, or leave the setting out to take the python3 of each; \"own\" ships yours, \"environment\" takes that of the job's environment." >&2
    exit 127
fi
if [ -n "$found" ]; then
    exec "$found" -I -S "$here/start.py" "$@"
fi
echo "tony: there is no python3 on host $(uname -n): PATH is $PATH. Install Python 3.11 or later on the nodes, name one with \
scheduler.yarn.python, or ship your own with scheduler.yarn.python = \"own\", or with the job's environment: \"environment\"." >&2
exit 127
