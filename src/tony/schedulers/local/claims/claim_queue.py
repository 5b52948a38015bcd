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
from tony.linux.inotify import ChangeWatch, InotifyMask
from tony.retry import Backoff
from tony.schedulers.local.claims.claim_policy import Claim, decide, find_blocker
from tony.schedulers.local.claims.ledger import HeldClaim, LedgerBusyError, ResourceLedger, find_user_name
from tony.schedulers.local.claims.machine_capacity import Machine

#: Claims that are granted or removed, but not new ones; or the ledger was removed.
_DEPARTURES = InotifyMask.CLOSE_WRITE | InotifyMask.DELETE | InotifyMask.DELETE_SELF | InotifyMask.MOVE_SELF
#: One claim was granted or removed.
_CLAIM_CHANGES = (
    InotifyMask.MODIFY | InotifyMask.CLOSE_WRITE | InotifyMask.ATTRIB | InotifyMask.DELETE_SELF | InotifyMask.MOVE_SELF
)
#: Seconds after a change at which to check again: the kernel reports that a file was closed just before it unlocks it.
_RECHECK_SECONDS = (0.01, 0.1)
#: Poll intervals in seconds with inotify working: of the first in the queue; and of those behind it, whose pending
#: reason alone would change.
_POLL_SECONDS = 5.0
_POLL_BEHIND_SECONDS = 30.0
#: Between attempts to lock the ledger; decisions take milliseconds.
_LOCK_BACKOFF = Backoff(first=0.001, most=0.1)
#: Seconds that other processes may keep the ledger locked before that is reported.
_BUSY_REPORT_SECONDS = 2.0


async def acquire_claim(
    ledger: ResourceLedger,
    claim: Claim,
    machine: Machine,
    on_pending: Callable[[str], None],
    *,
    held: HeldClaim | None = None,
    on_posted: Callable[[HeldClaim], None] = lambda held: None,
    larger: Sequence[Claim] = (),
) -> HeldClaim:
    """Post a claim and wait until it is granted. If cancelled, withdraw it.

    Args:
        say: called with the pending reason at each check; often the same one.
        held: the claim, if it has been posted already.
        on_posted: called with the claim as soon as it is posted.
        larger: larger claims that are preferred if one can be granted at the same moment, the largest first.

    Raises:
        SchedulerError: the ledger has been removed.
        OSError: the file system refuses.
    """
    place = _QueuePlace(ledger, claim, machine, on_pending, held, on_posted, larger)
    try:
        return await place.wait_granted()
    except BaseException:
        place.leave()
        raise
    finally:
        place.stop_watching()


class _QueuePlace:
    """One claim's place in the queue."""

    def __init__(
        self,
        ledger: ResourceLedger,
        claim: Claim,
        machine: Machine,
        on_pending: Callable[[str], None],
        held: HeldClaim | None,
        on_posted: Callable[[HeldClaim], None],
        larger: Sequence[Claim],
    ) -> None:
        self._ledger = ledger
        self._claim = claim
        self._machine = machine
        self._on_pending = on_pending
        self._held = held
        self._on_posted = on_posted
        self._larger = larger
        self._blocker: Claim | None = None
        self._watch: ChangeWatch | None = None

    async def wait_granted(self) -> HeldClaim:
        watched: str | None = ""  # "": nothing yet; later a ticket, or None: the folder
        pauses: Iterator[float] = iter(())
        while (held := await self._try_acquire()) is None:
            behind = self._blocker.ticket if self._blocker else None
            if behind != watched:
                self._watch_for(behind)  # and check again: something may have changed before
                watched, pauses = behind, iter(() if behind else _RECHECK_SECONDS)
            elif await self._wait_for_change(pauses):
                pauses = iter(_RECHECK_SECONDS)
        return held

    def leave(self) -> None:
        if self._held:
            self._held.withdraw()

    def stop_watching(self) -> None:
        if self._watch:
            self._watch.close()

    def _watch_for(self, behind: str | None) -> None:
        self.stop_watching()
        self._watch = ChangeWatch()
        if behind is None:
            self._watch.add(self._ledger.path, _DEPARTURES)
        else:
            self._watch.add(self._ledger.claim_path(behind), _CLAIM_CHANGES)

    async def _wait_for_change(self, pauses: Iterator[float]) -> bool:
        """Wait until the next check is due; return True if a change was seen."""
        assert self._watch is not None
        if not self._watch.is_working:
            return await self._poll_for_change(self._watch)
        try:
            async with asyncio.timeout(next(pauses, _POLL_BEHIND_SECONDS if self._blocker else _POLL_SECONDS)):
                await self._watch.wait_change()
        except TimeoutError:
            return False
        return True

    async def _poll_for_change(self, watch: ChangeWatch) -> bool:
        """Poll for a change without inotify: behind another claim by reading its small file, not the whole ledger."""
        until = clock.monotonic() + _POLL_BEHIND_SECONDS
        while clock.monotonic() < until:
            await watch.wait_change()
            if self._blocker is None:
                return False
            if self._ledger.claim_of(self._blocker.ticket) != self._blocker:
                return True
        return False

    async def _try_acquire(self) -> HeldClaim | None:
        """Decide as soon as the ledger can be locked."""
        since, pauses = clock.monotonic(), iter(_LOCK_BACKOFF)
        while True:
            try:
                with self._ledger.lock():
                    return self._decide()
            except LedgerBusyError:
                busy = clock.monotonic() - since
                if busy > _BUSY_REPORT_SECONDS:
                    self._on_pending(_lock_notice(self._ledger))
                await asyncio.sleep(next(pauses))

    def _decide(self) -> HeldClaim | None:
        others = [claim for claim in self._ledger.list_claims() if claim.ticket != self._claim.ticket]
        outcomes = (decide(claim, others, self._machine) for claim in self._larger)
        granted = next((found for found in outcomes if isinstance(found, Claim)), None)
        outcome = granted or decide(self._claim, others, self._machine)
        self._blocker = find_blocker(self._claim, others, self._machine) if isinstance(outcome, str) else None
        if self._held and not self._held.is_seen:  # the file was removed: other jobs do not see this claim
            self._held.withdraw()
            self._held = None
        if self._held is None:
            self._held = self._ledger.post(self._claim if isinstance(outcome, str) else outcome)
            self._on_posted(self._held)
        elif isinstance(outcome, Claim):
            self._held.update(outcome)
        if isinstance(outcome, str):
            self._on_pending(outcome)
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
                    holder += f" of {find_user_name(uid)}"
                    hint = "; if it never unlocks it, set scheduler.local.ledger to another folder"
                break
    return f"waiting: the ledger {ledger.path} is locked by {holder}{hint}"
