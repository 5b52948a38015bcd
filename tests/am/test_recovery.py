"""An application master obeys what was asked before it answered, and while it was suspended."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tony.am import recovery
from tony.am.recovery import apply_stored_kill_requests
from tony.core.events import Event, KillRequested
from tony.history.job_record import KillRequest, save_kill_request
from tony.model.actor import Actor
from tony.model.state_directory import JobFolder
from tony.testing.allocator_bench import TIMEOUT_SECONDS


async def test_a_stored_request_is_handled_first(tmp_path: Path) -> None:
    """Before later events of the loop, and once."""
    folder = JobFolder(tmp_path)
    save_kill_request(folder, KillRequest(actor="ann"))
    heard: list[Event] = []
    obeying = asyncio.ensure_future(apply_stored_kill_requests(folder, heard.append))
    await asyncio.sleep(0)
    assert heard == [KillRequested(actor=Actor("ann"))]
    obeying.cancel()


def test_a_later_request_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once as a request to stop, and once more as one to kill at once."""
    monkeypatch.setattr(recovery, "_POLL_SECONDS", 0.01)
    asyncio.run(_later(JobFolder(tmp_path)))


async def _later(folder: JobFolder) -> None:
    heard: list[Event] = []
    obeying = asyncio.ensure_future(apply_stored_kill_requests(folder, heard.append))
    await asyncio.sleep(0.02)
    folder.kill_request.write_text("{")
    for count, now in ((1, False), (2, True)):
        save_kill_request(folder, KillRequest(actor="ann", now=now))
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while len(heard) < count:
                await asyncio.sleep(0.005)
    await asyncio.sleep(0.05)
    assert heard == [KillRequested(actor=Actor("ann")), KillRequested(actor=Actor("ann"), now=True)]
    obeying.cancel()
