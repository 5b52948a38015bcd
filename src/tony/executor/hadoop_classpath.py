"""CLASSPATH for programs that use Hadoop from a JVM: the job's own jars, then what the node's Hadoop needs.

Asked once for each executor, while it registers. `hadoop classpath` is a shell script; with `--glob` it starts a JVM,
only to have `folder/*` replaced by what lies there. That we do ourselves: it is cheaper by a hundred megabytes.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping

from tony.executor.program_environment import MARKER, LaunchFailed, in_container
from tony.executor.reaper import Reaper
from tony.executor.run_command import run_captured, spawn_command
from tony.protocol.launch import ContainerPart, TaskPart

log = logging.getLogger(__name__)

CLASSPATH = "CLASSPATH"
#: The original's users switch it off by this, in the environment of their programs or containers.
_SKIP = "SKIP_HADOOP_PATH"
#: Seconds that a node has to say it; a program waits no longer.
_PATIENCE = 20.0
#: Bytes of a class path; Linux passes 128 KiB in one variable. A longer one keeps its `folder/*`, which JVMs expand.
_LONGEST = 120 * 1024
#: The job's jars, for JVMs; programs that make a JVM inside themselves (libhdfs) need each by its name.
_OWN = "./*"


def is_wanted(task: TaskPart, container: ContainerPart, own: Mapping[str, str]) -> bool:
    """Whether the job asks for it and neither it nor its author's environment says otherwise.

    Args:
        own: the executor's environment.
    """
    said = {**in_container(task, container, own), **task.env}
    return task.hadoop_classpath and CLASSPATH not in said and {**own, **said}.get(_SKIP, "").lower() != "true"


class HadoopClasspath:
    """What programs of one executor get. Lives on its event loop.

    Args:
        own: the executor's environment.
    """

    def __init__(self, task: TaskPart, container: ContainerPart, own: Mapping[str, str], reaper: Reaper) -> None:
        whole = {**own, **in_container(task, container, own), **task.env, MARKER: container.marker}
        whole.pop(CLASSPATH, None)
        self._environment = whole
        self._work_folder = container.work_folder
        self._reaper = reaper
        self._asked: asyncio.Task[str | None] | None = None

    def ask(self) -> None:
        """Begins to ask, if nobody has an answer yet."""
        if self._asked is None:
            self._asked = asyncio.get_running_loop().create_task(self._ask())

    async def known(self) -> str:
        """The whole of it, as soon as the node has said its part."""
        self.ask()
        assert self._asked is not None
        hadoop = await asyncio.shield(self._asked)
        if hadoop is None:
            self._asked = None  # whoever ends a session ends all of its processes: it is asked again in the next one
        jars = [f"{self._work_folder}/{name}" for name in _jars(self._work_folder)]
        parts = [part for part in (hadoop or "").split(":") if part]
        whole = ":".join([_OWN, *jars, *expanded(parts)])
        return whole if len(os.fsencode(whole)) < _LONGEST else ":".join([_OWN, *jars, *parts])

    def close(self) -> None:
        """Asks no more."""
        if self._asked:
            self._asked.cancel()

    async def _ask(self) -> str | None:
        """What `hadoop classpath` says, empty if the node cannot say it; None if it was ended before it had."""
        program = find(self._environment)
        if program is None:
            log.warning(
                "hadoop_classpath: there is no `hadoop` here, neither in bin/ of HADOOP_HOME or HADOOP_PREFIX nor on "
                "PATH. CLASSPATH has the job's own jars only"
            )
            return ""
        for arguments in (("classpath",), ("classpath", "--glob")):
            try:
                argv, environment, folder = [program, *arguments], self._environment, self._work_folder
                answer = await run_captured(argv, environment, folder, self._reaper, _PATIENCE, start=spawn_command)
            except (LaunchFailed, TimeoutError) as error:
                why = str(error) or f"no answer in {_PATIENCE:g} s"
                log.warning("hadoop_classpath: %s: %s. CLASSPATH has the job's own jars only", program, why)
                return ""
            if answer.status == 0 and answer.out.strip():
                return answer.out.strip().splitlines()[-1]
            if answer.status < 0:
                return None
            words = " ".join([program, *arguments])
            log.warning("hadoop_classpath: `%s` ended with exit code %d. %s", words, answer.status, answer.err)
        return ""


def find(environment: Mapping[str, str]) -> str | None:
    """The node's `hadoop`."""
    homes = [environment.get(name, "") for name in ("HADOOP_HOME", "HADOOP_PREFIX")]
    folders = [f"{home}/bin" for home in homes if home]
    folders += [folder for folder in environment.get("PATH", os.defpath).split(":") if folder.startswith("/")]
    found = (f"{folder}/hadoop" for folder in folders)
    return next((path for path in found if os.path.isfile(path) and os.access(path, os.X_OK)), None)


def expanded(parts: list[str]) -> list[str]:
    """A class path with every `folder/*` replaced by the jars there, as Java's launcher does; each once, in order."""
    found: dict[str, None] = {}
    for part in parts:
        if not part.endswith("/*"):
            found[part] = None
            continue
        found.update(dict.fromkeys(f"{part[:-1]}{name}" for name in _jars(part[:-2])))
    return list(found)


def _jars(folder: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder or "/") if name.endswith((".jar", ".JAR")))
    except OSError:
        return []
