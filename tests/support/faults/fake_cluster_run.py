"""Run a fault plan on a real AM with a fake scheduler and fake executors, in one process and one event loop.

The event log is real. Faults without a counterpart are ignored, as in the simulation. A faulty connection breaks; in a
partition it is restored when that ends.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import Protocol

from tests.support.fake_executor import PlayedExecutor
from tests.support.faults.plan import Delay, Drop, Duplicate, FaultPlan, Kill, Partition, ProcessKind, Stop, Strike
from tests.support.faults.schedule import Conductor, Injection
from tony.core.application import Application
from tony.core.events import ReconcileClosed
from tony.history.event_log import EventTail
from tony.model.exit_status import ExitReason, ExitStatus
from tony.model.layout import JobFolder
from tony.model.submission_record import JobRecord
from tony.testing.fake_scheduler import FakeSource

_KILLED = ExitStatus(reason=ExitReason.EXITED, signal="SIGKILL")
#: Seconds between two polls of the log.
_LOOK = 0.002


class FakeJob(Protocol):
    """A job with a fake scheduler and fake executors.

    Attributes:
        source: of the running AM.
        executors: container -> executor.
    """

    source: FakeSource

    @property
    def executors(self) -> Mapping[str, PlayedExecutor]:
        """Container -> executor."""

    async def die(self) -> None:
        """Kill the AM, and start the next AM attempt."""


async def carry_out(
    plan: FaultPlan, theatre: FakeJob, folder: JobFolder, record: JobRecord, tell: Callable[[Strike], None]
) -> None:
    """Inject the faults of a plan until none is left or the job has finished.

    On cancellation, undo all active faults.

    Args:
        tell: called with each injected fault.
    """
    await _Strikes(plan, theatre, folder, record, tell).run()


class _Strikes:
    def __init__(
        self, plan: FaultPlan, theatre: FakeJob, folder: JobFolder, record: JobRecord, tell: Callable[[Strike], None]
    ) -> None:
        self._plan = plan
        self._theatre = theatre
        self._tail = EventTail(folder)
        self._app = Application(record.job_id, record.spec)
        self._conductor = Conductor(plan)
        self._tell = tell
        self._away: dict[int, PlayedExecutor] = {}
        self._shaky: dict[int, tuple[PlayedExecutor, float]] = {}
        self._chance = random.Random(plan.seed)
        self._is_dead = False
        self._at = 0.0
        self._since = asyncio.get_running_loop().time()

    async def run(self) -> None:
        try:
            while not self._app.state.job.ended and (not self._conductor.is_done or self._away or self._shaky):
                for entry in self._tail.new():
                    self._app.handle(entry.event, entry.at)
                    self._at, self._since = entry.at, asyncio.get_running_loop().time()
                    self._conductor.saw(entry.seq, entry.at, entry.event, self._app.state)
                    self._shake()
                    self._is_dead = self._is_dead and not isinstance(entry.event, ReconcileClosed)
                    await self._strike_due()
                await self._strike_due()
                await asyncio.sleep(_LOOK)
        finally:
            for number in [*self._away, *self._shaky]:
                self._undo(number)

    async def _strike_due(self) -> None:
        now = self._at + asyncio.get_running_loop().time() - self._since
        while not self._is_dead and (blow := next(self._conductor.due(now, self._app.state), None)):
            if blow.over:
                self._undo(blow.number)
            elif blow.target.part is ProcessKind.MASTER:
                if isinstance(blow.strike.harm, Kill):
                    self._tell(blow.strike)
                    self._is_dead = True  # until the next AM attempt has started
                    await self._theatre.die()
            elif executor := self._executor(blow):
                self._tell(blow.strike)
                await self._begin(blow, executor)
            else:
                self._conductor.again(blow, now + 2 * _LOOK)

    async def _begin(self, blow: Injection, executor: PlayedExecutor) -> None:
        match blow.strike.harm, blow.target.part:
            case Kill(), ProcessKind.PROGRAM:
                executor.exit(_KILLED)
            case Kill(), ProcessKind.EXECUTOR:
                await executor.die()
                self._theatre.source.end(executor.part.container, "its executor was killed by SIGKILL")
            case ((Stop() | Partition()), ProcessKind.EXECUTOR) | (Drop(share=1.0), _):
                self._away[blow.number] = executor
                executor.away = True
                executor.break_connection()
            case ((Drop(share=share) | Delay(share=share) | Duplicate(share=share)), _):
                self._shaky[blow.number] = executor, share

    def _shake(self) -> None:
        """Break some of the faulty connections at random."""
        for executor, share in self._shaky.values():
            if self._chance.random() < share:
                executor.break_connection()

    def _undo(self, number: int) -> None:
        self._shaky.pop(number, None)
        executor = self._away.pop(number, None)
        if executor and executor not in self._away.values():
            executor.away = False

    def _executor(self, blow: Injection) -> PlayedExecutor | None:
        task = self._app.state.tasks.get(blow.target.task) if blow.target.task else None
        executor = self._theatre.executors.get(task.container) if task and task.container else None
        if executor is None or executor.ended:
            return None
        return executor if blow.target.part is not ProcessKind.PROGRAM or executor.runs else None
