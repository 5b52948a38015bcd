"""CLASSPATH for programs that use Hadoop from a JVM: the job's own jars, then those of the node's Hadoop.

Determined once per executor, while the task registers. `hadoop classpath` is a shell script; with `--glob` it starts a
JVM only to expand `folder/*`. That is done here instead, which saves a hundred megabytes.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping

from tony.executor.program.program_environment import MARKER, LaunchFailedError, select_container_env
from tony.executor.program.spawn import Reaper, run_captured
from tony.protocol.launch import ContainerPart, TaskPart

log = logging.getLogger(__name__)

CLASSPATH = "CLASSPATH"
#: LinkedIn TonY's users disable it by this variable of their programs or containers.
_SKIP = "SKIP_HADOOP_PATH"
#: Seconds that `hadoop classpath` may take; a program waits no longer.
_TIMEOUT_SECONDS = 20.0
#: Bytes of a class path; Linux passes 128 KiB in one variable. A longer one keeps its `folder/*`, which JVMs expand.
_MAX_BYTES = 120 * 1024
#: The job's jars, for JVMs; programs that embed a JVM (libhdfs) need each jar by its name.
_JOB_JARS = "./*"


def is_enabled(task: TaskPart, container: ContainerPart, own: Mapping[str, str]) -> bool:
    """Return True if the job asks for it and neither the job's nor the executor's environment overrides it.

    Args:
        own: the executor's environment.
    """
    variables = {**select_container_env(task, container, own), **task.env}
    return (
        task.job_settings.hadoop_classpath
        and CLASSPATH not in variables
        and {**own, **variables}.get(_SKIP, "").lower() != "true"
    )


class HadoopClasspath:
    """The class path for programs of one executor. Lives on its event loop.

    Args:
        own: the executor's environment.
    """

    def __init__(self, task: TaskPart, container: ContainerPart, own: Mapping[str, str], reaper: Reaper) -> None:
        classpath = {**own, **select_container_env(task, container, own), **task.env, MARKER: container.marker}
        classpath.pop(CLASSPATH, None)
        self._environment = classpath
        self._work_folder = container.work_folder
        self._reaper = reaper
        self._query: asyncio.Task[str | None] | None = None

    def start_query(self) -> None:
        """Start to determine it unless that is done or under way."""
        if self._query is None:
            self._query = asyncio.get_running_loop().create_task(self._run_query())

    async def wait_for_classpath(self) -> str:
        """Return the class path once the node's part is known."""
        self.start_query()
        assert self._query is not None
        hadoop = await asyncio.shield(self._query)
        if hadoop is None:
            self._query = None  # the end of a session kills all of its processes: asked again in the next one
        jars = [f"{self._work_folder}/{name}" for name in _list_jars(self._work_folder)]
        parts = [part for part in (hadoop or "").split(":") if part]
        classpath = ":".join([_JOB_JARS, *jars, *expand_folders(parts)])
        return classpath if len(os.fsencode(classpath)) < _MAX_BYTES else ":".join([_JOB_JARS, *jars, *parts])

    def close(self) -> None:
        if self._query:
            self._query.cancel()

    async def _run_query(self) -> str | None:
        """Return the output of `hadoop classpath`, empty if it fails; None if it was killed."""
        program = find(self._environment)
        if program is None:
            log.warning(
                "hadoop_classpath: `hadoop` not found, neither in bin/ of HADOOP_HOME or HADOOP_PREFIX nor on PATH. "
                "CLASSPATH has the job's own jars only"
            )
            return ""
        for arguments in (("classpath",), ("classpath", "--glob")):
            try:
                argv, environment, folder = [program, *arguments], self._environment, self._work_folder
                answer = await run_captured(argv, environment, folder, self._reaper, _TIMEOUT_SECONDS)
            except (LaunchFailedError, TimeoutError) as error:
                why = str(error) or f"no output within {_TIMEOUT_SECONDS:g} s"
                log.warning("hadoop_classpath: %s: %s. CLASSPATH has the job's own jars only", program, why)
                return ""
            if answer.status == 0 and answer.out.strip():
                return answer.out.strip().splitlines()[-1]
            if answer.status < 0:
                return None
            words = " ".join([program, *arguments])
            log.warning("hadoop_classpath: `%s` failed with exit code %d. %s", words, answer.status, answer.err)
        return ""


def find(environment: Mapping[str, str]) -> str | None:
    """Return the path of the node's `hadoop`; None without one."""
    homes = [environment.get(name, "") for name in ("HADOOP_HOME", "HADOOP_PREFIX")]
    folders = [f"{home}/bin" for home in homes if home]
    folders += [folder for folder in environment.get("PATH", os.defpath).split(":") if folder.startswith("/")]
    found = (f"{folder}/hadoop" for folder in folders)
    return next((path for path in found if os.path.isfile(path) and os.access(path, os.X_OK)), None)


def expand_folders(parts: list[str]) -> list[str]:
    """Expand every `folder/*` to the jars there, as Java's launcher does; each once, in order."""
    found: dict[str, None] = {}
    for part in parts:
        if not part.endswith("/*"):
            found[part] = None
            continue
        found.update(dict.fromkeys(f"{part[:-1]}{name}" for name in _list_jars(part[:-2])))
    return list(found)


def _list_jars(folder: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder or "/") if name.endswith((".jar", ".JAR")))
    except OSError:
        return []
