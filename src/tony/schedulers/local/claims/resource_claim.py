"""One job's claim on the machine over its whole life: acquire, keep alive, release."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from tony.errors import SchedulerError
from tony.model.submission_record import JobRecord
from tony.schedulers.local.claims.claim_policy import Claim, grow_claim
from tony.schedulers.local.claims.claim_queue import acquire_claim
from tony.schedulers.local.claims.ledger import HeldClaim, LedgerBusyError, ResourceLedger, create_claim
from tony.schedulers.local.claims.machine_capacity import Machine
from tony.schedulers.local.claims.peak_demand import Need

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
        record: JobRecord,
        needs: Sequence[Need],
        machine: Machine,
        *,
        inherited: int | None = None,
        pass_on: Callable[[int], None] = lambda descriptor: None,
    ) -> None:
        self._reopen = reopen
        self._ledger = ledger
        self._machine = machine
        least = needs[-1]
        self._needs = needs
        self._requested = create_claim(
            job=record.job_id, job_name=record.spec.name, memory=least.memory, gpus=least.gpus
        )
        self._held: HeldClaim | None = None
        self._inherited = None if inherited is None else ledger.find_inherited_claim(inherited, record.job_id)
        self._pass_on = pass_on
        if self._inherited:
            self._requested = self._inherited.claim

    @property
    def is_granted(self) -> bool:
        """Return True if the claim was granted to an earlier AM attempt."""
        return self._requested.granted

    @property
    def descriptors(self) -> Sequence[int]:
        """Open files that executors inherit, so that the claim outlives this AM as long as it is needed."""
        return (self._held.descriptor,) if self._held else ()

    async def acquire(self, on_pending: Callable[[str], None]) -> Claim:
        """Wait until the claim is granted: as much as is free then, and at least the minimum.

        An inherited claim keeps its place in the queue.

        Args:
            say: called with the pending reason at each check; often the same one.
        """
        if self._inherited and self._inherited.claim.granted:
            self._held, self._inherited = self._inherited, None
            return self._held.claim
        while True:
            try:
                held, self._inherited = self._inherited, None
                larger = [replace(self._requested, memory=need.memory, gpus=need.gpus) for need in self._needs[:-1]]
                self._held = await acquire_claim(
                    self._ledger,
                    self._requested,
                    self._machine,
                    on_pending,
                    held=held,
                    on_posted=self._on_posted,
                    larger=larger,
                )
                return self._held.claim
            except (SchedulerError, OSError) as error:
                on_pending(f"the ledger {self._ledger.path} cannot be used: {error}; trying again")
                _log.warning("the ledger %s cannot be used: %s", self._ledger.path, error)
            await asyncio.sleep(_REOPEN_SECONDS)
            self._reopen_ledger()

    @property
    def size(self) -> int:
        """Memory of the granted claim in bytes."""
        return self._held.claim.memory if self._held else 0

    @property
    def can_grow(self) -> bool:
        """Return True if the claim is granted, and smaller than the job could use."""
        return self._held is not None and self._is_more(self._needs[0], self._held.claim)

    def grow(self) -> Claim | None:
        """Enlarge the claim as far as possible now; return it if it has grown.

        Raises:
            LedgerBusyError: another process has the ledger locked.
            SchedulerError, OSError: the ledger cannot be used.
        """
        if self._held is None:
            return None
        with self._ledger.lock():
            claim = self._held.claim
            others = [other for other in self._ledger.list_claims() if other.ticket != claim.ticket]
            for need in filter(lambda need: self._is_more(need, claim), self._needs):
                found = grow_claim(claim, need.memory, need.gpus, others, self._machine)
                if found:
                    self._held.update(found)
                    return found
        return None

    @staticmethod
    def _is_more(need: Need, claim: Claim) -> bool:
        larger = need.memory > claim.memory or need.gpus > claim.gpus
        return larger and need.memory >= claim.memory and need.gpus >= claim.gpus

    async def keep_alive(self) -> None:
        """Protect the claim's file from cleaners of /tmp, and restore it if it was removed. Runs until cancelled."""
        while self._held:
            try:
                if not self._held.refresh():
                    self._reopen_ledger()
                    self._restore_claim(self._held)
            except (SchedulerError, OSError, LedgerBusyError) as error:
                _log.warning("cannot refresh the job's claim in the ledger: %s", error)
            await asyncio.sleep(_REFRESH_SECONDS)

    def close(self) -> None:
        """Release the claim and close the ledger."""
        for held in (self._held, self._inherited):
            if held:
                held.withdraw()
        self._held = self._inherited = None
        self._ledger.close()

    def _on_posted(self, held: HeldClaim) -> None:
        self._pass_on(held.descriptor)

    def _restore_claim(self, lost: HeldClaim) -> None:
        # Executors cannot inherit this file: it ends with this process, but other jobs see it until then.
        with self._ledger.lock():
            self._held = self._ledger.post(lost.claim)
        self._on_posted(self._held)
        lost.withdraw()

    def _reopen_ledger(self) -> None:
        try:
            ledger = self._reopen()
        except SchedulerError as error:
            _log.warning("%s", error)
        else:
            self._ledger.close()
            self._ledger = ledger
