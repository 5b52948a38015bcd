"""A job is ended by asking its application master, once it can be asked."""

from __future__ import annotations

import asyncio
import getpass

import pytest

from tests.jobs.fake_am import JOB, FakeAm, recorded, standing, succeeded
from tests.support.waiting import wait_until
from tony import clock
from tony.errors import ConnectionFailedError
from tony.history.job_record import KillRequest, build_pending_report, load_kill_request
from tony.jobs import actions
from tony.jobs.actions import kill
from tony.jobs.state_dir import get_user_name
from tony.model.state_directory import Home, JobFolder
from tony.model.states import JobState, TaskState
from tony.schedulers.client_interface import Submitter


async def test_a_kill_waits_for_a_starting_am(home: Home) -> None:
    folder, record = recorded(home, submitted=clock.wall())
    asking = asyncio.ensure_future(kill(home, JOB))
    await asyncio.sleep(0.02)
    async with FakeAm(folder, build_pending_report(folder, record)) as master:
        await asking
        assert master.kills or load_kill_request(folder)  # it may have been found between its lock and its first word


async def test_a_kill_times_out_without_an_am(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The waiting has an end, and is no success."""
    recorded(home, submitted=clock.wall())
    monkeypatch.setattr(actions, "ANSWER_TIMEOUT_SECONDS", 0.1)
    with pytest.raises(ConnectionFailedError, match="has no running application master"):
        await kill(home, JOB)


async def test_a_master_that_hangs(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says how to end it all the same."""
    folder, record = recorded(home)
    running = standing(folder, record, JobState.RUNNING, TaskState.RUNNING)

    async def deaf(*_: object) -> None:
        raise ConnectionFailedError("no answer")

    monkeypatch.setattr(actions, "send_command", deaf)
    async with FakeAm(folder, running):
        with pytest.raises(
            ConnectionFailedError, match=r"no answer\. If it hangs, kill it with `kill -9 \d+` on here;"
        ):
            await kill(home, JOB)


async def test_a_job_that_ends_at_this_very_moment(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection breaks because the job has ended: that is the answer."""
    folder, record = recorded(home)
    running = standing(folder, record, JobState.RUNNING, TaskState.RUNNING)
    async with FakeAm(folder, running) as master:

        async def cut_off(*_: object) -> None:
            await master.finish(succeeded(folder, record))
            raise ConnectionFailedError("the connection broke: connection reset by peer")

        monkeypatch.setattr(actions, "send_command", cut_off)
        assert await kill(home, JOB) == succeeded(folder, record)


def test_a_user_without_a_name_has_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers run under numbers that no password file knows."""
    monkeypatch.setattr(getpass, "getuser", lambda: (_ for _ in ()).throw(KeyError("uid not found")))
    assert get_user_name().startswith("uid ")


async def test_a_gap_between_two_masters(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The supervisor lives and no AM answers: the kill request is saved, and the next AM reads it; it is not sent
    again."""
    monkeypatch.setattr(actions, "_ANSWER_SECONDS", 0.05)
    folder, record = recorded(home)
    running = standing(folder, record, JobState.RUNNING, TaskState.RUNNING)
    async with FakeAm(folder, running) as master:
        await master.leave()
        asking = asyncio.ensure_future(kill(home, JOB, now=True))
        await wait_until(folder.kill_request.exists)
        assert load_kill_request(folder) == KillRequest(actor=get_user_name(), now=True)
        await master.listen()
        assert await asking == running
        assert master.kills == []


async def test_a_gap_that_does_not_end(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client stops the programs itself; the saved kill request stays for a later AM."""
    monkeypatch.setattr(actions, "_ANSWER_SECONDS", 0.02)
    monkeypatch.setattr(actions, "_START_SECONDS", 0.02)
    swept: list[str] = []

    async def withdraw(self: object, folder: JobFolder, reason: str) -> None:
        swept.append(reason)

    monkeypatch.setattr(Submitter, "withdraw", withdraw)
    folder, record = recorded(home)
    async with FakeAm(folder, standing(folder, record, JobState.RUNNING, TaskState.RUNNING)) as master:
        await master.leave()
        report = await kill(home, JOB)
    assert not report.state.ended
    assert swept == [f"killed by {get_user_name()}"]
    assert load_kill_request(folder) == KillRequest(actor=get_user_name())


async def test_an_am_that_dies_during_a_kill_request(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job directory is closed with the state killed."""
    monkeypatch.setattr(actions, "_ANSWER_SECONDS", 0.02)
    folder, record = recorded(home)
    async with FakeAm(folder, standing(folder, record, JobState.RUNNING, TaskState.RUNNING)) as master:
        await master.leave()
        asking = asyncio.ensure_future(kill(home, JOB))
        await wait_until(folder.kill_request.exists)
    report = await asking
    assert (report.state, report.exit_code) == (JobState.KILLED, 4)
    assert report.failure is not None
    assert report.failure.reason == f"killed by {get_user_name()}"
    assert not folder.kill_request.exists()
