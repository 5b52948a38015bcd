"""What the AM's pod finds in its Secret, and the paths and variables within all pods."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from tony.model.codec import from_plain, to_plain
from tony.model.strict_json import loads
from tony.model.submission_record import JobRecord
from tony.protocol.launch import JobCredentials

#: The container of a pod that tony starts.
CONTAINER_NAME = "tony"
#: Folders of a pod: a volume of its own, the job's staged objects, its credentials, and the claim with large objects.
WORK = Path("/tony/work")
OBJECTS = Path("/tony/objects")
SECRET = Path("/tony/secret")
#: Access to HDFS, and the keytab of the application master, of jobs that have them.
HADOOP = Path("/tony/hadoop")
KEYTAB = Path("/tony/keytab")
STAGING = Path("/tony/staging")
#: The file with an object in an image that is mounted below `STAGING`.
IMAGE_FILE = "object"
#: Keys of the Secrets: the launch payload of the AM, and the credentials of executors.
JOB_KEY = "job.json"
CREDENTIALS_KEY = "credentials.json"
#: Key of a ConfigMap with a piece of a staged object.
CONTENT_KEY = "content"
#: Variables of a pod: its name, address and node; for a task's pod also the AM's address.
POD_NAME, POD_IP, NODE_NAME = "TONY_POD_NAME", "TONY_POD_IP", "TONY_NODE_NAME"
AM_ADDRESS = "TONY_AM_ADDRESS"
#: Variable of a task's pod: output of programs is not copied to the pod's log.
NO_POD_LOGS = "TONY_NO_POD_LOGS"
#: The default `terminationMessagePath`. With FallbackToLogsOnError, the end of the log is the message if it is empty.
END_MESSAGE = "/dev/termination-log"
#: Variable of a pod that reads large objects: the setting `staging`.
STAGING_SETTING = "TONY_STAGING"
AM_MODULE = ("tony.am.container_main", "tony.schedulers.kubernetes.am_container:KubernetesAmContainer")
EXECUTOR_MODULE = (
    "tony.executor.container_main",
    "tony.schedulers.kubernetes.executor_container:KubernetesExecutorContainer",
)
RECEIVER_MODULE = ("tony.schedulers.kubernetes.staging_receiver",)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class AmPayload:
    """The launch payload of the application master.

    Attributes:
        runtime: digest of the archive of tony itself.
        objects: digest -> the number of pieces in which the object is stored; 0: it is in the location of `staging`.
        owner: uid of the Job object.
        images: digest -> the image with an object, by its digest, of those that are in a registry.
        plug_in: digest of the archive of a user's framework; empty if the framework is one of tony's.
    """

    record: JobRecord
    credentials: JobCredentials = field(repr=False)
    runtime: str
    objects: Mapping[str, int]
    owner: str
    images: Mapping[str, str] = field(default_factory=dict)
    plug_in: str = ""


def build_piece_name(digest: str, number: int) -> str:
    """Return the name of the ConfigMap with a piece of a staged object."""
    return f"tony-{digest[:40]}-{number}"


def encode_payload(payload: object) -> bytes:
    """Encode a payload as the content of a Secret or a file."""
    return json.dumps(to_plain(payload), separators=(",", ":")).encode()


def decode_payload(kind: type[T], data: bytes) -> T:
    """Decode a payload.

    Raises:
        ValueError: it is invalid.
    """
    return from_plain(kind, loads(data), ignore_unknown=True)
