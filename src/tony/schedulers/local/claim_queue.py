"""Queue for memory and GPUs: wait until a claim is granted, woken by inotify rather than by polling.

A claim behind another one watches only that claim's file, which changes when it is granted and when it is removed. Only
the first in the queue watch the whole folder. So when one of a hundred jobs ends, one or two processes wake.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterator, Sequence

from tony import clock
from tony.schedulers.local.claim_policy import Claim, blocker, decide
from tony.schedulers.local.inotify import DeparturesWatch, FileWatch, FolderWatch
from tony.schedulers.local.ledger import HeldClaim, LedgerBusy, ResourceLedger, user_name
from tony.schedulers.local.machine_capacity import Machine

#: Seconds after a change at which to check again: the kernel reports that a file was closed just before it unlocks it.
_LOOK_AGAIN = (0.01, 0.1)
#: Poll intervals in seconds: of the first in the queue with inotify working, and without (no watches left for this
#: user); and of those behind it, whose pending reason alone would change.
_SAFETY, _DEAF, _BEHIND = 5.0, 0.5, 30.0
#: Seconds between attempts to lock the ledger, doubling; decisions take milliseconds.
_BUSY_FIRST, _BUSY_MOST = 0.001, 0.1
#: Seconds that other processes may keep the ledger locked before that is reported.
_BUSY_PATIENCE = 2.0


async def acquire_claim(
    ledger: ResourceLedger,
    claim: Claim,
    machine: Machine,
    say: Callable[[str], None],
    *,
    held: HeldClaim | None = None,
    posted: Callable[[HeldClaim], None] = lambda held: None,
    larger: Sequence[Claim] = (),
) -> HeldClaim:
    """Post a claim and wait until it is granted. If cancelled, withdraw it.

    Args:
        say: called with the pending reason at each check; often the same one.
        held: the claim, if it has been posted already.
        posted: called with the claim as soon as it is posted.
        larger: larger claims that are preferred if one can be granted at the same moment, the largest first.

    Raises:
        SchedulerError: the ledger has been removed.
        OSError: the file system refuses.
    """
    place = _Place(ledger, claim, machine, say, held, posted, larger)
    try:
        return await place.wait_granted()
    except BaseException:
        place.leave()
        raise
    finally:
        place.stop_listening()


class _Place:
    """One claim's place in the queue."""

    def __init__(
        self,
        ledger: ResourceLedger,
        claim: Claim,
        machine: Machine,
        say: Callable[[str], None],
        held: HeldClaim | None,
        posted: Callable[[HeldClaim], None],
        larger: Sequence[Claim],
    ) -> None:
        self._ledger = ledger
        self._claim = claim
        self._machine = machine
        self._say = say
        self._held = held
        self._posted = posted
        self._larger = larger
        self._before: Claim | None = None
        self._news = asyncio.Event()
        self._watch: FolderWatch | None = None

    async def wait_granted(self) -> HeldClaim:
        listening: str | None = ""  # "": nothing yet; later a ticket, or None: the folder
        pauses: Iterator[float] = iter(())
        while (held := await self._look()) is None:
            behind = self._before.ticket if self._before else None
            if behind != listening:
                self._listen(behind)  # and check again: something may have changed before
                listening, pauses = behind, iter(() if behind else _LOOK_AGAIN)
            elif await self._changed(pauses):
                pauses = iter(_LOOK_AGAIN)
        return held

    def leave(self) -> None:
        if self._held:
            self._held.withdraw()

    def stop_listening(self) -> None:
        if self._watch:
            self._watch.close()
            self._watch = None

    def _listen(self, behind: str | None) -> None:
        self.stop_listening()
        self._news.clear()
        with contextlib.suppress(OSError):
            if behind is None:
                self._watch = DeparturesWatch(self._ledger.path, self._news.set)
            else:
                self._watch = FileWatch(self._ledger.place_of(behind), self._news.set)

    async def _changed(self, pauses: Iterator[float]) -> bool:
        """Wait until the next check is due; return True if a change was seen."""
        if self._before and not self._watch:
            return await self._differs(self._before)
        pause = next(pauses, _BEHIND if self._before else _SAFETY if self._watch else _DEAF)
        try:
            async with asyncio.timeout(pause):
                await self._news.wait()
        except TimeoutError:
            return False
        self._news.clear()
        return True

    async def _differs(self, before: Claim) -> bool:
        """Poll for a change without inotify, by reading one small file and not the whole ledger."""
        until = clock.monotonic() + _BEHIND
        while clock.monotonic() < until:
            await asyncio.sleep(_DEAF)
            if self._ledger.claim_of(before.ticket) != before:
                return True
        return False

    async def _look(self) -> HeldClaim | None:
        """Decide as soon as the ledger can be locked."""
        since, pause = clock.monotonic(), _BUSY_FIRST
        while True:
            try:
                with self._ledger.locked():
                    return self._decide()
            except LedgerBusy:
                busy = clock.monotonic() - since
                if busy > _BUSY_PATIENCE:
                    self._say(_lock_notice(self._ledger))
                await asyncio.sleep(pause)
                pause = min(2 * pause, _BUSY_MOST)

    def _decide(self) -> HeldClaim | None:
        others = [claim for claim in self._ledger.claims() if claim.ticket != self._claim.ticket]
        outcomes = (decide(claim, others, self._machine) for claim in self._larger)
        granted = next((found for found in outcomes if isinstance(found, Claim)), None)
        outcome = granted or decide(self._claim, others, self._machine)
        self._before = blocker(self._claim, others, self._machine) if isinstance(outcome, str) else None
        if self._held and not self._held.is_seen:  # the file was removed: other jobs do not see this claim
            self._held.withdraw()
            self._held = None
        if self._held is None:
            self._held = self._ledger.post(self._claim if isinstance(outcome, str) else outcome)
            self._posted(self._held)
        elif isinstance(outcome, Claim):
            self._held.update(outcome)
        if isinstance(outcome, str):
            self._say(outcome)
            return None
        return self._held


def _lock_notice(ledger: ResourceLedger) -> str:
    """Return the pending reason: which process has locked the ledger, according to /proc/locks, and what to do."""
    status = os.stat(ledger.path)
    lock_id = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    holder, hint = "another process", ""
    with contextlib.suppress(OSError), open("/proc/locks", encoding="ascii") as table:
        for line in table:
            fields = line.split()
            # "1: FLOCK  ADVISORY  WRITE 4242 fe:00:1234 0 EOF"; "->" in front marks one that waits
            if len(fields) > 5 and fields[1] == "FLOCK" and fields[5] == lock_id:
                holder = f"process {fields[4]}"
                uid = os.stat(f"/proc/{fields[4]}").st_uid
                if uid != os.geteuid():
                    holder += f" of {user_name(uid)}"
                    hint = "; if it never unlocks it, set scheduler.local.ledger to another folder"
                break
    return f"waiting: the ledger {ledger.path} is locked by {holder}{hint}"
