"""The status comes from the component that knows it, or is the last known one; no answer is never taken for an end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.facts import mentions
from tests.jobs.fake_am import JOB, FakeAm, job_of, logged, recorded, standing, succeeded
from tests.jobs.status.test_job_end import started
from tests.jobs.status.test_remote_job_sync import Elsewhere
from tests.support.waiting import wait_until
from tony import clock
from tony.cli.main import main
from tony.errors import ConnectionFailedError, InfraError
from tony.history.job_record import build_pending_report, write_summary
from tony.history.json_files import write_json
from tony.jobs.am_client import ANSWER_TIMEOUT_SECONDS
from tony.jobs.job_follower import _StatusPoller, iterate_reports
from tony.jobs.job_list import Filter, list_jobs
from tony.jobs.status import job_status
from tony.jobs.status.job_status import add_stop_hint
from tony.jobs.status.remote_job_sync import cache_report, load_cached_report
from tony.linux import process
from tony.model.state_directory import Home
from tony.model.states import JobState, TaskState
from tony.schedulers import registry


async def test_a_connection_that_breaks_because_the_job_ends(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request at this very moment gets the last report, and no error about a broken connection."""
    folder, record = recorded(home)
    async with FakeAm(folder, standing(folder, record, JobState.RUNNING, TaskState.RUNNING)) as master:

        async def cut_off(_: object) -> None:
            await master.finish(succeeded(folder, record))
            raise ConnectionFailedError("the connection broke: connection reset by peer")

        monkeypatch.setattr(job_status, "request_report", cut_off)
        assert await job_status.load_report(home, JOB) == succeeded(folder, record)


async def test_a_connection_that_breaks_twice_is_an_error(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The AM runs and cannot be reached: it is tried twice."""
    folder, record = recorded(home)
    asked: list[object] = []

    async def cut_off(it: object) -> None:
        asked.append(it)
        raise ConnectionFailedError("the connection broke")

    monkeypatch.setattr(job_status, "request_report", cut_off)
    async with FakeAm(folder, standing(folder, record, JobState.RUNNING, TaskState.RUNNING)):
        with pytest.raises(ConnectionFailedError, match="the connection broke"):
            await job_status.load_report(home, JOB)
    assert len(asked) == 2


async def test_a_job_that_is_just_submitted_is_pending(home: Home) -> None:
    """Its application master has not started yet, and is not reported as dead."""
    folder, record = recorded(home, submitted=clock.wall())
    assert await job_status.load_report(home, JOB) == build_pending_report(folder, record)
    folder.am_lock.touch()
    assert await job_status.load_report(home, JOB) == build_pending_report(folder, record)
    assert not folder.summary.exists()


async def test_a_starting_am_is_not_asked_yet(home: Home) -> None:
    """It runs, and has not logged anything: every task is pending."""
    folder, record = recorded(home)
    async with FakeAm(folder, build_pending_report(folder, record)) as master:
        folder.am.unlink()
        folder.events(1).unlink()
        assert await job_status.load_report(home, JOB) == build_pending_report(folder, record)
        assert master.asked == 0


async def test_a_master_that_is_just_ending_is_waited_for(home: Home) -> None:
    """Between the removal of its address and the summary no process can answer: the status comes with the next poll."""
    folder, record = recorded(home)
    last = succeeded(folder, record)
    async with FakeAm(folder, last):
        folder.am.unlink()
        asking = asyncio.ensure_future(job_status.load_report(home, JOB))
        await asyncio.sleep(0.05)
        assert not asking.done()
        write_summary(folder, last)
        assert await asking == last


async def test_a_dead_master_closes_the_job(home: Home) -> None:
    """The next command that reads the job writes its last report."""
    folder, record = recorded(home)
    async with FakeAm(folder, standing(folder, record, JobState.RUNNING, TaskState.RUNNING)):
        pass
    report = await job_status.load_report(home, JOB)
    assert (report.state, report.exit_code) == (JobState.FAILED, 3)
    assert report.failure is not None
    assert report.failure.cause == "am-lost"
    assert await job_status.load_report(home, JOB) == report


async def test_an_am_that_dies_during_a_request(home: Home) -> None:
    """The job is closed, and its last report is the answer."""
    folder, record = recorded(home)
    running = standing(folder, record, JobState.RUNNING, TaskState.RUNNING)
    async with FakeAm(folder, running) as master:
        master.on_message = lambda connection, message: master.hang_up()  # type: ignore[method-assign]
        asking = asyncio.ensure_future(job_status.load_report(home, JOB))
        await wait_until(lambda: master.all_connections)
        await master.die()
        report = await asking
    assert report.failure is not None
    assert report.failure.cause == "am-lost"


async def test_a_master_that_never_answers_is_an_error(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs, so the job must not be reported as ended."""
    folder, record = recorded(home)
    monkeypatch.setattr(job_status, "ANSWER_TIMEOUT_SECONDS", 0.2)
    async with FakeAm(folder, build_pending_report(folder, record)):
        folder.am.unlink()
        with pytest.raises(ConnectionFailedError, match=r"does not answer; see .*am\.log"):
            await job_status.load_report(home, JOB)
    assert not folder.summary.exists()


async def test_a_scheduler_that_is_not_installed(home: Home) -> None:
    """The job's state is unknown then, and the message says why."""
    folder, record = recorded(home)
    plain = job_of(folder)
    write_json(folder.job, {**plain, "spec": {**plain["spec"], "scheduler": "abacus"}})
    with pytest.raises(InfraError, match="scheduler 'abacus', which is not installed"):
        await job_status.load_report(home, JOB)
    del record


async def test_a_summary_needs_no_scheduler(home: Home) -> None:
    """Old jobs can be looked at for ever."""
    folder, record = recorded(home)
    last = replace(succeeded(folder, record), scheduler="abacus")
    write_summary(folder, last)
    assert await job_status.load_report(home, JOB) == last


async def test_a_log_alone_is_no_life(home: Home) -> None:
    """A new record whose application master came up and died is closed at once, not after half a minute."""
    folder, _ = recorded(home, submitted=clock.wall())
    folder.am_lock.touch()
    logged(folder, [])
    assert (await job_status.load_report(home, JOB)).state is JobState.FAILED


def test_the_cached_status_counts(home: Home) -> None:
    """Where the log here is behind, or does not know the session; an invalid one does not count."""
    folder, record = recorded(home)
    running = standing(folder, record, JobState.RUNNING, TaskState.RUNNING)
    assert load_cached_report(folder, record, fresh=False).state is JobState.SUBMITTED
    cache_report(folder, running)
    assert load_cached_report(folder, record, fresh=False).state is JobState.RUNNING
    cache_report(folder, replace(running, session=2))
    assert load_cached_report(folder, record, fresh=True).session == 2
    folder.heard.write_text("{")
    assert load_cached_report(folder, record, fresh=False).state is JobState.SUBMITTED


@pytest.mark.parametrize("is_remote", [True, False])
async def test_a_follower_caches_the_last_status(home: Home, monkeypatch: pytest.MonkeyPatch, is_remote: bool) -> None:
    """When it stops following; but nothing for a job of this machine."""
    folder, record = recorded(home)
    running = standing(folder, record, JobState.RUNNING, TaskState.RUNNING)
    submitter = Elsewhere(folder) if is_remote else registry.load_submitter(home, record)
    monkeypatch.setattr(registry, "load_submitter", lambda *_: submitter)
    async with FakeAm(folder, running), aclosing(iterate_reports(home, JOB, print)) as reports:
        await anext(reports)
        await reports.aclose()
        assert folder.heard.exists() is is_remote


@pytest.fixture
def stopped() -> Iterator[tuple[int, int]]:
    """A dead process and one that was stopped."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    with subprocess.Popen(["sleep", "600"]) as other:
        os.kill(other.pid, signal.SIGSTOP)
        yield dead.pid, other.pid
        other.kill()


async def test_a_dead_am_with_a_stopped_supervisor(
    home: Home, stopped: tuple[int, int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """This is reported at once, with what to do and the last known state; a follower prints it once."""
    folder, record = recorded(home)
    logged(folder, started())
    dead, supervisor = stopped
    await wait_until(lambda: process.is_stopped(supervisor))
    async with FakeAm(folder, standing(folder, record, JobState.RUNNING, TaskState.RUNNING)) as master:
        await master.leave()
        there = {
            "pid": dead,
            "host": socket.gethostname(),
            "attempt": 1,
            "address": f"unix:{folder.am_socket}",
        }
        write_json(folder.am, {**there, "supervisor": supervisor})
        began = clock.monotonic()
        with pytest.raises(ConnectionFailedError, match=f"is dead, .* was stopped; .*: kill -CONT {supervisor}"):
            await job_status.load_report(home, JOB)
        assert clock.monotonic() - began < ANSWER_TIMEOUT_SECONDS
        jobs = await list_jobs(home, Filter())
        assert [head.state for head in jobs.heads] == [JobState.RUNNING]
        assert "kill -CONT" in jobs.problems[0]
        told: list[str] = []
        asker = _StatusPoller(home, record, told.append)
        assert [await asker.poll(), await asker.poll(), len(told)] == [None, None, 1]
        monkeypatch.setenv("TONY_HOME", str(home.path))
        assert await asyncio.to_thread(main, ["status", JOB]) == 3
        page = capsys.readouterr()
        assert f"{JOB}  digits  running  session 1" in page.out
        assert "does not answer; showing the last known status" in page.out
        assert f"kill -CONT {supervisor}" in page.err


def test_the_hint_for_a_remote_am_that_hangs(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is replaced after a while, and the job can be killed."""
    folder, _ = recorded(home)
    silent = ConnectionFailedError("no answer from tls:far:1 within 10 s")
    assert add_stop_hint(home, JOB, silent) is silent  # of this machine: that is said elsewhere
    monkeypatch.setattr(registry, "load", lambda _: SimpleNamespace(create_submitter=lambda _: Elsewhere(folder)))
    said = str(add_stop_hint(home, JOB, silent))
    assert said.startswith(f"{silent}. User programs continue")
    assert mentions(said, f"tony kill {JOB}")
