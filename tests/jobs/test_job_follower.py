"""A follower sees every lasting state and every line of output, through all failures, to the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from tests.jobs.fake_am import JOB, FakeAm, failed, logged, recorded, running, succeeded, write_log
from tests.support.waiting import wait_until
from tony import clock
from tony.core.events import SessionOpened
from tony.errors import NoClusterError, ProtocolError, SchedulerError
from tony.history.job_record import build_pending_report, write_summary
from tony.history.json_files import write_json
from tony.jobs.job_follower import follow
from tony.jobs.log_files import Selection
from tony.jobs.log_lines import LogLine
from tony.jobs.remote.log_mirror import Mirror
from tony.jobs.status import job_status, remote_job_sync
from tony.model.job_report import JobReport
from tony.model.log_name import LogName
from tony.model.state_directory import Home, JobFolder
from tony.model.states import JobState
from tony.model.submission_record import JobRecord

Recorded = tuple[JobFolder, JobRecord]


class Diary:
    """Writes down what a viewer is told."""

    def __init__(self) -> None:
        self.reports: list[JobReport] = []
        self.lines: list[str] = []
        self.notices: list[str] = []
        self.sessions: list[tuple[int, str]] = []

    def is_at(self, attempt: int) -> bool:
        """Whether the last report was of that attempt."""
        return self.reports[-1].attempt == attempt

    @property
    def states(self) -> list[JobState]:
        """The job's states, repetitions left out."""
        found = [report.state for report in self.reports]
        return [state for number, state in enumerate(found) if number == 0 or found[number - 1] is not state]

    def on_report(self, report: JobReport) -> None:
        self.reports.append(report)

    def on_session_opened(self, session: int, reason: str) -> None:
        self.sessions.append((session, reason))

    def on_output(self, lines: Sequence[LogLine]) -> None:
        self.lines += [f"{line.name.task} {line.text}" for line in lines]

    def on_notice(self, text: str) -> None:
        self.notices.append(text)


@pytest.fixture
def job(home: Home) -> Recorded:
    return recorded(home)


@asynccontextmanager
async def followed(
    home: Home, job: Recorded, diary: Diary, first: JobReport | None = None, keep: int | None = None
) -> AsyncIterator[tuple[FakeAm, asyncio.Task[JobReport]]]:
    """A job whose application master lives, and one who follows it."""
    async with FakeAm(job[0], first or running(*job)) as master, asyncio.TaskGroup() as group:
        following = group.create_task(follow(home, JOB, diary, keep=keep))
        await wait_until(lambda: master.watched)
        yield master, following


async def test_from_beginning_to_end(home: Home, job: Recorded) -> None:
    """Every report the master sends, every line, and the last report as the answer."""
    folder, record = job
    diary = Diary()
    async with followed(home, job, diary, build_pending_report(folder, record)) as (master, following):
        master.change(replace(running(*job), folder="/in/its/container"))
        write_log(folder, "worker-0.s1.t1.out", "hello\n")
        await wait_until(lambda: diary.lines)
        write_log(folder, "worker-1.s1.t1.err", "bye")
        await master.finish(succeeded(folder, record))
        assert await following == succeeded(folder, record)
    assert diary.states == [JobState.SUBMITTED, JobState.RUNNING, JobState.SUCCEEDED]
    assert {report.folder for report in diary.reports} == {str(folder.path)}
    assert diary.lines == ["worker:0 hello", "worker:1 bye"]
    assert diary.notices == []


async def test_pending_lines_are_printed_before_the_end(
    home: Home, job: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long lines are held back, the job's end does not wait for it, and none is missing."""
    monkeypatch.setattr("tony.jobs.job_follower.BATCH_SECONDS", 3600.0)
    folder, record = job
    diary = Diary()
    async with followed(home, job, diary) as (master, following):
        write_log(folder, "worker-0.s1.t1.out", "first\n")
        await wait_until(lambda: diary.lines)
        write_log(folder, "worker-0.s1.t1.out", "second\n")
        await master.finish(succeeded(folder, record))
        await following
    assert diary.lines == ["worker:0 first", "worker:0 second"]


async def test_a_job_that_has_ended(home: Home, job: Recorded) -> None:
    """All of its output, then its last report."""
    folder, record = job
    write_log(folder, "worker-0.s1.t1.out", "a\nb")
    write_summary(folder, failed(folder, record))
    diary = Diary()
    assert await follow(home, JOB, diary) == failed(folder, record)
    assert diary.lines == ["worker:0 a", "worker:0 b"]
    assert diary.reports == [failed(folder, record)]


async def test_output_that_was_not_fetched_in_time_is_noted(home: Home, job: Recorded) -> None:
    """Once, and not by a follower that wants the last lines only."""
    folder, _ = job
    write_summary(folder, succeeded(*job))
    with closing(Mirror(folder.logs)) as copies:
        copies.write(LogName("worker", 0, 1, 1, "out"), 0, 0, b"first\n")
        copies.write(LogName("worker", 0, 1, 1, "out"), 0, 5000, b"last\n")
    text = "some output is missing: 4.9 KiB before the last 5 bytes of worker-0.s1.t1.out"
    for keep, notices in ((None, [text]), (1, [])):
        diary = Diary()
        await follow(home, JOB, diary, keep=keep)
        assert diary.notices == notices


async def test_a_follower_of_the_last_lines_hears_what_it_misses_itself(home: Home, job: Recorded) -> None:
    folder, _ = job
    name, diary = LogName("worker", 0, 1, 1, "out"), Diary()
    with closing(Mirror(folder.logs)) as copies:
        copies.write(name, 0, 5000, b"before\n")
        async with followed(home, job, diary, keep=1) as (master, following):
            copies.write(name, 0, 5050, b"after\n")
            await master.finish(succeeded(*job))
            await following
    assert diary.lines == ["worker:0 before", "worker:0 after"]
    assert diary.notices == ["some output is missing: 43 bytes of worker-0.s1.t1.out"]


async def test_following_starts_before_the_am(home: Home) -> None:
    """It is waited for; the first report is that all tasks are pending."""
    job = recorded(home, submitted=clock.wall())
    folder, record = job
    diary = Diary()
    async with asyncio.TaskGroup() as group:
        following = group.create_task(follow(home, JOB, diary))
        await wait_until(lambda: diary.reports)
        assert diary.reports == [build_pending_report(folder, record)]
        async with FakeAm(folder, running(*job)) as master:
            await wait_until(lambda: master.watched)
            await master.finish(succeeded(folder, record))
        await following
    assert diary.states == [JobState.SUBMITTED, JobState.RUNNING, JobState.SUCCEEDED]


async def test_the_cluster_has_ended(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can come back: the follower ends at once."""
    recorded(home)

    async def gone(*_: object) -> JobReport:
        raise NoClusterError("there is no cluster")

    monkeypatch.setattr(job_status, "load_report", gone)
    with pytest.raises(NoClusterError, match=f"{JOB} is no longer available: there is no cluster"):
        await follow(home, JOB, Diary())


async def test_a_scheduler_that_is_away_for_a_while(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a job is queued only its scheduler knows its state: the follower prints the trouble once, and polls
    again. After a long time it is an error."""
    recorded(home)
    diary = Diary()
    ask, away = job_status.load_report, [True]
    asked = 0

    async def report(*arguments: Any) -> JobReport:
        nonlocal asked
        asked += 1
        if away[0]:
            raise SchedulerError("no ResourceManager answers for 10 s:\n  rm1: no listener there")
        return await ask(*arguments)

    monkeypatch.setattr(job_status, "load_report", report)
    with pytest.raises(SchedulerError, match="no ResourceManager answers"):
        await follow(home, JOB, diary)
    job = folder, record = recorded(home, submitted=clock.wall())

    def asked_often() -> bool:
        return asked > 2

    async with asyncio.TaskGroup() as group:
        following = group.create_task(follow(home, JOB, diary))
        for _ in range(2):  # from the beginning, and later
            asked, away[0] = 0, True
            await wait_until(asked_often)
            diary.reports.clear()
            away[0] = False
            await wait_until(lambda: diary.reports)
        async with FakeAm(folder, running(*job)) as master:
            await wait_until(lambda: master.watched)
            await master.finish(succeeded(folder, record))
        assert (await following).state is JobState.SUCCEEDED
    assert diary.notices == 2 * ["no ResourceManager answers for 10 s; retrying"]


async def test_a_connection_that_breaks_is_made_again(home: Home, job: Recorded) -> None:
    """What changed meanwhile is in the next report."""
    folder, record = job
    diary = Diary()
    async with FakeAm(folder, running(*job)) as master, asyncio.TaskGroup() as group:
        following = group.create_task(follow(home, JOB, diary))
        for _ in range(3):
            await wait_until(lambda: master.watched)
            master.hang_up()
            await wait_until(lambda: not master.watched)
        await wait_until(lambda: master.watched)
        await master.finish(succeeded(folder, record))
        assert (await following).state is JobState.SUCCEEDED


async def test_an_end_during_a_break_is_seen(home: Home, job: Recorded) -> None:
    """The summary says what the connection did not."""
    folder, record = job
    diary = Diary()
    async with followed(home, job, diary) as (master, following):
        write_summary(folder, failed(folder, record))
        await master.die()
        assert await following == failed(folder, record)


async def test_a_master_that_dies_ends_the_job(home: Home, job: Recorded) -> None:
    """The follower closes the record, and shows what was printed until then."""
    folder, _ = job
    diary = Diary()
    async with followed(home, job, diary) as (master, following):
        write_log(folder, "worker-0.s1.t1.out", "x" * 10)
        await master.die()
        report = await following
    assert (report.state, report.exit_code) == (JobState.FAILED, 3)
    assert diary.lines == ["worker:0 " + "x" * 10]
    assert folder.summary.exists()


async def test_no_line_is_lost_at_the_end(home: Home, job: Recorded) -> None:
    """However much is printed at the last moment."""
    folder, record = job
    diary = Diary()
    text = "".join(f"{n}\n" for n in range(20_000))
    async with followed(home, job, diary) as (master, following):
        write_log(folder, "worker-0.s1.t1.out", text)
        await asyncio.sleep(0)
        write_log(folder, "worker-0.s1.t1.out", text)
        await master.finish(succeeded(folder, record))
        await following
    assert diary.lines == [f"worker:0 {n}" for n in range(20_000)] * 2


async def test_only_selected_lines(home: Home, job: Recorded) -> None:
    """And only the last ones of what was there before."""
    folder, record = job
    write_log(folder, "worker-0.s1.t1.out", "a\n")
    write_log(folder, "worker-1.s1.t1.out", "b\nc\n")
    write_summary(folder, succeeded(folder, record))
    diary = Diary()
    await follow(home, JOB, diary, Selection(tasks={"worker:1"}), keep=1)
    assert diary.lines == ["worker:1 c"]


async def test_a_refusal_is_an_error(home: Home, job: Recorded) -> None:
    """Another job's token, for instance; it comes out as itself."""
    folder, _ = job
    async with FakeAm(folder, running(*job)):
        secret = {"token": "0" * 64}
        write_json(folder.credentials, {"am": secret, "executors": secret})
        with pytest.raises(ProtocolError, match="token"):
            await follow(home, JOB, Diary())


async def test_a_viewer_that_fails_ends_the_following(home: Home, job: Recorded) -> None:
    """The reader of our output has gone, for instance: that comes out as itself."""
    folder, _ = job
    write_log(folder, "worker-0.s1.t1.out", "a\n")

    class Gone(Diary):
        def on_output(self, lines: Sequence[LogLine]) -> None:
            raise BrokenPipeError

    async with FakeAm(folder, running(*job)):
        with pytest.raises(BrokenPipeError):
            await follow(home, JOB, Gone())


async def test_an_end_that_is_not_final_yet(home: Home, job: Recorded) -> None:
    """A state of the end in a report does not end the following: the final report does, with its details."""
    folder, record = job
    last = succeeded(folder, record)
    diary = Diary()
    async with followed(home, job, diary) as (master, following):
        master.change(replace(last, ended=None))
        await wait_until(lambda: bool(diary.reports) and diary.reports[-1].state is JobState.SUCCEEDED)
        assert not following.done()
        await master.finish(last)
        assert await following == last


async def test_further_sessions_say_why(home: Home, job: Recorded) -> None:
    """Even if they begin between two reports; the log knows the reasons."""
    folder, record = job
    logged(
        folder, [SessionOpened(session=1, reason="the job begins"), SessionOpened(session=2, reason="worker:1 failed")]
    )
    diary = Diary()
    async with followed(home, job, diary) as (master, following):
        assert diary.sessions == []
        master.change(replace(running(*job), session=3))
        await wait_until(lambda: len(diary.reports) == 2)
        await master.finish(replace(succeeded(folder, record), session=3))
        await following
    assert diary.sessions == [(2, "worker:1 failed"), (3, "")]


async def test_the_reason_comes_from_the_report_without_the_log(
    home: Home, job: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log is on a remote file system that is unavailable: it is not waited for."""
    folder, record = job
    diary = Diary()

    async def away(*_: object) -> dict[int, str]:
        raise AssertionError("the log is not needed")

    monkeypatch.setattr(remote_job_sync, "load_session_reasons", away)
    async with followed(home, job, diary) as (master, following):
        master.change(replace(running(*job), session=2, session_reason="worker:1 failed (restart 1 of 3)"))
        await wait_until(lambda: len(diary.reports) == 2)
        await master.finish(replace(succeeded(folder, record), session=2))
        await following
    assert diary.sessions == [(2, "worker:1 failed (restart 1 of 3)")]


async def test_a_progress_bar_moves(home: Home, job: Recorded) -> None:
    """Its newest state shows while it has no line's end, and the last one before the job's end."""
    folder, record = job
    told: list[str] = []

    class Order(Diary):
        def on_report(self, report: JobReport) -> None:
            super().on_report(report)
            told.append(report.state.value)

        def on_output(self, lines: Sequence[LogLine]) -> None:
            super().on_output(lines)
            told.extend(line.text for line in lines)

    async with followed(home, job, Order()) as (master, following):
        write_log(folder, "worker-0.s1.t1.out", "\r 25%|#\r 50%|##")
        await wait_until(lambda: " 50%|##" in told)
        write_log(folder, "worker-0.s1.t1.out", "\r100%|####")
        await master.finish(succeeded(folder, record))
        await following
    assert told == ["running", " 50%|##", "100%|####", "succeeded"]


async def test_whole_lines_byte_for_byte(home: Home, job: Recorded) -> None:
    """For those who write the output down: nothing is dropped and nothing is cut in two."""
    folder, record = job
    write_log(folder, "worker-0.s1.t1.out", "\r 25%\r 50%\r\nend")
    write_summary(folder, succeeded(folder, record))
    seen: list[bytes] = []

    class Raw(Diary):
        def on_output(self, lines: Sequence[LogLine]) -> None:
            seen.extend(line.data for line in lines)

    await follow(home, JOB, Raw(), live=False)
    assert seen == [b"\r 25%\r 50%\r", b"end"]


async def test_following_continues_with_the_next_am(home: Home, job: Recorded) -> None:
    """The change is printed once, in one sentence, and following continues to the end."""
    folder, record = job
    diary = Diary()
    async with FakeAm(folder, running(*job)) as master, asyncio.TaskGroup() as group:
        following = group.create_task(follow(home, JOB, diary))
        await wait_until(lambda: diary.reports)
        for attempt in (2, 3):
            await master.leave()
            master.change(replace(running(*job), attempt=attempt))
            await master.listen()
            await wait_until(partial(diary.is_at, attempt))
        await master.finish(replace(succeeded(folder, record), attempt=3))
        await following
    assert diary.notices == [f"the application master died; AM attempt {attempt} took over" for attempt in (2, 3)]
    assert diary.states == [JobState.RUNNING, JobState.SUCCEEDED]
