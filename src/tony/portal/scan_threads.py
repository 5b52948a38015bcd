"""The threads that keep the index true to its locations."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence

from tony import clock
from tony.dataclass import dataclass, field
from tony.errors import TonyError
from tony.portal.index import JobIndex
from tony.portal.scanner import Scanner
from tony.storage.store import FileStore

_log = logging.getLogger(__name__)
#: Seconds from one look for what is new to the next: here, in HDFS, and where each look costs money.
_HERE, _FAR, _COSTLY = 1.0, 2.0, 4.0
#: Seconds between two looks at everything; where they cost money, at the most: the first one reads every record.
FULL, _RARELY = 900.0, 4 * 3600.0
#: Where looks cost money, requests for names in one second that those for what is new, and those at everything make at
#: most, taken over time: 0.07 and 0.02 $ an hour in S3.
_QUICK_RATE, _FULL_RATE = 4.0, 1.0
#: Seconds before another try where a location does not answer, and until we look whether the index is ours now.
_AGAIN, _OTHERS = 5.0, 2.0
#: A look that takes long is not begun anew before so many times that long: here it works, elsewhere it waits.
_RESTS, _RESTS_FAR = 4.0, 1.0
#: What is said where the reason is no message for people.
_BROKEN = "it could not be looked through; the portal's log says why"


@dataclass(slots=True)
class _Watch:
    """One location.

    Attributes:
        problem: what people are told: why the last look failed, else `missed`.
        missed: why the last look at everything failed; empty if it did not.
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
    """One thread for each location. `close` ends them.

    Args:
        asked: addresses of those of whose open jobs somebody else takes care.
    """

    def __init__(self, index: JobIndex, stores: Sequence[FileStore], asked: Iterable[str] = ()) -> None:
        self._index = index
        self._ending = threading.Event()
        known = set(asked)
        self._watches = [
            _Watch(Scanner(store, index, self._ending.is_set, asked=store.address in known)) for store in stores
        ]

    def start(self) -> None:
        """Begins."""
        for watch in self._watches:
            name = f"history {watch.scanner.store.address}"
            watch.thread = threading.Thread(target=self._run, args=(watch,), name=name, daemon=True)
            watch.thread.start()

    def close(self) -> None:
        """Ends them; one that waits for a file system that hangs is left behind."""
        self._ending.set()
        for watch in self._watches:
            watch.woken.set()
        for watch in self._watches:
            if watch.thread:
                watch.thread.join(timeout=5.0)

    def look_now(self) -> None:
        """Has all of them look at once."""
        for watch in self._watches:
            watch.woken.set()

    @property
    def problems(self) -> tuple[str, ...]:
        """One sentence for each location that is not known as a whole."""
        found = []
        for watch in self._watches:
            store, scanner = watch.scanner.store, watch.scanner
            if watch.problem:
                found.append(f"{store.address}: {watch.problem}")
            elif watch.first and scanner.there:
                found.append(
                    f"{store.address} is looked through: {scanner.looked_at:,} of at least {scanner.there:,} records "
                    "so far, the newest first."
                )
            elif watch.first:
                found.append(f"{store.address} is looked through.")
        return tuple(found)

    def _run(self, watch: _Watch) -> None:
        pause = 0.0
        while not self._ending.is_set():
            watch.woken.wait(pause)
            watch.woken.clear()
            if self._ending.is_set():
                return
            try:
                if not self._index.claim():
                    watch.first = False  # another portal of ours fills it
                    pause = _OTHERS
                    continue
                self._look(watch)
                pause = max(0.0, watch.quick_at - clock.monotonic())
            except TonyError as error:
                watch.problem = _said(error)
                pause = max(_AGAIN, watch.quick_at - clock.monotonic())
            except Exception:  # the outermost place of this thread: the portal goes on with what it knows
                _log.exception("looking through %s", watch.scanner.store.address)
                watch.problem = _BROKEN
                pause = max(_AGAIN, watch.quick_at - clock.monotonic())

    def _look(self, watch: _Watch) -> None:
        if self._index.generation == watch.generation and clock.monotonic() < watch.full_at:
            self._quick(watch)
        else:
            self._full(watch)
        watch.problem = watch.missed

    def _full(self, watch: _Watch) -> None:
        """Looks at everything. One that fails has its price, too; till the next try we look for what is new."""
        generation, scanner = self._index.generation, watch.scanner
        requests, lasting = scanner.requests, scanner.lasting
        watch.missed = _BROKEN
        try:
            scanner.full((lambda: self._meanwhile(watch)) if generation == watch.generation else (lambda: None))
            watch.missed = ""
        except TonyError as error:
            watch.missed = _said(error)
            raise
        finally:
            if watch.missed:
                pause = failed_pause(scanner.store, scanner.lasting - lasting)
            else:
                pause = full_pause(scanner.store, scanner.requests - requests)
            watch.full_at, watch.generation = clock.monotonic() + pause, generation
        watch.first = watch.first and self._ending.is_set()

    def _meanwhile(self, watch: _Watch) -> None:
        """A look at everything takes its time; what is new does not wait for its end."""
        if clock.monotonic() >= watch.quick_at and not self._ending.is_set():
            self._quick(watch)

    def _quick(self, watch: _Watch) -> None:
        began, before, took = clock.monotonic(), watch.scanner.requests, 0.0
        try:
            watch.scanner.quick()
            took = clock.monotonic() - began
        finally:  # one that fails is tried again as soon as its price allows
            watch.quick_at = began + quick_pause(watch.scanner.store, took, watch.scanner.requests - before)


def quick_pause(store: FileStore, took: float, requests: int) -> float:
    """Seconds from the beginning of a look for what is new to that of the next.

    Args:
        took: seconds that it took.
        requests: for names that it made.
    """
    if store.local:
        return max(_HERE, (1 + _RESTS) * took)
    pause = (1 + _RESTS_FAR) * took
    return max(_FAR, pause) if store.dated else max(_COSTLY, pause, requests / _QUICK_RATE)


def full_pause(store: FileStore, requests: int) -> float:
    """Seconds from the end of a look at everything to the next.

    Args:
        requests: for names that it made.
    """
    return FULL if store.dated else min(max(FULL, requests / _FULL_RATE), _RARELY)


def failed_pause(store: FileStore, requests: int) -> float:
    """Seconds from the end of a look at everything that failed to the next.

    Args:
        requests: for names that it made, and that the next makes again.
    """
    return _AGAIN if store.dated else min(max(_AGAIN, requests / _FULL_RATE), _RARELY)


def _said(error: TonyError) -> str:
    return " ".join(str(error).split())
