"""Threads that keep the index up to date with its locations."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tony import clock
from tony.errors import TonyError, join_lines
from tony.portal.histories.scanner import Scanner
from tony.portal.job_index.index import JobIndex
from tony.storage.stores.store_interface import FileStore

_log = logging.getLogger(__name__)
#: Between two scans for new jobs: locally, in HDFS, and where each request costs money.
_LOCAL_SECONDS = 1.0
_REMOTE_SECONDS = 2.0
_COSTLY_SECONDS = 4.0
#: Seconds between two full scans; where requests cost money up to `_MAX_FULL_SECONDS`, since the first reads every job.
FULL_SCAN_SECONDS = 900.0
_MAX_FULL_SECONDS = 4 * 3600.0
#: Where requests cost money, average listing requests per second of scans for new jobs, and of full scans: 0.07 and
#: 0.02 $ an hour in S3.
_QUICK_SCANS_PER_SECOND = 4.0
_FULL_SCANS_PER_SECOND = 1.0
#: Before retrying a location that does not answer, and between attempts to become the index's writer.
_RETRY_SECONDS = 5.0
_CLAIM_SECONDS = 2.0
#: Pause after a slow scan, as a multiple of its duration: local scans use CPU, remote ones mostly wait.
_LOCAL_REST_FACTOR = 4.0
_REMOTE_REST_FACTOR = 1.0
#: Shown if the reason is not a message for users.
_SCAN_FAILED = "the scan failed; see the portal's log"


@dataclass(slots=True)
class _WatchedLocation:
    """A location.

    Attributes:
        problem: shown to users: why the last scan failed, else `missed`.
        missed: why the last full scan failed; empty if it did not.
    """

    scanner: Scanner
    thread: threading.Thread | None = None
    full_at: float = float("-inf")
    quick_at: float = float("-inf")
    generation: int = -1
    first: bool = True
    problem: str = ""
    missed: str = ""
    woken: threading.Event = field(default_factory=threading.Event)


class ScanThreads:
    """One scan thread for each location.

    Args:
        asked: addresses of locations whose running jobs are updated from their AMs instead.
    """

    def __init__(self, index: JobIndex, stores: Sequence[FileStore], asked: Iterable[str] = ()) -> None:
        self._index = index
        self._ending = threading.Event()
        known = set(asked)
        self._watches = [
            _WatchedLocation(Scanner(store, index, self._ending.is_set, polls_ams=store.address in known))
            for store in stores
        ]

    def start(self) -> None:
        """Start the threads."""
        for watch in self._watches:
            name = f"history {watch.scanner.store.address}"
            watch.thread = threading.Thread(target=self._run, args=(watch,), name=name, daemon=True)
            watch.thread.start()

    def close(self) -> None:
        """Stop the threads; one that waits for a hanging file system is abandoned."""
        self._ending.set()
        for watch in self._watches:
            watch.woken.set()
        for watch in self._watches:
            if watch.thread:
                watch.thread.join(timeout=5.0)

    @property
    def problems(self) -> tuple[str, ...]:
        """One sentence for each location that is not completely indexed."""
        found = []
        for watch in self._watches:
            store, scanner = watch.scanner.store, watch.scanner
            if watch.problem:
                found.append(f"{store.address}: {watch.problem}")
            elif watch.first and scanner.there:
                found.append(
                    f"scanning {store.address}: {scanner.looked_at:,} of at least {scanner.there:,} jobs so far, "
                    "newest first."
                )
            elif watch.first:
                found.append(f"scanning {store.address}.")
        return tuple(found)

    def _run(self, watch: _WatchedLocation) -> None:
        pause = 0.0
        while not self._ending.is_set():
            watch.woken.wait(pause)
            watch.woken.clear()
            if self._ending.is_set():
                return
            try:
                if not self._index.claim():
                    watch.first = False  # another portal of this user fills the index
                    pause = _CLAIM_SECONDS
                    continue
                self._scan(watch)
                pause = max(0.0, watch.quick_at - clock.monotonic())
            except TonyError as error:
                watch.problem = join_lines(error)
                pause = max(_RETRY_SECONDS, watch.quick_at - clock.monotonic())
            except Exception:  # outermost handler of the thread: the portal continues with what is indexed
                _log.exception("scanning %s failed", watch.scanner.store.address)
                watch.problem = _SCAN_FAILED
                pause = max(_RETRY_SECONDS, watch.quick_at - clock.monotonic())

    def _scan(self, watch: _WatchedLocation) -> None:
        if self._index.generation == watch.generation and clock.monotonic() < watch.full_at:
            self._scan_quickly(watch)
        else:
            self._scan_fully(watch)
        watch.problem = watch.missed

    def _scan_fully(self, watch: _WatchedLocation) -> None:
        """Scan everything. A failed scan delays the next one, too; until then only new jobs are scanned."""
        generation, scanner = self._index.generation, watch.scanner
        requests, lasting = scanner.requests, scanner.lasting
        watch.missed = _SCAN_FAILED
        try:
            scanner.scan_fully(
                (lambda: self._scan_quickly_if_due(watch)) if generation == watch.generation else (lambda: None)
            )
            watch.missed = ""
        except TonyError as error:
            watch.missed = join_lines(error)
            raise
        finally:
            if watch.missed:
                pause = compute_full_pause(scanner.store, scanner.lasting - lasting, failed=True)
            else:
                pause = compute_full_pause(scanner.store, scanner.requests - requests)
            watch.full_at, watch.generation = clock.monotonic() + pause, generation
        watch.first = watch.first and self._ending.is_set()

    def _scan_quickly_if_due(self, watch: _WatchedLocation) -> None:
        """Scan for new jobs during a full scan, which may take long."""
        if clock.monotonic() >= watch.quick_at and not self._ending.is_set():
            self._scan_quickly(watch)

    def _scan_quickly(self, watch: _WatchedLocation) -> None:
        started_at, before, took = clock.monotonic(), watch.scanner.requests, 0.0
        try:
            watch.scanner.scan_quickly()
            took = clock.monotonic() - started_at
        finally:  # a failed scan is repeated as soon as its cost allows
            watch.quick_at = started_at + compute_quick_pause(
                watch.scanner.store, took, watch.scanner.requests - before
            )


def compute_quick_pause(store: FileStore, took: float, requests: int) -> float:
    """Return the seconds between the starts of two scans for new jobs.

    Args:
        took: duration of the first one, in seconds.
        requests: listing requests that it made.
    """
    if store.local:
        return max(_LOCAL_SECONDS, (1 + _LOCAL_REST_FACTOR) * took)
    pause = (1 + _REMOTE_REST_FACTOR) * took
    return (
        max(_REMOTE_SECONDS, pause) if store.dated else max(_COSTLY_SECONDS, pause, requests / _QUICK_SCANS_PER_SECOND)
    )


def compute_full_pause(store: FileStore, requests: int, *, failed: bool = False) -> float:
    """Return the seconds from the end of a full scan to the next one.

    Args:
        requests: listing requests that it made; of a failed one, those that the next one repeats.
    """
    least = _RETRY_SECONDS if failed else FULL_SCAN_SECONDS
    return least if store.dated else min(max(least, requests / _FULL_SCANS_PER_SECOND), _MAX_FULL_SECONDS)
