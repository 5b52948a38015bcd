"""The local scheduler with stand-ins for executors, and what can be seen of it from outside."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.support.waiting import wait_until
from tony.linux import process
from tony.model.codec import from_plain
from tony.model.job_spec import JobSpec
from tony.protocol.launch import AmCredentials, LaunchContext, TaskPart
from tony.schedulers.local.allocator import LocalAllocator
from tony.schedulers.local.claims.ledger import HeldClaim, ResourceLedger, create_claim
from tony.testing import allocator_bench, container_faults
from tony.testing.sample_jobs import build_prepared_job, build_two_roles
from tony.units import parse_size

STAND_IN = Path(__file__).with_name("recording_executor.py")


class LocalBench(allocator_bench.Bench):
    """One job with a ledger of its own.

    Args:
        folder: for everything.
        spec: another job than the suite's.
        settings: of the scheduler; laid over 1g of memory and no GPUs.
    """

    def __init__(self, folder: Path, spec: JobSpec | None = None, settings: dict[str, int] | None = None) -> None:
        self.folder = folder
        self.ledger = folder / "ledger"
        self._other: HeldClaim | None = None
        values: dict[str, str | int | float | bool] = {
            "memory": parse_size("1g"),
            "gpus": 0,
            "ledger": str(self.ledger),
            **(settings or {}),
        }
        self.spec = replace(spec or build_two_roles(), scheduler_settings=values)
        self.job = build_prepared_job(folder / "home", self.spec)
        self.job_id = self.job.folder.job_id
        self.source = LocalAllocator(
            self.job, executor_command=[sys.executable, "-I", "-S", str(STAND_IN), str(folder)]
        )

    async def report(self, container: str) -> dict[str, Any]:
        path = self.folder / f"{container}.json"
        await wait_until(path.exists)
        report: dict[str, Any] = json.loads(path.read_text())
        return report

    async def fetch_payload(self, container: str) -> tuple[TaskPart, AmCredentials]:
        context = await self.context(container)
        return context.task, context.credentials

    async def context(self, container: str) -> LaunchContext:
        return from_plain(LaunchContext, (await self.report(container))["context"])

    async def is_alive(self, container: str) -> bool:
        path = self.folder / f"{container}.json"
        pids = [json.loads(path.read_text())[key] for key in ("pid", "program")] if path.exists() else []
        marked = process.with_marker(f"TONY_EXECUTOR={self.job_id}/{container}/")
        return bool(marked) or any(map(process.is_alive, pids))

    async def end_executor(self, container: str) -> None:
        os.kill((await self.report(container))["pid"], signal.SIGTERM)

    async def crash_executor(self, container: str) -> None:
        os.kill((await self.report(container))["pid"], signal.SIGKILL)

    async def read_visible_data(self, container: str) -> str:
        return json.dumps((await self.report(container))["seen"])

    async def list_leftovers(self) -> Sequence[str]:
        marked = [
            *process.with_marker(f"TONY_EXECUTOR={self.job_id}/"),
            *process.with_marker(f"TONY_TASK={self.job_id}/"),
        ]
        files = [*self.ledger.iterdir(), self.job.folder.remains]
        return [*map(str, marked), *groups_of(self.job_id), *(str(path) for path in files if path.exists())]

    async def provoke(self, fault: container_faults.Fault) -> None:
        match fault:
            case container_faults.SlowContainer():
                self._fill_machine()
            case container_faults.RefusedContainer():
                self._refuse_first()
            case container_faults.LostContainer():
                self._losing = asyncio.create_task(self._lose_first())
            case container_faults.ContainerExitsBeforeRegistering(exit_code=code):
                (self.folder / "c-1.exit").write_text(str(code))

    def make_room(self) -> None:
        if self._other:
            self._other.withdraw()

    def _fill_machine(self) -> None:
        """Another job holds all memory until the test has seen the job wait."""
        self.ledger.mkdir()
        ledger = ResourceLedger(self.ledger)
        claim = create_claim(job="other", job_name="other", memory=parse_size("1g"), gpus=0)
        with ledger.lock():
            self._other = ledger.post(replace(claim, devices=()))
        ledger.close()

    def _refuse_first(self) -> None:
        """Its working directory cannot be made."""
        self.job.folder.work.rmdir()
        self.job.folder.work.write_text("in the way")

    async def _lose_first(self) -> None:
        await self.crash_executor("c-1")


def groups_of(job_id: str) -> list[str]:
    return [str(path) for path in Path("/sys/fs/cgroup").glob(f"**/{job_id}-*")]


@asynccontextmanager
async def bench(folder: Path, ordered: Sequence[container_faults.Fault] = (), **more: Any) -> AsyncIterator[LocalBench]:
    """A bench with these faults to come, closed at the end."""
    made = LocalBench(folder, **more)
    for fault in ordered:
        await made.provoke(fault)
    try:
        yield made
    finally:
        await made.source.close()
