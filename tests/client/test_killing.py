"""A job is ended by asking its application master, once it can be asked."""

from __future__ import annotations

import asyncio
import getpass

import pytest

from tests.client.played_master import JOB, PlayedMaster, recorded, standing, succeeded
from tony import clock
from tony.client import killing
from tony.client.killing import kill
from tony.client.user import user_name
from tony.errors import ConnectionFailed, UnknownJobError
from tony.history.record import pending_report, write_summary
from tony.model.layout import Home
from tony.model.states import JobState, TaskState
from tony.protocol.messages import KillJob


@pytest.mark.parametrize("now", [False, True])
async def test_a_running_job(home: Home, now: bool) -> None:
    """The master learns who asked, and whether programs get their grace; the answer is how the job stood."""
    folder, record = recorded(home)
    running = standing(folder, record, JobState.RUNNING, TaskState.RUNNING)
    async with PlayedMaster(folder, running) as master:
        assert await kill(home, JOB, now=now) == running
        assert master.kills == [KillJob(actor=getpass.getuser(), now=now)]


async def test_a_job_that_has_ended(home: Home) -> None:
    """It is left as it is."""
    folder, record = recorded(home)
    write_summary(folder, succeeded(folder, record))
    assert await kill(home, JOB) == succeeded(folder, record)


async def test_a_job_that_is_coming_up(home: Home) -> None:
    """Its master is waited for."""
    folder, record = recorded(home, submitted=clock.wall())
    asking = asyncio.ensure_future(kill(home, JOB))
    await asyncio.sleep(0.02)
    async with PlayedMaster(folder, pending_report(folder, record)) as master:
        await asking
        assert len(master.kills) == 1


async def test_a_job_that_never_comes_up(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The waiting has an end, and is no success."""
    recorded(home, submitted=clock.wall())
    monkeypatch.setattr(killing, "PATIENCE", 0.1)
    with pytest.raises(ConnectionFailed, match="has no application master that could be asked"):
        await kill(home, JOB)


async def test_a_master_that_hangs(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says how to end it all the same."""
    folder, record = recorded(home)
    running = standing(folder, record, JobState.RUNNING, TaskState.RUNNING)

    async def deaf(*_: object) -> None:
        raise ConnectionFailed("no answer")

    monkeypatch.setattr(killing, "tell_kill", deaf)
    async with PlayedMaster(folder, running):
        with pytest.raises(ConnectionFailed, match=r"no answer\. If it hangs, end it with `kill -9 \d+` on here;"):
            await kill(home, JOB)


async def test_a_job_that_ends_at_this_very_moment(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection breaks because nobody is left to kill: that is the answer."""
    folder, record = recorded(home)
    running = standing(folder, record, JobState.RUNNING, TaskState.RUNNING)
    async with PlayedMaster(folder, running) as master:

        async def cut_off(*_: object) -> None:
            await master.finish(succeeded(folder, record))
            raise ConnectionFailed("the connection broke: connection reset by peer")

        monkeypatch.setattr(killing, "tell_kill", cut_off)
        assert await kill(home, JOB) == succeeded(folder, record)


async def test_no_such_job(home: Home) -> None:
    """It is said."""
    with pytest.raises(UnknownJobError):
        await kill(home, "x")


def test_a_user_without_a_name_has_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers run under numbers that no password file knows."""
    monkeypatch.setattr(getpass, "getuser", lambda: (_ for _ in ()).throw(KeyError("uid not found")))
    assert user_name().startswith("uid ")
