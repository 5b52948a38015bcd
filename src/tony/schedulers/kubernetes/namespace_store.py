"""The histories of all jobs in a namespace as a file store, for the portal: each Job object is a folder in `jobs/`.

It needs to list Jobs, and to get and list ConfigMaps, but no Secrets. Others may have written them: what is read is
bounded.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tony.errors import StorageError, UserError
from tony.kube.api_client import Object, parse_time
from tony.kube.kubeconfig import KubeconfigError
from tony.kube.resources import JOBS
from tony.model.ids import JOB_ID
from tony.model.log_file_tail import LogFileTail
from tony.model.state_directory import Home
from tony.schedulers.job_store.config_map_job_store import MAX_UNPACKED_BYTES, ConfigMapJobStore
from tony.schedulers.job_store.job_objects import MANAGED_LABELS
from tony.schedulers.job_store.job_store import JobStore, StoredFile, find_local_name
from tony.schedulers.job_store.output_store import read_tails
from tony.schedulers.job_store.split_job_store import SplitJobStore
from tony.schedulers.kubernetes.cluster_clients import create_client
from tony.schedulers.kubernetes.history_location import HistoryReader, find_history
from tony.schedulers.kubernetes.incomplete_jobs import is_incomplete
from tony.schedulers.kubernetes.settings import KubernetesSettings
from tony.storage.stores.store_interface import PIECE, FileStore, Item

_FOLDER = "jobs"
_SCHEME = "kubernetes://"
#: Seconds for which a request is repeated while the server does not answer; the portal scans again.
_GIVE_UP_SECONDS = 5.0


class NamespaceStore(FileStore):
    """The jobs of one namespace. Cannot be written.

    Args:
        address: `kubernetes://CONTEXT/NAMESPACE`; the current context, and its namespace, where these are empty. The
            namespace is behind the last slash: names of contexts may contain slashes.
        home: its running `tony mini` has the histories in HDFS if no other Hadoop is configured.

    Raises:
        UserError: it has no slash, or there is no such context, or it cannot be used.
    """

    dated = False
    has_tails = True

    def __init__(self, address: str, home: Home) -> None:
        self._histories = HistoryReader(home)
        name = address[len(_SCHEME) :]
        if name and "/" not in name:
            text = f"Write {address}/ for a context, or {_SCHEME}/{name} for a namespace"
            raise UserError(f"{address} may be a context or a namespace. {text}.")
        context, _, namespace = name.rpartition("/")
        try:
            self._client = create_client(
                KubernetesSettings(context=context, namespace=namespace), give_up_seconds=_GIVE_UP_SECONDS
            )
        except KubeconfigError as error:
            raise UserError(f"{address}: {error}") from error
        self._jobs: Mapping[str, Object] = {}  # as they were listed last: where their histories are never changes
        self.address = f"{_SCHEME}{self._client.access.context}/{self._client.namespace}"

    def list(self, path: str = "") -> Sequence[Item]:
        if not path:
            return (Item(name=_FOLDER, folder=True),)
        if path == _FOLDER:
            found = self._client.list(JOBS, labels=MANAGED_LABELS, metadata_only=True).items
            self._jobs = {job["metadata"]["name"]: job for job in found}
            return tuple(_build_folder(job["metadata"]) for job in found if not is_incomplete(job))
        job, file = self._split(path)
        if file:
            return ()
        with self._open(job) as store:
            return tuple(map(_build_item, store.list().values()))

    def find(self, path: str) -> Item | None:
        job, file = self._split(path)
        if not file:
            return Item(name=job, folder=True) if self.list(path) else None
        with self._open(job) as store:
            stored = store.find(file)
        return None if stored is None else _build_item(stored)

    def read_pieces(self, path: str, offset: int = 0) -> Iterator[bytes]:
        job, file = self._split(path)
        # A file is decoded whole, whatever is read of it; an event log is read piece by piece.
        most = PIECE if find_local_name(file) else MAX_UNPACKED_BYTES
        with self._open(job) as store:
            while data := store.read(file, offset, most):
                yield data
                offset += len(data)
                if most == MAX_UNPACKED_BYTES:
                    return

    def read_tails(self, path: str) -> Sequence[LogFileTail]:
        with self._open(self._split(path)[0]) as store:
            return read_tails(store)

    def write(self, path: str, content: bytes | Path) -> None:
        raise StorageError(f"{self.address} cannot be changed: jobs are removed with their Job objects")

    def remove(self, path: str) -> None:
        self.write(path, b"")

    def close(self) -> None:
        self._client.close()

    @contextlib.contextmanager
    def _open(self, job: str) -> Iterator[JobStore]:
        contacts = ConfigMapJobStore(self._client, job, has_secrets=False)
        found = self._jobs.get(job) or next(iter(self._client.list(JOBS, name=job, metadata_only=True).items), None)
        if address := find_history(found) if found else "":
            with contextlib.closing(self._histories.open(address, job)) as history:
                yield SplitJobStore(contacts, history)
        else:
            yield contacts

    def _split(self, path: str) -> tuple[str, str]:
        """Return the job of a path, and the file; empty for the job's folder."""
        folder, _, rest = path.partition("/")
        job, _, file = rest.partition("/")
        if folder != _FOLDER or not JOB_ID.fullmatch(job) or "/" in file:
            raise StorageError(f"{path!r} is not a path below {self.address}")
        return job, file


def _build_folder(metadata: dict[str, str]) -> Item:
    return Item(name=metadata["name"], folder=True, changed=parse_time(metadata["creationTimestamp"]))


def _build_item(stored: StoredFile) -> Item:
    return Item(name=stored.name, folder=False, size=stored.size, changed=stored.modified_ms / 1000)
