"""What executors measure, from the wire to the file; and what clients ask for on the way."""

from __future__ import annotations

import asyncio
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from tests.am.in_process_job import InProcessJob, play
from tests.core.simulated import started
from tests.core.specs import FAILED, OK, workers
from tests.support.fake_executor import FakeExecutor
from tests.support.timelines import timeline
from tests.support.waiting import wait_until
from tony.am import metrics_store as module
from tony.am.metrics_store import MetricsStore
from tony.core import events as ev
from tony.core.application import Application
from tony.errors import ProtocolError
from tony.history.goodput import ledger
from tony.history.json_files import write_json
from tony.history.metrics_reader import Metrics
from tony.jobs.am_client import request_metrics, request_stacks, send_command
from tony.model.actor import Actor
from tony.model.codec import to_plain
from tony.model.ids import TaskId
from tony.model.job_spec import JobSpec
from tony.model.program_exit import ExitStatus
from tony.model.progress import Progress, Resumption
from tony.model.progress_rules import measure_task
from tony.protocol.client_messages import GetMetrics, RestartJob
from tony.protocol.executor_messages import DumpStacks, Sample, Saved, StartProgram, Welcome
from tony.protocol.launch import TaskPart
from tony.protocol.shared_messages import SetLogLevel, Stacks


def runs_on(part: TaskPart, message: StartProgram) -> ExitStatus | None:
    """A program that runs until it is stopped."""
    return None


def sample(session: int = 1, try_: int = 1, ago: float = 0.0, **values: float) -> Sample:
    named = {name.replace("_", "-"): value for name, value in values.items()}
    return Sample(session=session, try_=try_, ago=ago, values=named)


async def runs(job: InProcessJob, session: int = 1) -> list[FakeExecutor]:
    """Waits until all programs run; makes the job one that clients find."""
    tasks = len(job.spec.task_ids)
    await wait_until(lambda: sum(e.runs for e in job.executors.values()) == tasks and job.report().session == session)
    folder = job.job.folder
    write_json(folder.am, {"pid": 1, "host": "h", "attempt": job.attempt, "address": job.address})
    write_json(folder.credentials, to_plain(job.credentials))
    return list(job.executors.values())


def end(job: InProcessJob) -> None:
    for executor in job.executors.values():
        executor.exit(OK)


def test_from_the_wire_to_a_client_and_to_the_file(tmp_path: Path) -> None:
    """Executors are told how often; what they send is answered at once, and is in the file at the end."""

    async def meanwhile(job: InProcessJob) -> None:
        first, second = await runs(job)
        welcome = next(m for m in first.received if isinstance(m, Welcome))
        assert welcome.sample_interval == 5.0
        first.send(sample(cpu=0.5, rss=1000.0, made_up=7.0))
        second.send(replace(sample(cpu=1.5), saved=(Saved(step=7, ago=0.0, took=1e-5),)))
        folder = job.job.folder
        async with asyncio.timeout(60):
            while len((measured := await request_metrics(folder)).points) < 3:
                await asyncio.sleep(0.005)
        assert {(p.task, p.series, p.mean) for p in measured.points} == {
            ("worker:0", "cpu", (0.5,)),
            ("worker:0", "rss", (1000.0,)),
            ("worker:1", "cpu", (1.5,)),
        }
        assert 0 <= measured.now < 60
        some = await request_metrics(folder, ["worker:1"], ["cpu"], 10)
        assert [(p.task, p.series) for p in some.points] == [("worker:1", "cpu")]
        end(job)

    job, finish = play(tmp_path, workers(2), runs_on, meanwhile=meanwhile)
    assert finish.exit_code == 0
    asyncio.run(finished(job))
    with Metrics(job.job.folder.metrics) as metrics:
        assert metrics.tasks() == ("worker:0", "worker:1")
        assert metrics.series() == ("cpu", "rss")
        assert metrics.read_newest()["worker:0"]["rss"] == 1000.0
        (saved,) = metrics.checkpoints()
        assert (saved.task, saved.step, round(saved.until - saved.since, 6)) == ("worker:1", 7, 1e-5)
    assert job.replayed().mismatch is None  # nothing of it is an event


async def finished(job: InProcessJob) -> None:
    """What the end of the real program does."""
    await job.master.metrics.finish()


def test_a_job_that_is_not_measured_has_no_file(tmp_path: Path) -> None:
    """Executors are asked to send nothing, and what one sends all the same is left out."""

    async def meanwhile(job: InProcessJob) -> None:
        (only,) = await runs(job)
        assert next(m for m in only.received if isinstance(m, Welcome)).sample_interval == 0.0
        only.send(sample(cpu=1.0))
        await wait_until(lambda: job.master.metrics.refused == 1)
        assert (await request_metrics(job.job.folder)).points == ()
        end(job)

    job, finish = play(tmp_path, workers(1, metrics_interval=0.0), runs_on, meanwhile=meanwhile)
    asyncio.run(finished(job))
    assert finish.exit_code == 0
    assert not job.job.folder.metrics.exists()


def test_a_later_am_attempt_continues_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples of the previous attempt are served and kept with the new ones."""
    monkeypatch.setattr(module, "WRITE_INTERVAL_SECONDS", 0.01)

    async def meanwhile(job: InProcessJob) -> None:
        first, _ = await runs(job)
        first.send(replace(sample(cpu=0.25, step=40.0), first_step=1.0, saved=(Saved(step=30, ago=0.0, took=0.1),)))
        path = job.job.folder.metrics

        def is_written() -> bool:
            with Metrics(path) as metrics:
                return bool(metrics.progress())

        await wait_until(is_written)
        await job.die()
        await wait_until(lambda: job.attempt == 2 and first.connections == 2)
        await wait_until(lambda: bool(job.master.metrics.series.names))
        before = job.report().session
        first.send(sample(before, cpu=0.75, step=90.0))
        await wait_until(lambda: job.master.metrics.series.answer([], ["cpu"], 1)[0][0].most == (0.75,))
        end(job)

    job, finish = play(tmp_path, workers(2), runs_on, meanwhile=meanwhile)
    asyncio.run(finished(job))
    assert finish.exit_code == 0
    with Metrics(job.job.folder.metrics) as metrics:
        points = metrics.points("worker:0", "cpu")
        assert (min(points.least), max(points.most)) == (0.25, 0.75)
        (told,) = metrics.progress()
        assert (told.first_step, told.step, told.behind) == (1.0, 90.0, False)
        assert len(metrics.checkpoints()) == 1


def test_a_file_that_cannot_be_written_ends_no_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said once; when there is room, all of it is written."""
    monkeypatch.setattr(module, "WRITE_INTERVAL_SECONDS", 0.01)

    async def meanwhile(job: InProcessJob) -> None:
        (only,) = await runs(job)
        path = job.job.folder.metrics
        path.mkdir()
        only.send(replace(sample(cpu=1.0, step=3.0), saved=(Saved(step=3, ago=0.0, took=0.1),)))
        await wait_until(lambda: bool(job.master.metrics._last_error))
        path.rmdir()
        await wait_until(path.exists)
        await wait_until(lambda: not job.master.metrics._last_error)
        end(job)

    job, finish = play(tmp_path, workers(1), runs_on, meanwhile=meanwhile)
    asyncio.run(finished(job))
    assert finish.exit_code == 0
    with Metrics(job.job.folder.metrics) as metrics:
        assert metrics.read_newest()["worker:0"]["cpu"] == 1.0
        assert (len(metrics.progress()), len(metrics.checkpoints())) == (1, 1)


def test_a_restart_on_order(tmp_path: Path) -> None:
    """Through the client interface; refused where there is nothing to restart; an event with its actor."""

    async def meanwhile(job: InProcessJob) -> None:
        await runs(job)
        await send_command(job.job.folder, RestartJob(actor="ann"))
        await runs(job, session=2)
        await send_command(job.job.folder, SetLogLevel(level="info", actor="bob"))
        end(job)
        for executor in job.executors.values():
            await wait_until(lambda executor=executor: executor.ended)  # type: ignore[misc]

    job, finish = play(tmp_path, workers(2), runs_on, meanwhile=meanwhile)
    assert finish.exit_code == 0
    asked = [e.event for e in job.entries() if isinstance(e.event, ev.JobRequest)]
    assert asked == [ev.RestartRequested(actor=Actor("ann")), ev.LogLevelRequested(actor=Actor("bob"), level="info")]
    assert job.replayed().mismatch is None


def test_a_restart_without_a_running_session_is_refused(tmp_path: Path) -> None:
    """The first session has not opened, or the job stops: the answer says so."""

    async def meanwhile(job: InProcessJob) -> None:
        (only,) = await runs(job)
        only.stubborn = True
        await send_command(job.job.folder, RestartJob(actor="ann"))
        await wait_until(lambda: job.report().state.value == "restarting")
        with pytest.raises(ProtocolError, match="no session to restart: the job is restarting") as caught:
            await send_command(job.job.folder, RestartJob(actor="ann"))
        assert caught.value.code == "busy"
        only.exit(FAILED)
        await wait_until(lambda: job.report().session == 2 and only.runs)
        end(job)

    _, finish = play(tmp_path, workers(1), runs_on, meanwhile=meanwhile)
    assert finish.exit_code == 0


def test_stacks_of_a_task(tmp_path: Path) -> None:
    """The executor is asked, its answer comes back, and it is an event who wanted to know."""

    async def meanwhile(job: InProcessJob) -> None:
        first, _ = await runs(job)
        asking = asyncio.ensure_future(anext(request_stacks(job.job.folder, "ann", ["worker:0"])))
        await wait_until(lambda: any(isinstance(m, DumpStacks) for m in first.received))
        request = next(m.request for m in first.received if isinstance(m, DumpStacks))
        first.send(Stacks(task="worker:9", request="another user's", text="?"))
        first.send(Stacks(task="worker:0", request=request, text="main()", how="py-spy", name="worker-0.stacks"))
        assert await asking == Stacks(task="worker:0", text="main()", how="py-spy", name="worker-0.stacks")
        assert (await anext(request_stacks(job.job.folder, "ann", ["worker:7"]))).problem == "there is no such task"
        asking = asyncio.ensure_future(anext(request_stacks(job.job.folder, "ann", ["worker:0"])))
        await wait_until(lambda: sum(isinstance(m, DumpStacks) for m in first.received) == 2)
        await first.die()
        job.source.end(first.part.container, "killed")
        assert "exited" in (await asking).problem
        end(job)
        await wait_until(lambda: len(job.executors) == 3)
        end(job)

    job, _ = play(tmp_path, workers(2, max_restarts=1), runs_on, meanwhile=meanwhile)
    asked = [e.event for e in job.entries() if isinstance(e.event, ev.JobRequest)]
    assert asked == [ev.StacksRequested(actor=Actor("ann"), task=TaskId("worker", 0))] * 2


# --- without a wire -----------------------------------------------------------------------------------------------


class Clock:
    """The job's time, as a test wants it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def measuring(spec: JobSpec, app: Application, path: Path) -> tuple[MetricsStore, Clock]:
    """What a job's master has for samples."""
    clock = Clock()
    return MetricsStore(app.state, clock, path, late=False), clock


def test_how_often_follows_from_how_many(tmp_path: Path) -> None:
    """A few hundred samples and step reports a second, of a job of any size."""
    for count, interval, step_interval in (
        (1, 5.0, 1.0),
        (300, 5.0, 2.0),
        (1500, 5.0, 5.0),
        (10_000, 10_000 / 300, 10_000 / 300),
    ):
        spec = workers(count)
        made, _ = measuring(spec, Application("sim", spec), tmp_path / "x")
        assert (made.interval, made.step_interval) == pytest.approx((interval, step_interval))


@pytest.mark.parametrize("seconds", [0.2, 2.2])
def test_steps_that_one_sample_sums_up_count_as_many(tmp_path: Path, seconds: float) -> None:
    """So the usual pause of a program is known that has stalled soon after its start."""
    cluster = started(workers(1))
    made, clock = measuring(cluster.app.state.spec, cluster.app, tmp_path / "x")
    worker = TaskId("worker", 0)
    clock.now = 10.0
    made.ingest_sample(worker, replace(sample(step=12.0), first_step=1.0, first_ago=seconds, step_reports=12))
    clock.now = 15.0
    repeated = replace(sample(step=12.0), first_step=1.0, first_ago=5.0 + seconds, step_ago=5.0, step_reports=12)
    made.ingest_sample(worker, repeated)
    pauses = made.find_step_pauses(cluster.app.state.tasks[worker])
    assert pauses
    assert (pauses.median, pauses.longest) == pytest.approx((seconds / 11, seconds))


def test_samples_of_another_try(tmp_path: Path) -> None:
    """What a try that has ended says of its steps counts, its numbers do not; an unknown one does not count at all."""
    cluster = started(workers(1, max_restarts=1, backoff=0.0))
    made, clock = measuring(cluster.app.state.spec, cluster.app, tmp_path / "x")
    worker = TaskId("worker", 0)
    clock.now = 10.0
    made.ingest_sample(worker, replace(sample(cpu=1.0, step=5.0), first_step=1.0, first_ago=4.0))
    made.ingest_sample(worker, sample(session=2, cpu=9.0))
    made.ingest_sample(worker, sample(session=0, cpu=9.0))
    made.ingest_sample(TaskId("ps", 0), sample(cpu=9.0))
    assert made.refused == 3
    cluster.exit(worker, FAILED)
    cluster.settle()
    clock.now = 20.0
    late = replace(sample(cpu=7.0, step=8.0), saved=(Saved(step=8, ago=9.0, took=1.0),))
    made.ingest_sample(worker, late)
    assert made.series.answer([], ["cpu"], 5)[0][0].most == (1.0,)
    (told,) = [each.progress for each in made._attempts["worker:0"].values()]
    assert (told.first_step, told.first_at, told.step) == (1.0, 6.0, 8.0)


def test_stalls_of_a_program(tmp_path: Path) -> None:
    """It reports twice a second and hangs; a stall that ends is kept, and lost reports are none."""
    cluster = started(workers(1))
    made, clock = measuring(cluster.app.state.spec, cluster.app, tmp_path / "metrics.db")

    def reports(step: float, at: float) -> Progress:
        clock.now = at + 0.5
        made.ingest_sample(
            TaskId("worker", 0), replace(sample(step=step), step_ago=0.5, first_step=1.0, first_ago=at - 9.5)
        )
        (told,) = made.answer(GetMetrics(series=("step",))).progress
        return told

    assert reports(2.0, 10.5).stalled_after == 600.0  # as long as nothing is known of its pace
    for number in range(1, 5):
        told = reports(2.0 + 2 * number, 10.5 + number)
    assert (told.step, told.at, told.stalled_after, told.stalls) == (10.0, 14.5, 30.0, ())
    clock.now = 89.0
    assert (made.find_step_age(TaskId("worker", 0)), made.find_step_age(TaskId("worker", 1))) == (74.5, None)
    told = made.answer(GetMetrics()).progress[0]
    assert measure_task(told, clock.now).stalled == 74.5
    told = reports(11.0, 114.5)
    assert told.stalls == ((14.5, 114.0),)
    assert reports(11.0, 115.5).changed_at == 114.5  # the same step again
    told = reports(131.0, 174.5)  # 120 steps in a minute: nothing came meanwhile, but they were made
    assert len(told.stalls) == 1
    assert measure_task(told, 174.5).rate == pytest.approx(2.0, rel=0.01)

    asyncio.run(made.finish())
    with Metrics(tmp_path / "metrics.db") as metrics:
        assert metrics.progress() == (told,)
        assert metrics.known_until == 175.0


def test_all_reports_of_a_program_count_not_only_the_samples_that_carry_them(tmp_path: Path) -> None:
    """It reports 20 steps within a second and hangs."""
    cluster = started(workers(1))
    made, clock = measuring(cluster.app.state.spec, cluster.app, tmp_path / "metrics.db")
    clock.now = 11.5
    hung = replace(sample(step=20.0), step_ago=0.5, first_step=1.0, first_ago=1.5, step_reports=20)
    made.ingest_sample(TaskId("worker", 0), hung)
    (progress,) = made.answer(GetMetrics(series=("step",))).progress
    assert (progress.at, progress.stalled_after) == (11.0, 30.0)


async def test_steps_are_written_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only with everything that is measured, and without a new one it is written that there is none."""
    monkeypatch.setattr(module, "STEP_INTERVAL_SECONDS", 0.01)
    cluster = started(workers(1))
    made, clock = measuring(cluster.app.state.spec, cluster.app, tmp_path / "metrics.db")

    def written() -> tuple[float | None, list[float]]:
        with Metrics(tmp_path / "metrics.db") as metrics:
            return metrics.known_until, [each.step for each in metrics.progress()]

    monkeypatch.setattr(module, "_FIRST_WRITE_SECONDS", 3600.0)
    monkeypatch.setattr(module, "WRITE_INTERVAL_SECONDS", 3600.0)
    clock.now = 10.0
    made.ingest_sample(TaskId("worker", 0), sample(step=7.0, cpu=1.0))
    keeping = asyncio.ensure_future(made.keep())
    await wait_until(lambda: written() == (10.0, [7.0]))
    clock.now = 20.0
    await wait_until(lambda: written()[0] == 20.0)
    keeping.cancel()
    await made.finish()


@pytest.mark.parametrize("bad", [{"x": 1.0}, {"cpu": 1e400}, {"user." + "x" * 80: 1.0}, {}])
def test_numbers_that_are_none(tmp_path: Path, bad: dict[str, float]) -> None:
    """Names that are none of ours, and what no number is, are left out."""
    cluster = started(workers(1))
    made, _ = measuring(cluster.app.state.spec, cluster.app, tmp_path / "x")
    made.ingest_sample(TaskId("worker", 0), Sample(session=1, try_=1, ago=0.0, values=bad))
    assert made.series.names == []


def test_more_checkpoints_than_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those beyond the limit only the time is known."""
    monkeypatch.setattr(module, "_MAX_CHECKPOINTS", 3)
    cluster = started(workers(1))
    made, clock = measuring(cluster.app.state.spec, cluster.app, tmp_path / "metrics.db")
    for number in range(5):
        clock.now = 10.0 * (number + 1)
        saved = (Saved(step=number, ago=0.0, took=2.0),)
        made.ingest_sample(TaskId("worker", 0), replace(sample(step=float(number)), saved=saved))

    asyncio.run(made.finish())
    with Metrics(tmp_path / "metrics.db") as metrics:
        assert len(metrics.checkpoints()) == 3
        assert metrics.progress()[0].unlisted == 4.0


def test_recomputed_work_is_measured(tmp_path: Path) -> None:
    """From the wire to the ledger: warm-up, checkpoint and steps done again, each to less than a hundredth."""
    spec = workers(1, max_restarts=1, backoff=0.0)
    cluster = started(spec)
    made, clock = measuring(spec, cluster.app, tmp_path / "metrics.db")
    worker = TaskId("worker", 0)

    def says(since: float, until: float, session: int, first_at: float, step_of_first: float) -> None:
        """One step a second from the first on, told every 5 s; at step 600 a checkpoint of 20 s had ended."""
        at = since
        while (at := at + 5.0) < until:
            clock.now = at
            message = sample(session=session, cpu=1.0)
            if at >= first_at:
                step = step_of_first + int(at - first_at)
                message = replace(
                    sample(session=session, cpu=1.0, step=step, total=4000.0),
                    first_step=step_of_first,
                    first_ago=at - first_at,
                    step_ago=(at - first_at) % 1.0,
                )
            if session == 1 and at == 700.0:
                message = replace(message, saved=(Saved(step=600, ago=2.5, took=20.0),))
            made.ingest_sample(worker, message)

    says(0.0, 1000.0, 1, 101.3, 1.0)  # its last word: step 894 at second 995
    cluster.now = 1000.0
    cluster.exit(worker, FAILED)
    cluster.settle()
    says(1000.0, 4000.0, 2, 1050.7, 600.0)
    assert made.find_resumption(cluster.app.state.tasks[worker]) == Resumption(first_step=600, reached=894, earliest=1)
    cluster.now = 4000.0
    cluster.exit(worker, OK)
    cluster.settle()
    asyncio.run(made.finish())
    from tests.history.simulated_logs import entries, record

    with Metrics(tmp_path / "metrics.db") as metrics:
        found = ledger(timeline(record(spec), entries(cluster)), metrics).seconds
        first, second = metrics.progress()
    assert (first.behind, second.behind) == (False, True)
    assert found["warm-up"] == pytest.approx(101.3 + 50.7, rel=0.01)
    assert found["checkpoint"] == pytest.approx(20.0, rel=0.01)
    assert found["redone"] == pytest.approx(294.0, rel=0.01)
    assert found["productive"] == pytest.approx(4000.0 - 152.0 - 20.0 - 294.0, rel=0.01)


async def test_a_large_job_is_written_in_pieces(tmp_path: Path) -> None:
    """Each task's numbers are there, whatever turn of the loop wrote them."""
    spec = workers(250)
    cluster = started(spec)
    made, clock = measuring(spec, cluster.app, tmp_path / "metrics.db")
    for at in (1.0, 40.0, 80.0):
        clock.now = at
        for task in cluster.app.state.tasks:
            made.ingest_sample(task, sample(cpu=float(task.index), rss=at))
        await made.write()
    await made.finish()
    with Metrics(tmp_path / "metrics.db") as metrics:
        assert len(metrics.tasks()) == 250
        assert all(metrics.read_newest()[f"worker:{n}"]["cpu"] == pytest.approx(n, rel=1e-5) for n in range(0, 250, 37))
        assert metrics.points("worker:249", "rss").most == (1.0, 40.0, 80.0)
        role = metrics.read_role_series("worker", "cpu")
        assert role.median[0] == pytest.approx(124.5, rel=1e-3)
        assert (role.most_of[0], role.tasks[0]) == ("worker:249", 250)


def test_without_sqlite_a_job_runs_with_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python that was built without it measures in memory only."""
    import sys

    monkeypatch.setitem(sys.modules, "sqlite3", None)
    monkeypatch.delitem(sys.modules, "tony.history.metrics_writer", raising=False)
    cluster = started(workers(1))
    made, _ = measuring(cluster.app.state.spec, cluster.app, tmp_path / "metrics.db")
    made.ingest_sample(TaskId("worker", 0), sample(cpu=1.0))
    asyncio.run(made.finish())
    assert "no SQLite" in made._last_error
    assert sqlite3.sqlite_version
