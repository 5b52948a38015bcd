"""Asking a living application master: an answer, or an error that says why there is none."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from pathlib import Path

import pytest

from tests.jobs.fake_am import FakeAm, recorded, running
from tests.jobs.recording_scheduler import Desk
from tony.errors import ConnectionFailedError, RecordError, StorageError
from tony.history.json_files import write_json
from tony.jobs import am_client
from tony.jobs.am_client import AmLocation, locate_am, request_report, send_command, watch
from tony.model.state_directory import Home, JobFolder
from tony.model.submission_record import JobRecord
from tony.protocol.client_messages import KillJob, Report
from tony.protocol.message_base import Message
from tony.rpc.connection import RpcConnection
from tony.schedulers import registry
from tony.schedulers.client_interface import Scheduler


@pytest.fixture
def job(home: Home) -> tuple[JobFolder, JobRecord]:
    return recorded(home)


async def test_a_question_is_answered(job: tuple[JobFolder, JobRecord]) -> None:
    """A report, a kill, a stream of reports."""
    folder, _ = job
    async with FakeAm(folder, running(*job)) as am:
        assert await request_report(folder) == running(*job)
        await send_command(folder, KillJob(actor="ann", now=True))
        assert am.kills == [KillJob(actor="ann", now=True)]
        am.on_kill = lambda message: None
        seen: list[Report] = []
        async for message in watch(folder):
            seen.append(message)
            am.change(running(*job), final=True)
            if message.final:
                await am.die()
        assert [message.final for message in seen] == [False, True]


async def test_a_scheduler_connects_its_clients(
    job: tuple[JobFolder, JobRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the address of an AM leads nowhere from here; one that is not installed is named."""
    folder, _ = job
    dialed: list[str] = []

    class Dialing(Desk):
        async def dial(self, folder: JobFolder, address: str) -> socket.socket:
            dialed.append(address)
            connected = socket.socket(socket.AF_UNIX)
            connected.setblocking(False)
            await asyncio.get_running_loop().sock_connect(connected, str(folder.am_socket))
            return connected

    class Distant(Scheduler):
        def create_submitter(self, home: Home) -> Dialing:
            return Dialing()

    async with FakeAm(folder, running(*job)):
        there = {**json.loads(folder.am.read_text()), "address": "unix:/nowhere", "dialed_by": "distant"}
        write_json(folder.am, there)
        with pytest.raises(ConnectionFailedError, match="distant"):
            await request_report(folder)
        monkeypatch.setattr(registry, "load", lambda name: Distant())
        assert await request_report(folder) == running(*job)
    assert dialed == ["unix:/nowhere"]


async def test_no_am(job: tuple[JobFolder, JobRecord]) -> None:
    """Before it has started, and after it has exited."""
    folder, _ = job
    with pytest.raises(ConnectionFailedError) as caught:
        await request_report(folder)
    assert caught.value.no_listener
    write_json(folder.am, {"pid": 1, "host": "h", "attempt": 1, "address": "unix:/x"})
    folder.credentials.unlink()
    with pytest.raises(ConnectionFailedError) as caught:
        await request_report(folder)
    assert caught.value.no_listener


async def test_credentials_behind_a_link_are_not_used(job: tuple[JobFolder, JobRecord], tmp_path: Path) -> None:
    """Another user could have made it, to have another job's application master called."""
    folder, _ = job
    async with FakeAm(folder, running(*job)):
        folder.secret.rename(tmp_path / "secret")
        folder.secret.symlink_to(tmp_path / "secret")
        with pytest.raises(ConnectionFailedError) as caught:
            await request_report(folder)
        assert caught.value.no_listener


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
async def test_credentials_of_another_user_are_not_used(job: tuple[JobFolder, JobRecord]) -> None:
    folder, _ = job
    async with FakeAm(folder, running(*job)):
        for path in (folder.am, folder.credentials, folder.secret):
            os.chown(path, 54321, 54321)
            with pytest.raises(StorageError, match="belongs to another user"):
                await request_report(folder)
            os.chown(path, 0, 0)
        assert await request_report(folder) == running(*job)


@pytest.mark.parametrize("address", ["nowhere", "tls:127.0.0.1:9"])
async def test_an_address_that_makes_no_sense(job: tuple[JobFolder, JobRecord], address: str) -> None:
    """Or one that the credentials are not for."""
    folder, _ = job
    write_json(folder.am, {"pid": 1, "host": "h", "attempt": 1, "address": address})
    with pytest.raises(RecordError, match="do not match"):
        await request_report(folder)


async def test_an_address_without_a_listener(job: tuple[JobFolder, JobRecord]) -> None:
    folder, _ = job
    async with FakeAm(folder, running(*job)):
        pass
    with pytest.raises(ConnectionFailedError) as caught:
        await request_report(folder)
    assert caught.value.no_listener


async def test_one_that_does_not_answer(job: tuple[JobFolder, JobRecord], monkeypatch: pytest.MonkeyPatch) -> None:
    """The request times out; it is not concluded that the AM is dead."""
    folder, _ = job
    monkeypatch.setattr(am_client, "ANSWER_TIMEOUT_SECONDS", 0.1)

    class Deaf(FakeAm):
        def on_message(self, connection: RpcConnection, message: Message) -> None:
            return

    async with Deaf(folder, running(*job)):
        with pytest.raises(ConnectionFailedError, match=r"answer within 0\.1 s") as caught:
            await request_report(folder)
    assert not caught.value.no_listener


async def test_one_that_hangs_up(job: tuple[JobFolder, JobRecord]) -> None:
    """It is asked again: perhaps it is ending."""
    folder, _ = job

    class Rude(FakeAm):
        def on_message(self, connection: RpcConnection, message: Message) -> None:
            connection.close()

    async with Rude(folder, running(*job)):
        with pytest.raises(ConnectionFailedError, match="without an answer") as caught:
            await request_report(folder)
    assert caught.value.no_listener


def test_where_it_is(job: tuple[JobFolder, JobRecord]) -> None:
    """What it wrote down; a newer one may have written more."""
    folder, _ = job
    assert locate_am(folder) is None
    there = {"pid": 1, "host": "h", "attempt": 1, "address": "unix:/x"}
    write_json(folder.am, {**there, "colour": "blue"})
    assert locate_am(folder) == AmLocation(pid=1, host="h", attempt=1, address="unix:/x")
    write_json(folder.am, {"pid": "one"})
    with pytest.raises(RecordError, match=r"am\.json is invalid"):
        locate_am(folder)


async def test_damaged_credentials(job: tuple[JobFolder, JobRecord]) -> None:
    folder, _ = job
    async with FakeAm(folder, running(*job)):
        write_json(folder.credentials, {"am": {"token": "hush"}})
        with pytest.raises(RecordError) as caught:
            await request_report(folder)
    assert "hush" not in str(caught.value)
