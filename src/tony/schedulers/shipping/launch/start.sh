#!/bin/sh
# Runs a module of tony in a container: start.sh MODULE. Finds a Python: the one that the job names, or the node's.
here=${0%/*}
if [ "$YARN_CONTAINER_RUNTIME_TYPE" = docker ]; then
    # A NodeManager without Docker ignores this variable. It is not an ancestor of processes in a Docker container.
    pid=$$
    while [ "$pid" -gt 1 ]; do
        parent=0
        { while read -r key value; do [ "$key" != PPid: ] || parent=$value; done <"/proc/$pid/status"; } 2>/dev/null
        pid=$parent
        if grep -qF org.apache.hadoop.yarn.server.nodemanager.NodeManager "/proc/$pid/cmdline" 2>/dev/null; then
            echo "tony: there is no Docker container on host $(uname -n): the job requests the image $YARN_CONTAINER_RUNTIME_DOCKER_IMAGE\
${TONY_IMAGE_PLACE:+ ($TONY_IMAGE_PLACE)}, and the NodeManager started this container without it. Its settings yarn.nodemanager.container-executor.class \
and yarn.nodemanager.runtime.linux.allowed-runtimes decide that: ask the cluster's administrator, or remove the image." >&2
            exit 127
        fi
    done
fi
if [ -n "$TONY_ENVIRONMENT" ]; then
    mkdir -p .environment && tar -xf "$TONY_ENVIRONMENT" -C .environment || exit
    for python in .environment/bin/python3 .environment/*/bin/python3; do
        if [ -x "$python" ]; then
            exec "$python" -I -S "$here/start.py" "$@"
        fi
    done
    echo "tony: the job's environment has no bin/python3 that runs on host $(uname -n) ($TONY_PYTHON_SETTING = \"environment\")." >&2
    exit 127
fi
if [ -n "$TONY_PYTHON" ] && command -v "$TONY_PYTHON" >/dev/null 2>&1; then
    exec "$TONY_PYTHON" -I -S "$here/start.py" "$@"
fi
for python in python3 python3.14 python3.13 python3.12 python3.11; do
    found=$(command -v "$python" 2>/dev/null) && break
done
if [ -n "$TONY_PYTHON" ]; then
    echo "tony: there is no $TONY_PYTHON on host $(uname -n) ($TONY_PYTHON_SETTING$TONY_PYTHON_PLACE): PATH is $PATH${found:+, with $found on it}. Set it to \
one that every node has, to \"own\" to ship yours, or to \"environment\" for that of the job's environment; without the setting, python3 of the node is used." >&2
    exit 127
fi
if [ -n "$found" ]; then
    exec "$found" -I -S "$here/start.py" "$@"
fi
echo "tony: there is no python3 on host $(uname -n): PATH is $PATH. Install Python 3.11 or later on the nodes, or set \
$TONY_PYTHON_SETTING to its path, to \"own\" to ship yours, or to \"environment\" for that of the job's environment." >&2
exit 127
