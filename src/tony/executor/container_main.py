"""The executor in a container: `container_main MODULE:CLASS [FOLDER...]` names its `ExecutorContainer`.

It takes its task, prepares the task's files, then runs as on this machine.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tony.errors import InfraError, TonyError
from tony.executor.main import begin
from tony.executor.program.program_environment import MARKER
from tony.protocol.launch import ContainerPart, LaunchContext, TaskLaunch
from tony.schedulers.container_interface import ExecutorContainer, load_container

#: For a role without staged files: import folders and variables.
_NO_PYTHON: tuple[tuple[str, ...], Mapping[str, str]] = ((), {})


def main() -> int:
    """Run one executor. Errors go to standard error, which the scheduler keeps."""
    return begin(_context)


def _context() -> LaunchContext:
    container = load_container(ExecutorContainer, sys.argv[1:])  # type: ignore[type-abstract]
    launch = container.take_task()
    task = launch.task
    marker = f"{task.job_id}/{task.container}/{os.urandom(8).hex()}"
    work = container.folder / "work" / f"{task.role}-{task.index}"
    python_path, python_env = _prepare_files_in_fork(launch, container, work, marker)
    return LaunchContext(
        task=task,
        container=ContainerPart(
            host=container.host,
            work_folder=str(work),
            log_folder=str(container.logs),
            inherit_env=False,
            marker=marker,
            python_path=python_path,
            python_env={**container.variables(), **python_env},
            copies_output=container.copies_output,
            end_message=container.end_message,
        ),
        credentials=launch.credentials,
    )


def _prepare_files_in_fork(
    launch: TaskLaunch, container: ExecutorContainer, work: Path, marker: str
) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """Prepare the files in a forked process, since the executor never again needs the modules that this loads.

    Returns:
        Import folders and variables for the program's Python.
    """
    if not launch.staged.items and not launch.staged.python:
        _create_folder(work)
        return _NO_PYTHON
    reading, writing = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        os.close(reading)
        _run_in_fork(writing, launch, container, work, marker)
    os.close(writing)
    with open(reading, "rb") as pipe:
        output = pipe.read()
    os.waitpid(child, 0)
    killed = {"error": "the process that prepares the files was killed"}
    answer: dict[str, Any] = json.loads(output) if output else killed
    if "error" in answer:
        raise InfraError(f"cannot prepare the files of {launch.task.id}: {answer['error']}")
    return tuple(answer["python_path"]), answer["python_env"]


def _create_folder(work: Path) -> None:
    try:
        work.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InfraError(f"cannot create {work}: {error.strerror}") from error


def _run_in_fork(writing: int, launch: TaskLaunch, container: ExecutorContainer, work: Path, marker: str) -> None:
    code = 1
    try:
        try:
            answer: dict[str, object] = _prepare_files(launch, container, work, marker)
            code = 0
        except TonyError as error:
            answer = {"error": str(error)}
        os.write(writing, json.dumps(answer).encode())
    except BaseException:  # the outermost level of the forked process
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def _prepare_files(launch: TaskLaunch, container: ExecutorContainer, work: Path, marker: str) -> dict[str, object]:
    """Prepare the files; the containers of the job on one node share the unpacked artifacts."""
    from tony.linux.disk_errors import explain_os_error  # late: only a container whose files are not there yet
    from tony.storage.cache.object_cache import Cache
    from tony.storage.environments.localization import localize

    cache = Cache(container.shared / "cache")
    cache.prepare()
    for item in launch.staged.items:
        with explain_os_error(f"cache {item.name}", cache.path), cache.lock(f"take-{item.digest}"):
            if not cache.has(item.digest, item.size):
                cache.take(item.digest, container.fetch(item))
    python = localize(launch.staged, cache.path, work, {MARKER: marker})
    return {"python_path": list(python.python_path), "python_env": dict(python.python_env)}
