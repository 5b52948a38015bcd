"""The portal as pages see it: many jobs, living and ended, here and elsewhere."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.jobs.fake_am import JOB, FakeAm, logged, recorded, running, succeeded
from tests.portal import legacy_histories
from tests.portal.histories.test_scanner import JOBS, ended
from tony import clock
from tony.core.events import AttemptStarted, Event, Granted, SessionOpened
from tony.history.event_log import settings_digest
from tony.history.job_record import write_summary
from tony.model.job_query import JobsPage, Query
from tony.model.state_directory import Home
from tony.model.states import JobState
from tony.portal.histories.history_locations import describe_absences, open_location
from tony.portal.indexed_jobs import IndexedJobs
from tony.storage.stores.fsspec_store import FsspecStore
from tony.storage.stores.store_interface import FileStore

#: Seconds that anything may take on a busy machine.
CEILING = 60.0


@asynccontextmanager
async def portal(home: Home, *locations: str | Path) -> AsyncIterator[IndexedJobs]:
    stores = [opened(str(each), home) for each in locations]
    made = IndexedJobs(home, stores, "jobs of a test")
    await made.start()
    try:
        yield made
    finally:
        await made.close()


def opened(location: str, home: Home) -> FileStore:
    """A location; the file system in memory is one for tests only."""
    return FsspecStore(location) if location.startswith("memory:") else open_location(location, home, os.environ)


async def until(source: IndexedJobs, holds: Callable[[JobsPage], bool], query: Query = Query()) -> JobsPage:  # noqa: B008
    """The page for which it holds, as soon as it does."""
    async with asyncio.timeout(CEILING):
        while not holds(page := await source.list_jobs(query)):
            await asyncio.sleep(0.02)
    return page


async def test_ones_own_home(tmp_path: Path) -> None:
    """Ended jobs are found with all that they have; what is not there is not."""
    home = Home(tmp_path)
    for job in JOBS[:3]:
        ended(home, job)
    async with portal(home, home.path) as source:
        await until(source, lambda page: len(page.heads) == 3 == page.total)
        await until(source, lambda page: page.problems == ())
        view = await source.find_job(JOBS[0])
        assert view is not None
        assert not view.live
        assert (await view.status()).state is JobState.SUCCEEDED
        record = await view.record()
        assert record is not None
        assert record.spec.name == "digits"
        assert await source.find_job("no-such-job") is None
        assert await source.find_job("../../etc") is None


async def test_a_users_own_job_appears_and_ends(tmp_path: Path) -> None:
    """It appears by itself, with the status of its AM, and ends."""
    home = Home(tmp_path)
    async with portal(home, home.path) as source:
        await until(source, lambda page: page.problems == ())
        folder, record = recorded(home, submitted=clock.wall())
        began = clock.monotonic()
        await until(source, lambda page: len(page.heads) == 1)
        appeared = clock.monotonic() - began
        view = await source.find_job(JOB)
        assert view is not None
        assert view.live
        async with FakeAm(folder, running(folder, record)):
            await until(source, lambda page: page.heads[0].state is JobState.RUNNING)
            assert (await view.status()).state is JobState.RUNNING
        write_summary(folder, replace(succeeded(folder, record), ended=clock.wall()))
        await until(source, lambda page: page.heads[0].state is JobState.SUCCEEDED)
        assert appeared < CEILING


async def test_ams_of_other_users_are_not_asked(tmp_path: Path) -> None:
    """The status comes from their logs; their AMs get no request, and none of their files is written."""
    home, other = Home(tmp_path / "mine"), Home(tmp_path / "theirs")
    home.path.mkdir()
    folder, record = recorded(other)
    digest = settings_digest(record.spec)
    events: list[Event] = [
        AttemptStarted(attempt=1, wall=record.submitted, settings=digest),
        SessionOpened(session=1, reason="begun"),
        Granted(container="c-1", role="worker", host="there"),
    ]
    logged(folder, events)
    before = {path.name: path.stat().st_mtime_ns for path in folder.path.iterdir()}
    async with portal(home, other.path) as source:
        await until(source, lambda page: len(page.heads) == 1 and page.heads[0].state is JobState.STARTING)
        view = await source.find_job(JOB)
        assert view is not None
        report = await view.status()
        assert (report.state, report.tasks[0].host) == (JobState.STARTING, "there")
    assert {path.name: path.stat().st_mtime_ns for path in folder.path.iterdir()} == before


async def test_a_record_in_a_store(tmp_path: Path) -> None:
    """It is brought here to be looked at, its logs too."""
    home, other = Home(tmp_path / "mine"), Home(tmp_path / "theirs")
    home.path.mkdir()
    address = f"memory://history-{uuid.uuid4()}"
    folder = ended(other, JOB)
    logged(folder, [SessionOpened(session=1, reason="begun")])
    folder.logs.mkdir(exist_ok=True)
    (folder.logs / "worker-0.s1.t1.out").write_text("hello\n")
    put(opened(address, home), folder.path, f"2023/11/14/{JOB}")
    async with portal(home, address) as source:
        await until(source, lambda page: len(page.heads) == 1)
        view = await source.find_job(JOB)
        assert view is not None
        report = await view.status()
        assert (report.state, report.folder.startswith(str(home.path))) == (JobState.SUCCEEDED, True)
        assert [entry.event.kind for entry in await view.read_events()] == ["session-opened"]
        (log,) = await view.task_logs("worker:0").files()
        assert (await view.task_logs("worker:0").read(log.name, 0, 100)).data == b"hello\n"


async def test_logs_in_a_store_are_fetched_on_demand(tmp_path: Path) -> None:
    """A page of a job fetches only a few small ones: the output of its tasks may be terabytes."""
    home, other = Home(tmp_path / "mine"), Home(tmp_path / "theirs")
    home.path.mkdir()
    address = f"memory://history-{uuid.uuid4()}"

    def here() -> set[str]:
        return {path.name for path in home.path.rglob("worker-*")}

    folder = ended(other, JOB)
    folder.logs.mkdir(exist_ok=True)
    for number in range(40):
        (folder.logs / f"worker-{number}.s1.t1.out").write_bytes(b"x" * (1 + number))
    for name in ("worker-1.s2.t1.out", "worker-1.s2.t1.out.1", "worker-1.s2.t1.err", "worker-10.s2.t1.out"):
        (folder.logs / name).write_bytes(b"y" * (6 << 20))
    put(opened(address, home), folder.path, f"2023/11/14/{JOB}")
    async with portal(home, address) as source:
        await until(source, lambda page: len(page.heads) == 1)
        view = await source.find_job(JOB)
        assert view is not None
        await view.status()
        assert here() == {f"worker-{number}.s1.t1.out" for number in range(20)}
        files = await view.task_logs("worker:1").files()
        assert [(file.name, file.size) for file in files] == [
            ("worker-1.s1.t1.out", 2),
            ("worker-1.s2.t1.out", 12 << 20),
            ("worker-1.s2.t1.err", 6 << 20),
        ]
        assert (await view.task_logs("worker:39").read("worker-39.s1.t1.out", 0, 3)).data == b"xxx"
        assert "worker-10.s2.t1.out" not in here()


def put(store: FileStore, folder: Path, path: str) -> None:
    for file in folder.rglob("*"):
        if file.is_file() and "secret" not in file.parts:
            store.write(f"{path}/{file.relative_to(folder)}", file)


async def test_one_of_the_original(tmp_path: Path) -> None:
    """It has a page as any other job: report, settings, events and timeline."""
    home = Home(tmp_path / "mine")
    home.path.mkdir()
    legacy_histories.lay_down(
        tmp_path / "history/finished/2018/06/05" / legacy_histories.APP,
        legacy_histories.whole(),
        legacy_histories.ended_name(),
    )
    runs = "application_1528151234567_0008"
    name = f"{runs}-{legacy_histories.BEGAN}-bo.jhist.inprogress"
    legacy_histories.lay_down(tmp_path / "history/intermediate" / runs, legacy_histories.whole()[:4], name)
    async with portal(home, tmp_path / "history") as source:
        page = await until(source, lambda page: len(page.heads) == 2)
        assert {head.tags for head in page.heads} == {("ads", "nightly")}
        living = await source.find_job(runs)
        assert living is not None
        assert living.live
        assert (await living.status()).state is JobState.RUNNING
        view = await source.find_job(legacy_histories.APP)
        assert view is not None
        assert not view.live
        report, record = await view.status(), await view.record()
        assert (report.name, report.state) == ("ctr <b>model", JobState.SUCCEEDED)
        assert record is not None
        assert record.spec.params["tony.worker.memory"] == "4g"
        line = await view.timeline()
        assert line is not None
        assert {span.task for span in line.spans} == {"ps:0", "worker:0", "worker:1"}
        assert len(await view.read_events()) > 10


async def test_a_location_that_is_not_there(tmp_path: Path) -> None:
    """It has no jobs, and the others are shown."""
    home = Home(tmp_path)
    ended(home, JOBS[0])
    async with portal(home, home.path, tmp_path / "nowhere", f"memory://{uuid.uuid4()}") as source:
        await until(source, lambda page: len(page.heads) == 1 and page.problems == ())


async def test_a_second_portal_reads(tmp_path: Path) -> None:
    """Two of one user share an index; when the first one ends, the second one continues with it."""
    home = Home(tmp_path)
    ended(home, JOBS[0])
    async with portal(home, home.path) as first:
        await until(first, lambda page: len(page.heads) == 1)
        async with portal(home, home.path) as second:
            await until(second, lambda page: len(page.heads) == 1)
            await first.close()
            ended(home, JOBS[1])
            await until(second, lambda page: len(page.heads) == 2)


async def test_portals_of_other_locations_have_jobs_of_their_own(tmp_path: Path) -> None:
    """At once or one after the other: none shows what it cannot open, and each is filled."""
    mine, theirs, both = Home(tmp_path / "mine"), Home(tmp_path / "theirs"), {JOBS[0], JOBS[1]}

    async def shown(source: IndexedJobs, jobs: set[str]) -> None:
        page = await until(source, lambda page: len(page.heads) == len(jobs) and not page.problems)
        assert {head.job for head in page.heads} == jobs
        for job in both:
            assert (await source.find_job(job) is not None) is (job in jobs)

    ended(mine, JOBS[0])
    ended(theirs, JOBS[1])
    async with portal(mine, mine.path) as first, portal(mine, theirs.path) as second:
        await shown(first, {JOBS[0]})
        await shown(second, {JOBS[1]})
    async with portal(mine, theirs.path, mine.path) as source:
        await shown(source, both)
    async with portal(mine, mine.path) as source:
        await shown(source, {JOBS[0]})


async def test_a_lost_index_is_filled_again(tmp_path: Path) -> None:
    home = Home(tmp_path)
    ended(home, JOBS[0])
    async with portal(home, home.path) as source:
        await until(source, lambda page: len(page.heads) == 1)
        source.index.path.unlink()
        ended(home, JOBS[1])
        await until(source, lambda page: len(page.heads) == 2)


@pytest.mark.parametrize("scheme", ["", "file://", "FILE://", "local://"])
def test_a_folder_of_this_machine(tmp_path: Path, scheme: str) -> None:
    """However it is called, it is one in which no link is followed."""
    assert open_location(f"{scheme}{tmp_path}", Home(tmp_path), {}).local == tmp_path


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    """It may be created later; until then a notice says that it is absent."""
    stores = [open_location(str(folder), Home(tmp_path), {}) for folder in (tmp_path, tmp_path / "typo")]
    (sentence,) = describe_absences(stores)
    assert sentence.startswith(f"folder {tmp_path / 'typo'} does not exist yet")


@pytest.mark.parametrize("text", ["", "hdfs://", "nothing://x", __file__])
def test_invalid_locations_are_refused(tmp_path: Path, text: str) -> None:
    from tony.errors import TonyError

    with pytest.raises(TonyError):
        open_location(text, Home(tmp_path), {})
