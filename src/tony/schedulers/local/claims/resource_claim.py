"""One job's claim on the machine over its whole life: queue for it, keep it alive, enlarge it, release it.

A waiting process is woken by inotify when another claim is released, and polls every few seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tony import clock
from tony.errors import SchedulerError
from tony.linux.inotify import ChangeWatch, InotifyMask
from tony.retry import Backoff
from tony.schedulers.local.claims.claim_policy import Claim, count_claims_ahead, decide, grow_claim
from tony.schedulers.local.claims.ledger import (
    HeldClaim,
    LedgerBusyError,
    ResourceLedger,
    create_claim,
    find_user_name,
)
from tony.schedulers.local.claims.machine_capacity import Machine
from tony.schedulers.local.claims.peak_demand import Need

#: A claim was released: its file was removed, or closed by the last process that had it open. Or the ledger is gone.
_RELEASES = InotifyMask.CLOSE_WRITE | InotifyMask.DELETE | InotifyMask.DELETE_SELF | InotifyMask.MOVE_SELF
#: Seconds after a release at which to check again: the kernel reports that a file was closed just before it unlocks it.
_RECHECK_SECONDS = (0.01, 0.1)
#: Poll intervals in seconds with inotify working: of the first in the queue, and of those behind it.
_POLL_SECONDS = 5.0
_POLL_BEHIND_SECONDS = 30.0
#: Seconds by which a claim is decided after the one before it in the queue, when both are woken by the same release.
_STAGGER_SECONDS = 0.02
#: Between attempts to lock the ledger; decisions take milliseconds.
_LOCK_BACKOFF = Backoff(first=0.001, most=0.1, jitter=0.5)
#: Seconds that other processes may keep the ledger locked before that is reported.
_BUSY_REPORT_SECONDS = 2.0
#: Seconds between attempts to use a broken ledger.
_REOPEN_SECONDS = 5.0
#: Seconds between touches of the claim's file: cleaners of /tmp remove files some days old.
_REFRESH_SECONDS = 3600.0

_log = logging.getLogger(__name__)


class ResourceClaim:
    """A claim for what one job needs.

    Args:
        reopen: opens the ledger again, should it have been removed.
        ledger: the open ledger; closed with the claim.
        needs: acceptable sizes, largest first.
        inherited: descriptor of the claim's file inherited from the previous AM attempt, if any.
        pass_on: passes the descriptor to the next AM attempt.
    """

    def __init__(
        self,
        reopen: Callable[[], ResourceLedger],
        ledger: ResourceLedger,
        needs: Sequence[Need],
        machine: Machine,
        *,
        job: str,
        job_name: str,
        inherited: int | None = None,
        pass_on: Callable[[int], None] = lambda descriptor: None,
    ) -> None:
        self._reopen = reopen
        self._ledger = ledger
        self._needs = needs
        self._machine = machine
        self._pass_on = pass_on
        self._ahead = 0  # claims that wait before this one for the same
        #: Posted in the ledger, waiting or granted.
        self._held = None if inherited is None else ledger.find_inherited_claim(inherited, job)
        self._requested = (
            self._held.claim
            if self._held
            else create_claim(job=job, job_name=job_name, memory=needs[-1].memory, gpus=needs[-1].gpus)
        )

    @property
    def is_granted(self) -> bool:
        """True once the claim is granted, to this AM attempt or to an earlier one."""
        return self._held is not None and self._held.claim.granted

    @property
    def descriptors(self) -> Sequence[int]:
        """Open files that executors inherit, so that the claim outlives this AM as long as it is needed."""
        return (self._held.descriptor,) if self._held else ()

    @property
    def size(self) -> int:
        """Memory of the granted claim in bytes; 0 as long as it waits."""
        return self._held.claim.memory if self._held and self.is_granted else 0

    @property
    def can_grow(self) -> bool:
        """True if the claim is granted, and smaller than the job could use."""
        return self._held is not None and self.is_granted and _is_more(self._needs[0], self._held.claim)

    def set_needs(self, needs: Sequence[Need]) -> None:
        """Set the acceptable sizes of a granted claim that is to grow, largest first."""
        self._needs = needs

    async def acquire(self, on_pending: Callable[[str], None]) -> Claim:
        """Wait until the claim is granted: as much as is free then, and at least the minimum.

        An inherited claim keeps its place in the queue. If cancelled, the claim is withdrawn.

        Args:
            on_pending: called with the pending reason at each check; often the same one.
        """
        while self._held is None or not self._held.claim.granted:
            try:
                await self._wait_granted(on_pending)
            except asyncio.CancelledError:
                self._withdraw()
                raise
            except (SchedulerError, OSError) as error:
                self._withdraw()
                on_pending(f"the ledger {self._ledger.path} cannot be used: {error}; trying again")
                _log.warning("the ledger %s cannot be used: %s", self._ledger.path, error)
                await asyncio.sleep(_REOPEN_SECONDS)
                self._reopen_ledger()
        return self._held.claim

    def grow(self) -> Claim | None:
        """Enlarge the granted claim as far as possible now; return it if it has grown.

        Raises:
            LedgerBusyError: another process has the ledger locked.
            SchedulerError, OSError: the ledger cannot be used.
        """
        if self._held is None:
            return None
        with self._ledger.lock():
            claim, others = self._held.claim, self._list_others()
            for need in filter(lambda need: _is_more(need, claim), self._needs):
                found = grow_claim(claim, need.memory, need.gpus, others, self._machine)
                if found:
                    self._held.update(found)
                    return found
        return None

    async def keep_alive(self) -> None:
        """Protect the claim's file from cleaners of /tmp, and restore it if it was removed. Runs until cancelled."""
        while self._held:
            try:
                if not self._held.refresh():
                    self._reopen_ledger()
                    self._restore(self._held)
            except (SchedulerError, OSError, LedgerBusyError) as error:
                _log.warning("cannot refresh the job's claim in the ledger: %s", error)
            await asyncio.sleep(_REFRESH_SECONDS)

    def close(self) -> None:
        """Release the claim and close the ledger."""
        self._withdraw()
        self._ledger.close()

    # --- the queue ----------------------------------------------------------------------------------------------------

    async def _wait_granted(self, on_pending: Callable[[str], None]) -> None:
        if await self._decide_when_unlocked(on_pending):  # before watching: closing an inotify queue takes milliseconds
            return
        with ChangeWatch() as watch:
            watch.add(self._ledger.path, _RELEASES)
            rechecks: Iterator[float] = iter(_RECHECK_SECONDS)
            while not await self._decide_when_unlocked(on_pending):
                poll_seconds = _POLL_BEHIND_SECONDS if self._ahead else _POLL_SECONDS
                try:
                    async with asyncio.timeout(next(rechecks, poll_seconds)):
                        await watch.wait_change()
                except TimeoutError:
                    continue
                rechecks = await self._pause_after_release(watch)

    async def _pause_after_release(self, watch: ChangeWatch) -> Iterator[float]:
        """Wait after a release for the claims ahead to decide; return the seconds after which to check again.

        Claims far behind decide once for all releases until then, since each decision reads the whole ledger.
        """
        delay, settled = self._ahead * _STAGGER_SECONDS, _RECHECK_SECONDS[-1]
        if delay >= settled:
            await asyncio.sleep(delay - settled)
            watch.take_changes()
            delay = settled
        await asyncio.sleep(delay)
        return iter([seconds for seconds in _RECHECK_SECONDS if seconds > delay])

    async def _decide_when_unlocked(self, on_pending: Callable[[str], None]) -> bool:
        """Decide as soon as the ledger can be locked; return True if the claim is granted."""
        since, pauses = clock.monotonic(), iter(_LOCK_BACKOFF)
        while True:
            try:
                with self._ledger.lock():
                    outcome = self._decide()
            except LedgerBusyError:
                if clock.monotonic() - since > _BUSY_REPORT_SECONDS:
                    on_pending(_describe_lock(self._ledger))
                await asyncio.sleep(next(pauses))
            else:
                if isinstance(outcome, str):
                    on_pending(outcome)
                return isinstance(outcome, Claim)

    def _decide(self) -> Claim | str:
        """Post or update the claim; return it if it is granted, else the pending reason. Only while locked."""
        others = self._list_others()
        self._ahead = count_claims_ahead(self._requested, others, self._machine)
        larger = (replace(self._requested, memory=need.memory, gpus=need.gpus) for need in self._needs[:-1])
        outcomes = (decide(claim, others, self._machine) for claim in larger)
        outcome = next((found for found in outcomes if isinstance(found, Claim)), None) or decide(
            self._requested, others, self._machine
        )
        if self._held and not self._held.is_seen:  # the file was removed: other jobs do not see this claim
            self._withdraw()
        if self._held is None:
            self._post(self._requested if isinstance(outcome, str) else outcome)
        elif isinstance(outcome, Claim):
            self._held.update(outcome)
        return outcome

    def _list_others(self) -> list[Claim]:
        return [claim for claim in self._ledger.list_claims() if claim.ticket != self._requested.ticket]

    def _post(self, claim: Claim) -> None:
        self._held = self._ledger.post(claim)
        self._pass_on(self._held.descriptor)

    def _restore(self, lost: HeldClaim) -> None:
        # Executors cannot inherit this file: it ends with this process, but other jobs see it until then.
        with self._ledger.lock():
            self._post(lost.claim)
        lost.withdraw()

    def _withdraw(self) -> None:
        if self._held:
            self._held.withdraw()
            self._held = None

    def _reopen_ledger(self) -> None:
        try:
            ledger = self._reopen()
        except SchedulerError as error:
            _log.warning("%s", error)
        else:
            self._ledger.close()
            self._ledger = ledger


def _is_more(need: Need, claim: Claim) -> bool:
    larger = need.memory > claim.memory or need.gpus > claim.gpus
    return larger and need.memory >= claim.memory and need.gpus >= claim.gpus


def _describe_lock(ledger: ResourceLedger) -> str:
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
