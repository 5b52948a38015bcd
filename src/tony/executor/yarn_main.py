"""The executor in a container of YARN: finds its papers, lays down its task's files, and goes on as any other."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tony.dataclass import replace
from tony.errors import InfraError, StorageError, TonyError
from tony.executor.main import begin
from tony.executor.program_environment import MARKER
from tony.protocol.launch import ContainerPart, LaunchContext
from tony.schedulers.yarn.container_env import ContainerEnv
from tony.schedulers.yarn.launch_payload import TASK, TaskPayload

#: What a program needs to find Hadoop's file system, as far as the node gives it.
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
#: Of a role that needs nothing: folders to import from, variables.
_NO_PYTHON: tuple[tuple[str, ...], Mapping[str, str]] = ((), {})


def main() -> int:
    """Runs one executor. What fails is said on standard error, of which YARN keeps the end."""
    return begin(_context)


def _context() -> LaunchContext:
    papers, inside = ContainerEnv.look(os.environ).take(TASK, TaskPayload)
    task = replace(papers.task, framework_path=inside.plug_in(papers.task.framework_path))
    marker = f"{task.job_id}/{task.container}/{os.urandom(8).hex()}"
    work = inside.folder / "work" / f"{task.role}-{task.index}"
    python_path, python_env = _in_a_fork(papers, inside, work, marker)
    return LaunchContext(
        task=task,
        container=ContainerPart(
            host=inside.host,
            work_folder=str(work),
            log_folder=str(inside.logs),
            inherit_env=False,
            marker=marker,
            python_path=python_path,
            python_env={**of_hadoop(os.environ), **python_env},
        ),
        credentials=papers.credentials,
    )


def of_hadoop(own: Mapping[str, str]) -> dict[str, str]:
    """Variables by which Hadoop's clients in the user's program work.

    Without security the file system believes a name, and takes that of the process: on many clusters that is the
    NodeManager's user. YARN says in USER whose the container is.
    """
    found = {name: own[name] for name in _HADOOP if own.get(name)}
    if own.get("USER"):
        found.setdefault("HADOOP_USER_NAME", own["USER"])
    return found


def _in_a_fork(
    papers: TaskPayload, inside: ContainerEnv, work: Path, marker: str
) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """Lays the files down in a process of its own: what it loads for that, we need never again.

    Returns:
        Folders to import from, and variables, for the program's Python.
    """
    if not papers.staged.items and not papers.staged.python:
        _make(work)
        return _NO_PYTHON
    reading, writing = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        os.close(reading)
        _answer(writing, papers, inside, work, marker)
    os.close(writing)
    with open(reading, "rb") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    killed = {"error": "the process that laid down the files was killed"}
    answer: dict[str, Any] = json.loads(said) if said else killed
    if "error" in answer:
        raise InfraError(f"the files of {papers.task.role}:{papers.task.index} cannot be laid down: {answer['error']}")
    return tuple(answer["python_path"]), answer["python_env"]


def _make(work: Path) -> None:
    try:
        work.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InfraError(f"cannot make {work}: {error.strerror}") from error


def _answer(writing: int, papers: TaskPayload, inside: ContainerEnv, work: Path, marker: str) -> None:
    code = 1
    try:
        try:
            answer: dict[str, object] = _lay_down(papers, inside, work, marker)
            code = 0
        except TonyError as error:
            answer = {"error": str(error)}
        os.write(writing, json.dumps(answer).encode())
    except BaseException:  # the outermost place of a program
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def _lay_down(papers: TaskPayload, inside: ContainerEnv, work: Path, marker: str) -> dict[str, object]:
    """All containers of the job on one node unpack what they share once."""
    from tony.storage.disk_errors import explain_os_error
    from tony.storage.localization import localize
    from tony.storage.object_cache import Cache

    cache = Cache(inside.shared / "cache")
    cache.prepare()
    for item in papers.staged.items:
        with explain_os_error(f"take {item.name}", cache.path), cache.lock(f"take-{item.digest}"):
            if not cache.has(item.digest, item.size):
                brought = (inside.folder / item.digest).resolve()
                if not brought.is_file():
                    raise StorageError(f"YARN did not bring {item.name} ({item.digest}) into {inside.folder}")
                cache.take(item.digest, brought)
    python = localize(papers.staged, cache.path, work, {MARKER: marker})
    return {"python_path": list(python.python_path), "python_env": dict(python.python_env)}
