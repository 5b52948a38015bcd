"""The last known status of a job is kept, and shown where its AM does not answer."""

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
from tests.jobs.fake_am import JOB, FakeAm, logged, recorded, standing
from tests.jobs.remote.test_remote_job_sync import Elsewhere
from tests.jobs.status.test_job_end import started
from tests.support.waiting import wait_until
from tony import clock
from tony.cli.main import main
from tony.errors import ConnectionFailedError
from tony.history.json_files import write_json
from tony.jobs.am_client import ANSWER_TIMEOUT_SECONDS
from tony.jobs.job_follower import _StatusPoller, iterate_reports
from tony.jobs.job_list import Filter, list_jobs
from tony.jobs.status import job_status
from tony.jobs.status.cached_status import add_stop_hint, cache_report, load_cached_report
from tony.linux import process
from tony.model.layout import Home
from tony.model.states import JobState, TaskState
from tony.schedulers import registry


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
