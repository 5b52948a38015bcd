"""The executor in a YARN container: reads its launch payload, prepares its task's files, then runs as usual."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tony.errors import InfraError, StorageError, TonyError
from tony.executor.main import begin
from tony.executor.program.program_environment import MARKER
from tony.protocol.launch import ContainerPart, LaunchContext
from tony.schedulers.yarn.current_container import ContainerEnv
from tony.schedulers.yarn.launch_payload import TASK, TaskPayload

#: Variables that a program needs to find Hadoop's file system, if the node sets them.
_HADOOP = (
    "HADOOP_CONF_DIR",
    "HADOOP_TOKEN_FILE_LOCATION",
    "HADOOP_USER_NAME",
    "HADOOP_HOME",
    "HADOOP_COMMON_HOME",
    "HADOOP_HDFS_HOME",
    "JAVA_HOME",
    "CONTAINER_ID",
)
#: For a role without staged files: import folders and variables.
_NO_PYTHON: tuple[tuple[str, ...], Mapping[str, str]] = ((), {})


def main() -> int:
    """Run one executor. Errors go to standard error, of which YARN keeps the end."""
    return begin(_context)


def _context() -> LaunchContext:
    payload, container_env = ContainerEnv.from_environ(os.environ).take_payload(TASK, TaskPayload)
    task = replace(payload.task, framework_path=container_env.plug_in(payload.task.framework_path))
    marker = f"{task.job_id}/{task.container}/{os.urandom(8).hex()}"
    work = container_env.folder / "work" / f"{task.role}-{task.index}"
    python_path, python_env = _prepare_files_in_fork(payload, container_env, work, marker)
    return LaunchContext(
        task=task,
        container=ContainerPart(
            host=container_env.host,
            work_folder=str(work),
            log_folder=str(container_env.logs),
            inherit_env=False,
            marker=marker,
            python_path=python_path,
            python_env={**hadoop_variables(os.environ), **python_env},
        ),
        credentials=payload.credentials,
    )


def hadoop_variables(own: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that Hadoop's clients in the user's program need.

    Without Kerberos HDFS trusts the user name that a client sends, by default that of the process: on many clusters
    that is the NodeManager's user. YARN sets USER to the container's owner.
    """
    found = {name: own[name] for name in _HADOOP if own.get(name)}
    if own.get("USER"):
        found.setdefault("HADOOP_USER_NAME", own["USER"])
    return found


def _prepare_files_in_fork(
    payload: TaskPayload, container_env: ContainerEnv, work: Path, marker: str
) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """Prepare the files in a forked process, since the executor never again needs the modules that this loads.

    Returns:
        Import folders and variables for the program's Python.
    """
    if not payload.staged.items and not payload.staged.python:
        _create_folder(work)
        return _NO_PYTHON
    reading, writing = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        os.close(reading)
        _run_in_fork(writing, payload, container_env, work, marker)
    os.close(writing)
    with open(reading, "rb") as pipe:
        output = pipe.read()
    os.waitpid(child, 0)
    killed = {"error": "the process that prepares the files was killed"}
    answer: dict[str, Any] = json.loads(output) if output else killed
    if "error" in answer:
        raise InfraError(f"cannot prepare the files of {payload.task.role}:{payload.task.index}: {answer['error']}")
    return tuple(answer["python_path"]), answer["python_env"]


def _create_folder(work: Path) -> None:
    try:
        work.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InfraError(f"cannot create {work}: {error.strerror}") from error


def _run_in_fork(writing: int, payload: TaskPayload, container_env: ContainerEnv, work: Path, marker: str) -> None:
    code = 1
    try:
        try:
            answer: dict[str, object] = _prepare_files(payload, container_env, work, marker)
            code = 0
        except TonyError as error:
            answer = {"error": str(error)}
        os.write(writing, json.dumps(answer).encode())
    except BaseException:  # the outermost level of the forked process
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def _prepare_files(payload: TaskPayload, container_env: ContainerEnv, work: Path, marker: str) -> dict[str, object]:
    """Prepare the files; the containers of the job on one node share the unpacked artifacts."""
    from tony.storage.cache.object_cache import Cache
    from tony.storage.environments.localization import localize
    from tony.storage.stores.disk_errors import explain_os_error

    cache = Cache(container_env.shared / "cache")
    cache.prepare()
    for item in payload.staged.items:
        with explain_os_error(f"cache {item.name}", cache.path), cache.lock(f"take-{item.digest}"):
            if not cache.has(item.digest, item.size):
                localized = (container_env.folder / item.digest).resolve()
                if not localized.is_file():
                    raise StorageError(f"YARN has not localized {item.name} ({item.digest}) in {container_env.folder}")
                cache.take(item.digest, localized)
    python = localize(payload.staged, cache.path, work, {MARKER: marker})
    return {"python_path": list(python.python_path), "python_env": dict(python.python_env)}
