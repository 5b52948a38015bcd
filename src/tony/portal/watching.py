"""The threads that keep the index true to its locations."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence

from tony import clock
from tony.dataclass import dataclass, field
from tony.errors import TonyError
from tony.portal.index import Index
from tony.portal.scanner import Scanner
from tony.storage.store import Store

_log = logging.getLogger(__name__)
#: Seconds between two looks for what is new: here, in HDFS, and where each look costs money.
_HERE, _FAR, _COSTLY = 1.0, 2.0, 20.0
#: Seconds between two looks at everything.
FULL = 900.0
#: Seconds before another try where a location does not answer, and until we look whether the index is ours now.
_AGAIN, _OTHERS = 5.0, 2.0
#: A look that takes long is not begun anew before so many times that long.
_RESTS = 4.0


@dataclass(slots=True)
class _Watch:
    scanner: Scanner
    pause: float
    thread: threading.Thread | None = None
    full_at: float = float("-inf")
    generation: int = -1
    first: bool = True
    problem: str = ""
    woken: threading.Event = field(default_factory=threading.Event)


class Watching:
    """One thread for each location. `close` ends them.

    Args:
        asked: addresses of those of whose open jobs somebody else takes care.
    """

    def __init__(self, index: Index, stores: Sequence[Store], asked: Iterable[str] = ()) -> None:
        self._index = index
        self._ending = threading.Event()
        known = set(asked)
        self._watches = [
            _Watch(Scanner(store, index, self._ending.is_set, asked=store.address in known), _pause(store))
            for store in stores
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
            began = clock.monotonic()
            try:
                if not self._index.claim():
                    watch.first = False  # another portal of ours fills it
                    pause = _OTHERS
                    continue
                self._look(watch)
                pause = max(watch.pause, _RESTS * (clock.monotonic() - began)) if watch.full_at < began else watch.pause
            except TonyError as error:
                watch.problem = " ".join(str(error).split())
                pause = _AGAIN
            except Exception:  # the outermost place of this thread: the portal goes on with what it knows
                _log.exception("looking through %s", watch.scanner.store.address)
                watch.problem = "it could not be looked through; the portal's log says why"
                pause = _AGAIN

    def _look(self, watch: _Watch) -> None:
        generation = self._index.generation
        if generation != watch.generation or clock.monotonic() - watch.full_at > FULL:
            watch.scanner.full()
            if self._ending.is_set():
                return
            watch.generation, watch.full_at, watch.first = generation, clock.monotonic(), False
        else:
            watch.scanner.quick()
        watch.problem = ""


def _pause(store: Store) -> float:
    return _HERE if store.local else _FAR if store.dated else _COSTLY
