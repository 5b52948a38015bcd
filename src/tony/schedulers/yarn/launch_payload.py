"""The launch payload of a container: the job or the task, its secrets, and where its files are.

It travels in the `tokens` of a launch context, as secrets of Hadoop's credentials: environment and arguments of a
container are visible to others (NodeManagers copy them into logs), its tokens only to its own user.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from tony.model.codec import from_plain, to_plain
from tony.model.strict_json import loads
from tony.model.submission_record import JobRecord
from tony.protocol.launch import JobCredentials, TaskLaunch

#: Keys of the payloads in a container's credentials.
JOB = "tony.job"
TASK = "tony.task"
#: Names of extracted archives in a container's folder: tony itself, an interpreter, a framework's plug-in, and the web
#: packages.
RUNTIME = "tony"
INTERPRETER = "tony-python"
PLUG_IN = "tony-framework"
PAGES = "tony-pages"
#: What containers run: a module of tony, and the class of its environment.
MASTER = "tony.am.container_main tony.schedulers.yarn.containers:YarnAmContainer"
EXECUTOR = "tony.executor.container_main tony.schedulers.yarn.containers:YarnExecutorContainer"

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Uploaded:
    """A file in the cluster's file system, as a node needs it for localization.

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
    """The launch payload of the application master.

    Attributes:
        archives: archives that every container extracts, by the folders that they become: RUNTIME; INTERPRETER, PLUG_IN
            if the job has them.
        pages: archive with the packages of the job's web pages, for the AM's container, if the submitter has them.
        objects: digest -> the staged object.
        configuration: Hadoop settings for tony's Hadoop clients, by their names.
        folder: path of the job's own folder in the cluster's file system.
        user: the submitter.
        nodes: host -> rack of nodes to request by name: that way containers are granted sooner.
        node_count: number of running nodes; 0 if unknown.
        suitable_nodes: role -> number of nodes that could run its tasks; roles that are missing are unknown.
    """

    record: JobRecord
    credentials: JobCredentials = field(repr=False)
    archives: Mapping[str, Uploaded]
    objects: Mapping[str, Uploaded]
    configuration: Mapping[str, str]
    folder: str
    user: str
    pages: Uploaded | None = None
    nodes: Mapping[str, str] = field(default_factory=dict)
    node_count: int = 0
    suitable_nodes: Mapping[str, int] = field(default_factory=dict)


def encode_payload(payload: JobPayload | TaskLaunch) -> bytes:
    """Encode a payload as the bytes of a secret."""
    return json.dumps(to_plain(payload), separators=(",", ":")).encode()


def decode_payload(kind: type[T], data: bytes) -> T:
    """Decode a payload.

    Raises:
        ValueError: it is invalid.
    """
    return from_plain(kind, loads(data), ignore_unknown=True)
