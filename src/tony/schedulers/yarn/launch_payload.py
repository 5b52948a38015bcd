"""What goes to a container beside its command: the job or the task, its secrets, where its files are.

It travels in the `tokens` of a launch context, as secrets of Hadoop's credentials: variables and arguments of a
container can be read by many (NodeManagers copy them into the logs), its tokens by its own user only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TypeVar

from tony.dataclass import dataclass, field
from tony.model.codec import from_plain, to_plain
from tony.model.job_record import JobRecord
from tony.model.json_text import loads
from tony.model.staged import StagedRole
from tony.protocol.launch import AmCredentials, JobCredentials, TaskPart

#: Names of our secrets among a container's credentials.
JOB, TASK = "tony.job", "tony.task"
#: What archives are called in a container's folder, unpacked: our programs, an interpreter, a framework's plug-in, and
#: what serves a job's pages.
RUNTIME, INTERPRETER, PLUG_IN, PAGES = "tony", "tony-python", "tony-framework", "tony-pages"
#: Beginning of the names of the two zips in the folder of pages.
ARCHIVE = "pages"
#: Programs of ours that containers run.
MASTER, EXECUTOR = "tony.am.yarn_main", "tony.executor.yarn_main"

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Uploaded:
    """A file in the cluster's file system, as nodes must know it.

    Attributes:
        url: `hdfs://...`.
        size: bytes; must be exact.
        timestamp: modification time, milliseconds since 1970; must be exact.
        public: all users of a node may share its copy.
    """

    url: str
    size: int
    timestamp: int
    public: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPayload:
    """What the application master gets.

    Attributes:
        runtime: the archive of our own programs.
        objects: digest -> the staged object.
        configuration: Hadoop's settings that our clients read, by their names.
        folder: path of the job's own folder in the cluster's file system.
        user: who submitted.
        interpreter: the archive of the submitter's own interpreter, if that is shipped.
        plug_in: the archive of the framework's plug-in, if it is not one of ours.
        pages: the archive of what serves the job's pages, if the submitter has the packages.
        nodes: host -> rack of the nodes to ask for: by name containers are granted sooner.
        node_count: how many nodes ran; 0 if nobody has counted.
        room: role -> how many nodes could have its tasks; one that is not in it nobody has counted.
    """

    record: JobRecord
    credentials: JobCredentials = field(repr=False)
    runtime: Uploaded
    objects: Mapping[str, Uploaded]
    configuration: Mapping[str, str]
    folder: str
    user: str
    interpreter: Uploaded | None = None
    plug_in: Uploaded | None = None
    pages: Uploaded | None = None
    nodes: Mapping[str, str] = field(default_factory=dict)
    node_count: int = 0
    room: Mapping[str, int] = field(default_factory=dict)

    @property
    def programs(self) -> dict[str, Uploaded]:
        """The archives that every container of the job gets, by the folders that they become."""
        all_ = {RUNTIME: self.runtime, INTERPRETER: self.interpreter, PLUG_IN: self.plug_in}
        return {name: archive for name, archive in all_.items() if archive is not None}

    @property
    def programs_of_master(self) -> dict[str, Uploaded]:
        """The same for the application master's container."""
        return {**self.programs, **({PAGES: self.pages} if self.pages else {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPayload:
    """What an executor gets.

    Attributes:
        staged: what its task needs; each object is a file in the container's folder, named after its digest.
    """

    task: TaskPart
    credentials: AmCredentials = field(repr=False)
    staged: StagedRole


def packed(papers: JobPayload | TaskPayload) -> bytes:
    """As bytes for a secret."""
    return json.dumps(to_plain(papers), separators=(",", ":")).encode()


def unpacked(kind: type[T], data: bytes) -> T:
    """The other direction.

    Raises:
        ValueError: it is no such thing.
    """
    return from_plain(kind, loads(data), ignore_unknown=True)
