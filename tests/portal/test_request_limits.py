"""One user, or an unauthenticated client, overloads a portal: all other users are served all the same."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import resource
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.crowded_portal import CrowdedPortal, crowded_portal
from tests.portal.histories.test_scanner import JOBS, ended
from tests.support.hanging_store import HangingStore
from tests.support.waiting import wait_until
from tests.web.serving import served
from tony.errors import OverloadedError, RecordError, StorageError
from tony.history.job_record import read_summary, write_summary
from tony.jobs.directory.view import DirectoryJobView
from tony.linux import thread_pools
from tony.linux.thread_pools import STORES, act_for, to_thread
from tony.model.job_report import JobReport
from tony.model.job_summary import JobHead
from tony.model.state_directory import Home
from tony.model.states import JobState
from tony.portal import indexed_jobs as module
from tony.portal.access.listen_options import ListenOptions
from tony.portal.access.login_credentials import TokenFile
from tony.portal.histories.job_dir_copies import RecordCache
from tony.portal.indexed_jobs import IndexedJobs
from tony.portal.job_index.index_schema import IndexEntry
from tony.storage.stores.local_store import LocalStore
from tony.web.app import create
from tony.web.server_context import ServerContext
from tony.web.user_authentication import Authenticator

#: Seconds after which an answer that must come has not.
CEILING = 60.0
#: A user of this machine without any rights.
OTHER_USER = 12345


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CrowdedPortal]:
    """A portal in a process of its own, which may have as many open files as is usual."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, hard), hard))
    try:
        with crowded_portal(tmp_path_factory.mktemp("crowded")) as portal:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            yield portal
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_hanging_requests_of_one_user_delay_no_one_else(crowded: CrowdedPortal) -> None:
    """Neither the owner's list, nor a login, nor a list of that very user."""
    with crowded.hanging() as connections:
        assert crowded.ask("/api/v1/jobs")[0] == 200
        assert crowded.ask("/")[0] == 200
        assert crowded.ask("/api/v1/jobs", as_ben=True)[0] == 200
        content = f"token={crowded.token}"
        login = http.client.HTTPConnection("127.0.0.1", crowded.port, timeout=CEILING)
        login.request("POST", "/login", content, {"Content-Type": "application/x-www-form-urlencoded"})
        assert login.getresponse().status == 303
        login.close()
        for connection in connections:  # nothing of them was answered meanwhile
            connection.sock.setblocking(False)
            with pytest.raises(BlockingIOError):
                connection.sock.recv(1)


_SLOWLORIS = """
import resource, select, socket, sys
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(4000, hard), hard))
held = []
for number in range(1500):
    one = socket.socket()
    one.setblocking(False)
    one.connect_ex(("127.0.0.1", int(sys.argv[1])))
    held.append(one)
while held:
    poll = select.poll()
    for one in held[:64]:
        poll.register(one, select.POLLOUT)
    poll.poll(1000)
    del held[:0]
    break
print("connected", flush=True)
sys.stdin.read()
"""


def test_idle_unauthenticated_connections_do_not_block_users(crowded: CrowdedPortal) -> None:
    """1,500 of them, where the portal may have 1,024 open files unless it asks for more."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can become another user")
    become = ("setpriv", f"--reuid={OTHER_USER}", f"--regid={OTHER_USER}", "--clear-groups")
    code = (sys.executable, "-S", "-c", _SLOWLORIS, str(crowded.port))
    with subprocess.Popen([*become, *code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/") as other:
        assert other.stdout is not None
        if other.stdout.readline() != "connected\n":
            pytest.skip("another user cannot run this Python")
        for _ in range(6):
            assert crowded.ask("/api/v1/jobs")[0] == 200
        other.communicate("")


@pytest.fixture
def hanging() -> Iterator[HangingStore]:
    """A file system that lets all callers go at the end of the test."""
    store = HangingStore()
    yield store
    store.let_go()


def test_a_slow_request_is_answered_with_the_reason(
    tmp_path: Path, hanging: HangingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On pages and by the API; the third request is not even begun."""
    monkeypatch.setattr(STORES, "timeout", 0.05)
    home = Home(tmp_path)
    tokens = TokenFile(home.portal)
    portal = IndexedJobs(home, [LocalStore(home.path), hanging], "jobs of a test")
    terms = ListenOptions().build_auth_config(tokens)
    assert portal.index.claim()
    portal.index.put([IndexEntry(head=head(job), place=hanging.address, path=job) for job in JOBS[:3]])
    text, _ = tokens.make("ben")
    with contextlib.ExitStack() as stack:
        stack.callback(portal.index.close)
        port = stack.enter_context(served(create(ServerContext(portal, Authenticator(terms), login=True))))
        answers = [ask(port, text, path) for path in (f"/api/v1/jobs/{JOBS[0]}", f"/job/{JOBS[1]}")]
        answers.append(ask(port, text, f"/api/v1/jobs/{JOBS[2]}"))
        assert [status for status, _ in answers] == [503, 503, 503]
        error = json.loads(answers[0][1])["error"]
        assert error["code"] == "overloaded"
        assert "a file system on other machines could not be read within 0 s" in error["message"]
        assert "could not be read within 0 s" in answers[1][1]
        assert "2 of your earlier requests are still waiting" in json.loads(answers[2][1])["error"]["message"]
        assert ask(port, text, "/api/v1/jobs")[0] == 200
        hanging.let_go()


def ask(port: int, token: str, path: str) -> tuple[int, str]:
    """Status and text of an answer for a token's user."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=CEILING)
    connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def head(job: str) -> JobHead:
    return JobHead(
        job=job,
        name="hangs",
        state=JobState.SUCCEEDED,
        user="ben",
        scheduler="local",
        framework="none",
        tasks=1,
        submitted=1.0,
        ended=2.0,
    )


async def test_two_users_of_one_job_do_not_wait_for_each_other(tmp_path: Path) -> None:
    """Though files read for one of them serve the other: ben's own requests may hang."""
    folder = ended(Home(tmp_path), JOBS[0])
    gate = threading.Event()

    async def refuse() -> JobReport:
        raise AssertionError

    view = DirectoryJobView(folder, refuse, is_own=False)
    loop = asyncio.get_running_loop()
    with act_for("ben"):
        hanging = [loop.create_task(to_thread(gate.wait, CEILING)) for _ in range(2)]
        await asyncio.sleep(0)
        waiting = loop.create_task(view.status())
        await asyncio.sleep(0)
    try:
        with act_for("ann"):
            async with asyncio.timeout(CEILING):
                assert (await view.status()).job == JOBS[0]
        assert not any(task.done() for task in hanging)
    finally:
        gate.set()
        await asyncio.gather(*hanging, waiting)


def test_views_are_kept_by_their_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by their number: one of ten thousand tasks takes as much as hundreds of others."""
    home = Home(tmp_path / "home")
    for job in JOBS[:3]:
        folder = ended(home, job)
        report = read_summary(folder)
        assert report is not None
        write_summary(folder, report)
    monkeypatch.setattr(module, "_MAX_VIEW_BYTES", 150_000)

    async def run() -> None:
        source = IndexedJobs(home, [LocalStore(home.path)], "jobs")
        try:
            for job in JOBS[:3]:
                view = await source.find_job(job)
                assert view is not None
                await view.status()
                assert view.weight > 2 * 2000
            assert sum(each.weight for each in source._views.values()) < 150_000
            monkeypatch.setattr(module, "_MAX_VIEW_BYTES", 1)
            await source.find_job(JOBS[0])
            assert [job for _, job, _ in source._views] == [JOBS[0]]
        finally:
            await source.close()

    asyncio.run(run())


def test_an_event_log_of_another_user_is_not_read_without_end(tmp_path: Path) -> None:
    """A sparse file costs its writer nothing; its length alone is enough to refuse it."""
    folder = ended(Home(tmp_path), JOBS[0])
    with folder.events(1).open("wb") as file:
        file.truncate((1 << 30) + 1)

    async def refuse() -> JobReport:
        raise AssertionError

    view = DirectoryJobView(folder, refuse, is_own=False)
    for look in (view.read_events, view.timeline):
        with pytest.raises(RecordError, match=r"is too large: 1,024 MiB\. For jobs of other users"):
            asyncio.run(look())


async def test_waiting_for_another_users_copy_is_reported(
    tmp_path: Path, hanging: HangingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each user's threads stay free for other job directories."""
    monkeypatch.setattr(thread_pools, "_LOCK_TIMEOUT_SECONDS", 0.01)
    home = Home(tmp_path)
    source = IndexedJobs(home, [hanging], "jobs")
    assert source.index.claim()
    source.index.put([IndexEntry(head=head(job), place=hanging.address, path=job) for job in JOBS[:1]])
    loop = asyncio.get_running_loop()
    with act_for("ben"):
        copying = loop.create_task(source.find_job(JOBS[0]))
    try:
        async with asyncio.timeout(CEILING):
            await wait_until(lambda: hanging.callers)
            with act_for("ann"):
                for _ in range(3):
                    with pytest.raises(OverloadedError, match=r"is being copied for another request"):
                        await source.find_job(JOBS[0])
                assert await STORES.run(len, "ab") == 2
        assert hanging.callers == 1
    finally:
        hanging.let_go()
        with pytest.raises(StorageError):
            await copying
        await source.close()


def test_ones_own_jobs_are_not_behind_those_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another user's job costs to copy and to read has threads of its own."""
    home, shared = Home(tmp_path / "home"), Home(tmp_path / "shared")
    ended(home, JOBS[0])
    for job in JOBS[1:3]:
        ended(shared, job)
    gate = threading.Event()
    waiting: list[None] = []

    def fetch(*_: object, **__: object) -> None:
        waiting.append(None)
        gate.wait(CEILING)

    monkeypatch.setattr(RecordCache, "fetch", fetch)

    async def run() -> None:
        source = IndexedJobs(home, [LocalStore(home.path), LocalStore(shared.path)], "jobs")
        assert source.index.claim()
        source.index.put([IndexEntry(head=head(job), place=str(shared.path), path=f"jobs/{job}") for job in JOBS[1:3]])
        with act_for("ann"):
            copying = [asyncio.get_running_loop().create_task(source.find_job(job)) for job in JOBS[1:3]]
            try:
                async with asyncio.timeout(CEILING):
                    await wait_until(lambda: len(waiting) >= 2)
                    view = await source.find_job(JOBS[0])
                    assert view is not None
                    assert (await view.status()).job == JOBS[0]
                    assert not any(task.done() for task in copying)
            finally:
                gate.set()
                await asyncio.gather(*copying)
                await source.close()

    asyncio.run(run())
