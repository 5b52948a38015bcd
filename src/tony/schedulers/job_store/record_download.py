"""Copies the history of a job from its store to a client. The files: see `record_publisher`."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tony.errors import InfraError, StorageError
from tony.linux.files import replace_file
from tony.model.state_directory import JobFolder
from tony.model.strict_json import loads
from tony.rpc.am_address import TlsAddress, parse
from tony.schedulers.job_store.job_store import ACCESS_FILE, JobStore, StoredFile, find_local_name

#: Maximum bytes of a file that is fetched as a whole, and of an event log.
_MAX_BYTES = 64 << 20
_MAX_EVENTS_BYTES = 1 << 30
#: Maximum bytes of metrics that are fetched repeatedly while the job runs.
_MAX_REPEATED_BYTES = 16 << 20
_log = logging.getLogger(__name__)


class RecordDownload:
    """Downloads one job's history. Blocks. Every public method closes the store.

    Args:
        localize_job: changes the `job.json` of a job that was submitted from another machine.
    """

    def __init__(
        self, store: JobStore, folder: JobFolder, localize_job: Callable[[bytes], bytes] = lambda data: data
    ) -> None:
        self._store = store
        self._folder = folder
        self._localize_job = localize_job

    def fetch(self) -> None:
        """Fetch what is new. The summary comes last: when it is here, everything else is.

        Raises:
            InfraError: the store refuses, or cannot be reached.
        """
        try:
            stored_files = self._store.list()
            if not stored_files:
                return
            self._folder.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
            for name, stored in sorted(stored_files.items()):
                if local_path := find_local_name(name):
                    self._fetch_events(stored, self._folder.path / local_path)
            is_finished = not stored_files.keys().isdisjoint(("am.log", "summary.json"))  # the last two
            self._fetch_metrics(stored_files.get(self._folder.metrics.name), is_finished=is_finished)
            for name, path in self._list_whole_files().items():
                if name in stored_files and not path.exists():
                    self._fetch(stored_files[name], path)
            self._remove_secrets()
        finally:
            self._store.close()

    def _remove_secrets(self) -> None:
        """Remove secrets and the AM's address after the end; they may just have been downloaded again.

        Done here because the calling task may have been cancelled meanwhile; this thread was not.
        """
        if self._folder.summary.exists():
            shutil.rmtree(self._folder.secret, ignore_errors=True)
            for path in self._folder.transient_files:
                path.unlink(missing_ok=True)

    def store_request(self, request: Path) -> None:
        """Store a kill request for the next AM attempt, because the current one does not respond.

        Raises:
            InfraError: the store refuses, or cannot be reached.
        """
        try:
            self._store.put(request.name, request.read_bytes())
        finally:
            self._store.close()

    def forget_secrets(self) -> None:
        """Delete what a dead AM has left for its clients."""
        try:
            self._store.remove_drafts()  # first: if the AM is about to complete one, it fails
            for name in (ACCESS_FILE, "am.json", self._folder.kill_request.name):
                self._store.delete(name)
        except InfraError as error:
            _log.info("cannot delete the secrets in %s: %s", self._store.path, error)
        finally:
            self._store.close()

    def _list_whole_files(self) -> dict[str, Path]:
        folder = self._folder
        return {
            ACCESS_FILE: folder.credentials,
            "am.json": folder.am,
            "am.log": folder.am_log,
            "job.json": folder.job,
            "summary.json": folder.summary,
        }

    def _fetch(self, stored: StoredFile, path: Path) -> None:
        if stored.size > _MAX_BYTES:
            raise StorageError(f"{self._store.path}/{stored.name} is larger than {_MAX_BYTES} bytes")
        data = self._store.read(stored.name, 0, _MAX_BYTES)
        if data is None:  # deleted meanwhile: the job has just ended
            return
        if path == self._folder.am and not _is_remote_address(data):  # others may be able to write there
            return
        if path == self._folder.summary:
            data = self._localize_report(data)
        elif path == self._folder.job:
            data = self._localize_job(data)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(path, data)

    def _fetch_metrics(self, stored: StoredFile | None, *, is_finished: bool) -> None:
        """Fetch the metrics file if it has changed; a large one, which is rewritten repeatedly, only after the end."""
        local_path = self._folder.metrics
        if stored is None or (stored.size > _MAX_REPEATED_BYTES and not is_finished):
            return
        if local_path.exists():
            have = local_path.stat()
            if (have.st_size, have.st_mtime_ns // 1_000_000) == (stored.size, stored.modified_ms):
                return
        draft = local_path.with_name(f".{local_path.name}.{os.getpid()}.{threading.get_ident()}.new")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            with open(descriptor, "wb", buffering=0) as file:
                if not self._store.copy(stored, file, stored.size):  # just replaced: the next fetch gets it
                    return
            changed = self._store.find(stored.name)
            if changed is None or changed.modified_ms != stored.modified_ms:
                return  # it may be a mix of two versions
            os.utime(draft, ns=(stored.modified_ms * 1_000_000, stored.modified_ms * 1_000_000))
            os.replace(draft, local_path)
        finally:
            draft.unlink(missing_ok=True)

    def _localize_report(self, summary: bytes) -> bytes:
        """Replace the AM's folder in the summary by the local one."""
        with contextlib.suppress(ValueError, TypeError):
            return json.dumps({**json.loads(summary), "folder": str(self._folder.path)}).encode()
        return summary

    def _fetch_events(self, stored: StoredFile, local_path: Path) -> None:
        """Fetch what our copy of the log is missing: logs only grow. Concurrent fetches write the same bytes."""
        descriptor = os.open(local_path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb", buffering=0) as file:
            file.seek(0, os.SEEK_END)
            # Of a log taken over by a later AM attempt meanwhile, the next fetch gets the rest by its new name.
            self._store.copy(stored, file, min(stored.size, _MAX_EVENTS_BYTES))


def _is_remote_address(am: bytes) -> bool:
    """Return True if `am.json` has an address at which connections use TLS, as all on other machines do."""
    try:
        found: Any = loads(am)
        return isinstance(parse(str(found["address"])), TlsAddress)
    except (ValueError, LookupError, TypeError):
        return False
