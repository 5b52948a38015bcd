"""The pods of tasks, seen from within: names, folders, credentials and staged objects."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from tony.address import format_host
from tony.errors import InfraError, PlatformError, StorageError
from tony.model.staged_files import StagedItem
from tony.protocol.launch import AmCredentials
from tony.schedulers.enlisting_container import EnlistingContainer
from tony.schedulers.kubernetes.launch_payload import (
    AM_ADDRESS,
    CREDENTIALS_KEY,
    END_MESSAGE,
    HADOOP,
    NO_POD_LOGS,
    NODE_NAME,
    OBJECTS,
    POD_IP,
    POD_NAME,
    SECRET,
    STAGING_SETTING,
    WORK,
    build_piece_name,
    decode_payload,
)
from tony.schedulers.kubernetes.staging_location import ObjectMissingError, StagingLocation
from tony.schedulers.kubernetes.staging_setting import parse_staging

_CHUNK_BYTES = 1 << 20
T = TypeVar("T")


class KubernetesExecutorContainer(EnlistingContainer):
    """The pod of a task.

    Raises:
        PlatformError: this is no such pod.
    """

    def __init__(self) -> None:
        self.container = get_variable(POD_NAME)
        self.host = get_variable(POD_IP)
        self.folder, self.logs, self.shared = WORK, WORK / "logs", WORK / "shared"
        self.copies_output, self.end_message = NO_POD_LOGS not in os.environ, END_MESSAGE
        self.credentials = read_secret(CREDENTIALS_KEY, AmCredentials)
        for path in (self.logs, self.shared):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def find_am(self) -> str | None:
        return os.environ.get(AM_ADDRESS)

    def fetch(self, item: StagedItem) -> Path:
        if item.in_place:
            from tony.schedulers.kubernetes.hadoop_access import fetch_in_place  # late: most jobs name no URI

            fetch_in_place(item, self.shared / item.digest)
            return self.shared / item.digest
        location = _MountedPieces() if _list_pieces(item.digest) else parse_staging(os.environ[STAGING_SETTING])
        assert location is not None
        whole, digest = self.shared / item.digest, hashlib.sha256()
        try:
            with whole.open("wb") as file:
                for data in location.read(item.digest, item.size):
                    digest.update(data)
                    file.write(data)
        except ObjectMissingError as error:
            text = f"{item.name} was removed from {location.describe(item.digest)} ({error})"
            raise StorageError(f"{text}. {location.find_remedy(item.digest)}") from error
        except InfraError as error:
            raise StorageError(f"{item.name} cannot be read from {location.describe(item.digest)}: {error}") from error
        if digest.hexdigest() != item.digest:
            text = f"{item.name} was changed in {location.describe(item.digest)}"
            raise StorageError(f"{text}. {location.find_remedy(item.digest)}")
        return whole

    def variables(self) -> Mapping[str, str]:
        # The image says where its libraries are, the cluster where credentials of cloud services are.
        own = {name: value for name, value in os.environ.items() if not name.startswith("TONY_")}
        own[NODE_NAME] = os.environ.get(NODE_NAME, "")
        if not HADOOP.exists():
            return own
        from tony.schedulers.kubernetes.hadoop_access import list_variables  # late: most jobs use no HDFS

        return {**dict(list_variables()), **own}


class _MountedPieces(StagingLocation):
    """Objects in ConfigMaps, which the kubelet has mounted."""

    def __str__(self) -> str:
        return ""

    def read(self, digest: str, size: int) -> Iterator[bytes]:
        for path in _list_pieces(digest):
            try:
                with path.open("rb") as source:
                    while data := source.read(_CHUNK_BYTES):
                        yield data
            except OSError as error:
                raise StorageError(f"{path}: {error}") from error

    def describe(self, digest: str) -> str:
        return "the cluster"

    def find_remedy(self, digest: str) -> str:
        return f"Delete the ConfigMap {build_piece_name(digest, 0)} and so on, and submit again."


def _list_pieces(digest: str) -> list[Path]:
    return sorted(OBJECTS.glob(f"{digest}.*"), key=lambda path: int(path.suffix[1:]))


def read_secret(key: str, kind: type[T]) -> T:
    """Return a value from the pod's Secret.

    Raises:
        PlatformError: it is not there.
    """
    path = SECRET / key
    try:
        return decode_payload(kind, path.read_bytes())
    except (OSError, ValueError) as error:
        raise PlatformError(f"{path} has no launch payload of this version of tony: {error}") from error


def get_variable(name: str) -> str:
    """Return a variable that every pod has; an IPv6 address in brackets.

    Raises:
        PlatformError: it is not set.
    """
    try:
        value = os.environ[name]
    except KeyError:
        raise PlatformError(f"not running in a pod of tony: {name} is not set") from None
    return format_host(value) if name == POD_IP else value
