"""Download a job's history from the cluster into the local job directory. Its files: see `record_publisher`."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import threading
from pathlib import Path

from tony.hadoop.hdfs.file_system import FileStatus
from tony.hadoop.hdfs.webhdfs import WebHdfs
from tony.hadoop.ipc.errors import FileMissingError, HadoopError
from tony.model.layout import JobFolder
from tony.schedulers.yarn.cluster.cluster_clients import ClusterClients
from tony.schedulers.yarn.job_store.job_folder import JobFiles, local_name

#: Maximum bytes of a file that is fetched as a whole, and of an event log.
_MAX_BYTES = 64 << 20
_MAX_EVENTS_BYTES = 1 << 30
_PIECE = 4 << 20
#: Maximum bytes of metrics that are fetched repeatedly while the job runs.
_MAX_REPEATED_BYTES = 16 << 20
_log = logging.getLogger(__name__)


class RecordDownload:
    """Downloads one job's history. Blocks.

    Args:
        staging: path of the staging folder.
    """

    def __init__(self, cluster: ClusterClients, staging: str, folder: JobFolder) -> None:
        self._files: WebHdfs = cluster.web_files()
        self._there = f"{staging}/jobs/{folder.job_id}"
        self._folder = folder

    def fetch(self) -> None:
        """Fetch what is new. The summary comes last: when it is here, everything else is.

        Raises:
            HadoopError: the file system refuses, or cannot be reached.
        """
        try:
            try:
                there = {status.name: status for status in self._files.list(self._there)}
            except FileMissingError:
                return
            self._folder.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
            for name, status in sorted(there.items()):
                if here := local_name(name):
                    self._fetch_events(status, self._folder.path / here)
            self._fetch_metrics(there.get(self._folder.metrics.name), is_finished="summary.json" in there)
            for name, path in self._whole_files().items():
                if name in there and not path.exists():
                    self._fetch(name, path)
            self._remove_secrets()
        finally:
            self._files.close()

    def _remove_secrets(self) -> None:
        """Remove secrets and the AM's address after the end; they may just have been downloaded again.

        Done here because the calling task may have been cancelled meanwhile; this thread was not.
        """
        if self._folder.summary.exists():
            shutil.rmtree(self._folder.secret, ignore_errors=True)
            for path in (self._folder.am, self._folder.kill_request):
                path.unlink(missing_ok=True)

    def store_request(self, request: Path) -> None:
        """Store a kill request for the next AM attempt, because the current one does not respond.

        Raises:
            HadoopError: the file system refuses, or cannot be reached.
        """
        files = JobFiles(self._there, lambda: self._files)
        try:
            files.send(request.name, request.read_bytes())
        finally:
            files.close()

    def forget_secrets(self) -> None:
        """Delete what a dead AM has left for its clients."""
        try:
            for name in ("access.json", "am.json", self._folder.kill_request.name):
                self._files.delete(f"{self._there}/{name}")
        except HadoopError as error:
            _log.info("cannot delete %s/%s: %s", self._there, name, error)
        finally:
            self._files.close()

    def _whole_files(self) -> dict[str, Path]:
        folder = self._folder
        return {
            "access.json": folder.credentials,
            "am.json": folder.am,
            "am.log": folder.am_log,
            "job.json": folder.job,
            "summary.json": folder.summary,
        }

    def _fetch(self, name: str, path: Path) -> None:
        try:
            data = self._files.read(f"{self._there}/{name}", most=_MAX_BYTES)
        except FileMissingError:  # deleted meanwhile: the job has just ended
            return
        if path == self._folder.summary:
            data = self._localize_report(data)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.new")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(draft, path)

    def _fetch_metrics(self, status: FileStatus | None, *, is_finished: bool) -> None:
        """Fetch the metrics file if it has changed; a large one, which is rewritten repeatedly, only after the end."""
        here = self._folder.metrics
        if status is None or (status.length > _MAX_REPEATED_BYTES and not is_finished):
            return
        if here.exists():
            have = here.stat()
            if (have.st_size, have.st_mtime_ns // 1_000_000) == (status.length, status.modified_ms):
                return
        draft = here.with_name(f".{here.name}.{os.getpid()}.{threading.get_ident()}.new")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            with open(descriptor, "wb", buffering=0) as file:
                have_bytes = 0
                while have_bytes < status.length:
                    most = min(_PIECE, status.length - have_bytes)
                    data = self._files.read(f"{self._there}/{status.name}", have_bytes, most)
                    if not data:  # it has just been replaced: the next fetch gets it
                        return
                    have_bytes += file.write(data)
            changed = self._files.find(f"{self._there}/{status.name}")
            if changed is None or changed.modified_ms != status.modified_ms:
                return  # it may be a mix of two versions
            os.utime(draft, ns=(status.modified_ms * 1_000_000, status.modified_ms * 1_000_000))
            os.replace(draft, here)
        except FileMissingError:
            return
        finally:
            draft.unlink(missing_ok=True)

    def _localize_report(self, summary: bytes) -> bytes:
        """Replace the AM's folder in the summary by the local one."""
        with contextlib.suppress(ValueError, TypeError):
            return json.dumps({**json.loads(summary), "folder": str(self._folder.path)}).encode()
        return summary

    def _fetch_events(self, status: FileStatus, here: Path) -> None:
        """Fetch what our copy of the log is missing: logs only grow. Concurrent fetches write the same bytes."""
        have = here.stat().st_size if here.exists() else 0
        most = min(status.length, _MAX_EVENTS_BYTES)
        descriptor = os.open(here, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb", buffering=0) as file:
            file.seek(have)
            while have < most:
                try:
                    data = self._files.read(f"{self._there}/{status.name}", have, min(_PIECE, most - have))
                except FileMissingError:  # taken over by a later AM attempt; the next fetch gets it by its new name
                    return
                if not data:
                    return
                have += file.write(data)
