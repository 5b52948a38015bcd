"""Files on other machines are fetched when a page needs them: once, with a short wait, and what is missing is
reported."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.jobs.fake_am import logged, recorded, running, succeeded
from tests.jobs.remote.test_log_fetcher import Far as Scheduler
from tests.jobs.remote.test_log_fetcher import FarScheduler, RemoteJob, TalkingMaster, read
from tests.support.waiting import wait_until
from tony.core.events import Granted
from tony.errors import RecordError, SchedulerError, StorageError
from tony.history.job_record import write_summary
from tony.history.json_files import write_json
from tony.history.metrics_reader import Metrics
from tony.history.metrics_schema import TaskMetricsUpdate
from tony.history.metrics_writer import MetricsWriter
from tony.jobs.directory.shown_files import ShownFiles
from tony.jobs.directory.view import DirectoryJobView
from tony.jobs.remote import remote_job_files as far_module
from tony.jobs.remote import scheduler_logs
from tony.jobs.remote.remote_job_files import RemoteJobFiles
from tony.model.codec import to_plain
from tony.model.log_file_tail import LogFileTail
from tony.model.metric_definitions import Points
from tony.model.progress import Progress
from tony.model.state_directory import Home, JobFolder
from tony.model.submission_record import LINKEDIN_TONY
from tony.model.web_link import WebLink
from tony.schedulers import registry
from tony.schedulers.client_interface import LogSink

OUT = "worker-0.s1.t1.out"


@pytest.fixture
def remote_job(home: Home, monkeypatch: pytest.MonkeyPatch) -> RemoteJob:
    """A recorded job that went far away; what fails may be tried again at once."""
    FarScheduler.theirs = Scheduler()
    monkeypatch.setitem(registry._BUILT_IN, "far", "tests.jobs.remote.test_log_fetcher:FarScheduler")
    monkeypatch.setattr(far_module, "_REPEAT_SECONDS", 0.0)
    monkeypatch.setattr(far_module, "_FRESH_SECONDS", 0.0)
    folder, record = recorded(home)
    record = replace(record, spec=replace(record.spec, scheduler="far"))
    write_json(folder.job, to_plain(record))
    return folder, record, FarScheduler.theirs


async def test_less_is_read_of_records_of_other_users(remote_job: RemoteJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner is requested: so it is not of our own state directory."""
    folder, _, _ = remote_job
    monkeypatch.setattr("tony.history.job_record.MAX_FOREIGN_TASKS", 1)

    async def owner() -> str:
        raise AssertionError

    with pytest.raises(RecordError, match="for jobs of other users"):
        await RemoteJobFiles(Home(folder.path.parent.parent), folder, owner).find_links()


async def test_output_of_a_job_that_has_ended(home: Home, remote_job: RemoteJob) -> None:
    """It is requested until it is here, task by task, and then no more."""
    folder, record, scheduler = remote_job
    write_summary(folder, succeeded(folder, record))
    logged(folder, [Granted(container="c1", role="worker", host="h1")])
    far = RemoteJobFiles(home, folder)
    scheduler.error = SchedulerError("no daemon\nanswers")
    assert await far.fetch_output("worker:0") == "some output may be missing: no daemon answers"
    scheduler.error = None
    scheduler.shows = {OUT: (b"", b"printed"), "worker-1.s1.t1.out": (b"", b"not wanted")}
    assert await far.fetch_output("worker:0") == ""
    assert (read(folder, OUT), read(folder, "worker-1.s1.t1.out")) == (b"printed", b"")
    assert await far.fetch_output("worker:0") == ""
    assert await RemoteJobFiles(home, folder).fetch_output("worker:0") == ""
    assert scheduler.asked == [{"c1": "h1"}] * 2
    assert scheduler.owners == [""] * 2


async def test_output_of_which_only_the_end_was_kept_is_incomplete(home: Home, remote_job: RemoteJob) -> None:
    """Each time it is shown, although it is not fetched again."""
    folder, record, scheduler = remote_job
    write_summary(folder, succeeded(folder, record))
    logged(folder, [])
    scheduler.tails = [LogFileTail(name=OUT, offset=2048, data=b"the end")]
    for _ in range(2):
        missing = await RemoteJobFiles(home, folder).fetch_output("worker:0")
        assert missing == f"2 KiB before the last 7 bytes of {OUT}"
    assert len(scheduler.asked) == 1


async def test_a_failed_fetch_is_not_repeated_at_once(
    home: Home, remote_job: RemoteJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its message is shown again meanwhile, also to concurrent requests."""
    folder, record, scheduler = remote_job
    monkeypatch.setattr(far_module, "_REPEAT_SECONDS", 1e6)
    write_summary(folder, succeeded(folder, record))
    logged(folder, [])
    far = RemoteJobFiles(home, folder)
    scheduler.error = SchedulerError("no daemon answers")
    told = await asyncio.gather(*(far.fetch_output("worker:0") for _ in range(5)), far.fetch_output("worker:1"))
    assert set(told) == {"some output may be missing: no daemon answers"}
    assert await far.fetch_output("worker:0") == told[0]
    assert len(scheduler.asked) == 2


async def test_a_page_does_not_wait_for_slow_output(
    home: Home, remote_job: RemoteJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fetch continues while the page is shown without it."""
    folder, record, scheduler = remote_job
    monkeypatch.setattr(far_module, "_OUTPUT_TIMEOUT_SECONDS", 0.01)
    write_summary(folder, succeeded(folder, record))
    logged(folder, [])
    go = asyncio.Event()

    async def slow(folder: JobFolder, containers: Mapping[str, str], sink: LogSink, *, owner: str = "") -> None:
        await go.wait()
        sink.find_start(OUT, 0, 4)
        sink.put(OUT, 0, 0, b"late")

    monkeypatch.setattr(scheduler, "fetch_logs", slow)
    far = RemoteJobFiles(home, folder)
    assert "reload in a moment" in await far.fetch_output("worker:0")
    go.set()
    await wait_until(lambda: read(folder, OUT) == b"late")


async def test_a_page_does_not_wait_for_a_slow_store(
    home: Home, remote_job: RemoteJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor for files next to the job directory; an error there is reported."""
    folder, record, scheduler = remote_job
    monkeypatch.setattr(far_module, "_OUTPUT_TIMEOUT_SECONDS", 0.01)
    write_summary(folder, succeeded(folder, record))
    logged(folder, [])
    go, came = asyncio.Event(), asyncio.Event()

    async def hangs(task: str) -> None:
        await go.wait()
        came.set()

    far = RemoteJobFiles(home, folder, first=hangs)
    async with asyncio.timeout(60):
        assert "reload in a moment" in await far.fetch_output("worker:0")
        assert "reload in a moment" in await far.fetch_output("worker:0")
        assert scheduler.asked == []
        go.set()
        await came.wait()

    async def refuses(task: str) -> None:
        raise StorageError("the store\nrefuses")

    monkeypatch.setattr(far_module, "_OUTPUT_TIMEOUT_SECONDS", 60.0)
    assert await RemoteJobFiles(home, folder, first=refuses).fetch_output("worker:0") == "the store refuses"

    async def fails(task: str) -> None:
        raise KeyError("a bug of ours")

    assert "could not be fetched" in await RemoteJobFiles(home, folder, first=fails).fetch_output("worker:0")


async def test_output_of_a_running_job(home: Home, remote_job: RemoteJob) -> None:
    folder, record, _ = remote_job
    far = RemoteJobFiles(home, folder)
    async with TalkingMaster(folder, running(folder, record)) as master:
        master.say(OUT, b"one ")
        assert await far.fetch_output("worker:0") == ""
        assert read(folder, OUT) == b"one "
        master.say(OUT, b"two")
        assert await far.fetch_output("worker:0") == ""
        assert read(folder, OUT) == b"one two"


async def test_a_copy_of_another_users_job(home: Home, remote_job: RemoteJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner in the store must own the output; while the job runs, only its owner can ask its AM."""
    folder, record, scheduler = remote_job

    async def eve() -> str:
        return "eve"

    async def fail_to_find_owner() -> str:
        raise StorageError("the owner is unknown")

    assert "the job is running" in await RemoteJobFiles(home, folder, eve).fetch_output("worker:0")
    assert scheduler.asked == []
    write_summary(folder, succeeded(folder, record))
    logged(folder, [])
    assert await RemoteJobFiles(home, folder, fail_to_find_owner).fetch_output("worker:0") == "the owner is unknown"
    assert scheduler.asked == []
    scheduler.shows = {OUT: (b"", b"hers"), "worker-0.s1.t1.err": (b"", b"long")}
    monkeypatch.setattr(scheduler_logs, "_MAX_FOREIGN_FILE_BYTES", 4)
    assert await RemoteJobFiles(home, folder, eve).fetch_output("worker:0") == ""
    assert scheduler.owners == ["eve"]
    scheduler.shows["worker-1.s1.t1.out"] = (b"12", b"345")
    assert "worker-1.s1.t1.out is longer than" in await RemoteJobFiles(home, folder, eve).fetch_output("worker:1")
    assert read(folder, "worker-1.s1.t1.out") == b""


async def test_output_that_needs_no_fetch(home: Home, remote_job: RemoteJob) -> None:
    """A job of this machine has all of it here; LinkedIn TonY's is shown by the cluster's own tools; a damaged job
    directory is reported."""
    folder, record, scheduler = remote_job
    write_json(folder.job, to_plain(replace(record, tony_version=LINKEDIN_TONY)))
    assert "yarn logs -applicationId" in await RemoteJobFiles(home, folder).fetch_output("worker:0")
    write_json(folder.job, to_plain(replace(record, spec=replace(record.spec, scheduler="local"))))
    assert await RemoteJobFiles(home, folder).fetch_output("worker:0") == ""
    assert await RemoteJobFiles(home, folder).find_links() == ()
    folder.job.write_text("{")
    assert "job.json" in await RemoteJobFiles(home, folder).fetch_output("worker:0")
    assert scheduler.asked == []


async def test_links(home: Home, remote_job: RemoteJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the scheduler: of the job, and of containers for the user whose they are."""
    folder, _, scheduler = remote_job
    asked: list[object] = []

    async def links(job_id: str, *, ended: bool) -> tuple[WebLink, ...]:
        asked.append((job_id, ended))
        return (WebLink(label="page", href="http://rm/1"),)

    async def container_links(
        job_id: str, containers: Mapping[str, str], *, user: str, ended: bool
    ) -> dict[str, tuple[WebLink, ...]]:
        asked.append((containers, user))
        return {"c1": (WebLink(label="log", href="http://nm/1"),)}

    async def eve() -> str:
        return "eve"

    monkeypatch.setattr(scheduler, "links", links)
    monkeypatch.setattr(scheduler, "container_links", container_links)
    far = RemoteJobFiles(home, folder, eve)
    assert ["page"] == [link.label for link in await far.find_links()]
    assert ["log"] == [link.label for link in (await far.find_container_links({"c1": "h1"}))["c1"]]
    assert await far.find_container_links({}) == {}
    assert asked == [(folder.job_id, False), ({"c1": "h1"}, "eve")]


async def test_progress_on_pages_is_newer_than_the_stored_metrics(
    home: Home, remote_job: RemoteJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An AM on another machine stores its metrics file once a minute; each step that it knows changes an open page."""
    folder, record, _ = remote_job
    monkeypatch.setattr(far_module, "_METRICS_FRESH_SECONDS", 0.0)
    monkeypatch.setattr(far_module, "_TASKS_PER_FRESH_SECOND", math.inf)
    stored = Progress("worker:0", 1, 1, 1.0, 1.0, 60.0, 60.0, total=600.0)
    writer = MetricsWriter(folder.metrics, folder.job_id, 5.0)
    update = TaskMetricsUpdate("worker:0", "worker", 5.0, False, 0, {"rss": [1.0, 1.0, 1.0]})
    writer.write([update], [stored], [], now=60.0)
    writer.close()
    shown = ShownFiles(metrics=True)

    def read_steps(metrics: Metrics) -> tuple[float | None, list[float], Mapping[str, Mapping[str, float]]]:
        return metrics.known_until, [each.step for each in metrics.progress()], metrics.read_newest(("rss",))

    async with TalkingMaster(folder, running(folder, record)) as master:
        far = RemoteJobFiles(home, folder)
        view = DirectoryJobView(folder, remote=far)
        versions = set()
        for step in (118.0, 119.0):
            master.progress = (replace(stored, step=step, at=step),)
            one = (step,)
            master.measured = [Points(task="worker:0", series="rss", every=5.0, at=one, least=one, mean=one, most=one)]
            versions.add(await view.read_digest(shown))
            assert await view.query_metrics(read_steps) == (step, [step], {"worker:0": {"rss": step}})
        assert len(versions) == 2
        requests = master.asked
        await view.read_digest(ShownFiles())
        assert master.asked == requests  # a page without metrics
        master.progress = (replace(stored, step=2.0, at=2.0),)
        assert await view.query_metrics(read_steps) == (60.0, [60.0], {"worker:0": {"rss": 1.0}})
        master.progress = (replace(stored, step=120.0, at=120.0),)
        assert await view.query_metrics(read_steps) == (120.0, [120.0], {"worker:0": {"rss": 119.0}})
    write_summary(folder, succeeded(folder, record))
    # Until the last copy is here.
    assert await DirectoryJobView(folder, remote=far).query_metrics(read_steps) == (
        120.0,
        [120.0],
        {"worker:0": {"rss": 119.0}},
    )


async def test_many_requests_ask_an_am_for_metrics_once(home: Home, remote_job: RemoteJob) -> None:
    folder, record, _ = remote_job
    async with TalkingMaster(folder, running(folder, record)) as master:
        assert await RemoteJobFiles(home, folder).fetch_newest_metrics() is None  # an AM that has just been started
        master.progress = (Progress("worker:0", 1, 1, 1.0, 1.0, 1.0, 1.0),)
        far, before = RemoteJobFiles(home, folder), master.asked
        found = await asyncio.gather(*(far.fetch_newest_metrics() for _ in range(20)))
        assert master.asked == before + 1
        assert [each.now for each in found if each] == [1.0] * 20
    assert await RemoteJobFiles(home, folder, _refuse).fetch_newest_metrics() is None


async def _refuse() -> str:
    raise AssertionError
