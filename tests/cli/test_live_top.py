"""`tony top`: what tasks use now, and how far they are; drawn again on a terminal, printed once elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from tests.cli.conftest import Tony
from tests.cli.in_process_am import living
from tests.cli.screen import Terminal, shown
from tests.facts import mentions
from tests.jobs.fake_am import JOB, FakeAm, recorded, standing, succeeded
from tests.support.waiting import wait_until
from tony import clock
from tony.cli.live_top import Top
from tony.cli.terminal.terminal_text import count_columns, format_clock_time
from tony.cli.text.top_table import TopRow, TopSort, build_rows, format_top_table, list_top_series, sort_rows
from tony.history.job_record import write_summary
from tony.history.metrics_schema import TaskMetricsUpdate
from tony.history.metrics_writer import MetricsWriter
from tony.jobs.job_metrics import Reports, find_job_progress, find_task_progress
from tony.model.job_report import JobReport
from tony.model.job_spec import GIB, JobSpec, Resources, Role
from tony.model.metric_definitions import Points
from tony.model.progress import Progress, TaskProgress
from tony.model.progress_rules import measure_task
from tony.model.state_directory import Home
from tony.model.states import JobState, TaskState

WITH_GPUS = JobSpec(
    name="digits",
    command="true",
    roles={"worker": Role(instances=2, resources=Resources(memory=4 * GIB, gpus=2)), "ps": Role()},
)


@pytest.fixture(autouse=True)
def size(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 100 columns and 16 lines, without colours."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LINES", "16")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")


def points(task: str, series: str, *values: float) -> Points:
    """One series, a point each five seconds."""
    at = tuple(5.0 * (n + 1) for n in range(len(values)))
    return Points(task=task, series=series, every=5.0, at=at, least=values, mean=values, most=values)


def measured(task: str = "worker:0", base: float = 1.0) -> list[Points]:
    return [
        points(task, "cpu", base, base + 1, base + 2),
        points(task, "rss", GIB, 2.0 * GIB, 3.0 * GIB),
        points(task, "gpu0.util", 0.0, 0.5, 1.0),
        points(task, "gpu1.util", 0.0, 0.0, 0.5),
        points(task, "gpu0.memory", 1.0 * GIB),
        points(task, "gpu1.memory", 2.0 * GIB),
    ]


def reports(task: str = "worker:0", now: float = 15.0) -> Reports:
    """A fifth of its steps, two a second."""
    made = Progress(task, 1, 1, 0.0, 5.0, 20.0, 15.0, 100.0, stalled_after=30.0)
    return Reports(progress=(made,), now=now)


def at_step(step: float) -> TaskProgress:
    """A task that has come so far."""
    return measure_task(Progress("a:0", 1, 1, 0.0, 5.0, step, 15.0), 15.0)


def running(home: Home, spec: JobSpec = WITH_GPUS) -> JobReport:
    """A job all of whose programs run."""
    report = standing(*recorded(home, spec=spec), JobState.RUNNING, TaskState.RUNNING)
    return replace(report, tasks=tuple(replace(task, pid=7) for task in report.tasks), submitted=clock.wall() - 60)


class TestTable:
    def test_rows_show_the_latest_metrics(self, home: Home) -> None:
        """For each task the newest sample, for its devices mean and sum; the remaining time from its steps since its
        last start."""
        report = running(home)
        rows = build_rows(report, WITH_GPUS, measured(), reports())
        assert rows[0] == TopRow(
            task="worker:0",
            state="running",
            cpu=3.0,
            rss=3.0 * GIB,
            limit=4 * GIB,
            gpu=0.75,
            gpu_memory=3.0 * GIB,
            progress=find_task_progress(reports(), report)["worker:0"],
            cpus=(1.0, 2.0, 3.0),
            rsss=(GIB, 2.0 * GIB, 3.0 * GIB),
            gpus=[0.0, 0.25, 0.75],
        )
        assert rows[1].cpu is None
        text = format_top_table(report, rows, clock.wall(), None, None, progress=find_job_progress(reports(), report))
        assert text[0].startswith("running for 1 m 0")
        assert mentions(text[1], "3 of 3", "3 cores", "3 GiB", "75 %", "20 %", "40 s", "running", "GPUs")
        assert text[2].split() == ["TASK", "STATE", "CPU", "MEMORY", "GPU", "GPU", "MEM", "STEP", "PROGRESS", "LEFT"]
        assert (
            " ".join(text[3].split())
            == "worker:0 running 3 ▃▆█ 3 GiB 75% ▃▆█ 75 % ▁▃█ 3 GiB 20/100 ██░░░░░░░░ 20% 40 s"
        )

    def test_of_a_program_that_is_over_nothing_is_left(self, home: Home) -> None:
        """However many steps it said there would be."""
        report = running(home)
        over = replace(report.tasks[0], pid=None, state=TaskState.SUCCEEDED)
        row = build_rows(replace(report, tasks=(over, *report.tasks[1:])), WITH_GPUS, measured(), reports())[0]
        assert row.progress is not None
        assert (row.progress.step, row.progress.total, row.progress.left) == (20.0, 100.0, None)

    def test_a_succeeded_task_counts_as_complete(self, home: Home) -> None:
        """Fewer steps than announced are no share for a succeeded program, nor for any task of a succeeded job."""
        report = running(home)
        over = replace(report.tasks[0], pid=None, state=TaskState.SUCCEEDED)
        one = replace(report, tasks=(over, *report.tasks[1:]))
        for each in (one, replace(report, state=JobState.SUCCEEDED, ended=clock.wall())):
            rows = build_rows(each, WITH_GPUS, measured(), reports())
            text = "\n".join(format_top_table(each, rows, clock.wall(), None, None))
            assert rows[0].progress is not None
            assert (rows[0].progress.step, rows[0].progress.share) == (20.0, None)
            assert "20/100" in text
            assert "20%" not in text
            assert "20 % done" not in text
        failed = replace(report, state=JobState.FAILED, ended=clock.wall())
        row = build_rows(failed, WITH_GPUS, measured(), reports())[0]
        assert row.progress is not None
        assert row.progress.share == 0.2

    def test_a_stalled_task_has_no_end(self, home: Home) -> None:
        """In its row and in the line of the job stands for how long it has been stalled."""
        report = running(home)
        hung = reports(now=89.0)
        rows = build_rows(report, WITH_GPUS, measured(), hung)
        text = format_top_table(report, rows, clock.wall(), None, None, progress=find_job_progress(hung, report))
        assert text[1].endswith("20 % done, worker:0 stalled for 1 m 14 s")
        assert text[3].endswith("20%  stalled 1 m 14 s")

    def test_a_task_that_waits_for_the_stalled_one_is_not_called_stalled(self, home: Home) -> None:
        report = replace(running(home), stalled_task="worker:1")
        hung = reports(now=89.0)
        rows = build_rows(report, WITH_GPUS, measured(), hung)
        text = format_top_table(report, rows, clock.wall(), None, None, progress=find_job_progress(hung, report))
        assert text[1].endswith("20 % done, no step for 1 m 14 s, waiting for worker:1")
        assert text[3].endswith("20%  waiting 1 m 14 s")

    def test_columns_of_which_nothing_is_known_are_left_out(self, home: Home) -> None:
        """And so are spark lines where there is no room; no line is too long."""
        report = running(home)
        text = format_top_table(report, build_rows(report, WITH_GPUS, [], Reports()), clock.wall(), 80, 20)
        assert text[2].split() == ["TASK", "STATE"]
        for columns in (20, 40, 60, 79):
            text = format_top_table(
                report, build_rows(report, WITH_GPUS, measured(), reports()), clock.wall(), columns, 20, keys=True
            )
            assert max(map(count_columns, text)) <= columns
        assert "▃" not in "".join(text)

    def test_without_utf_8(self, home: Home) -> None:
        report = running(home)
        rows = build_rows(report, WITH_GPUS, measured(), reports())
        assert "".join(format_top_table(report, rows, clock.wall(), None, None, unicode=False)).isascii()

    def test_as_many_rows_as_there_is_room(self, home: Home) -> None:
        """The first ones in the order that was chosen; how many more there are."""
        spec = JobSpec(name="x", command="x", roles={"worker": Role(instances=1000)})
        report = running(home, spec)
        told = [each for n in range(1000) for each in [points(f"worker:{n}", "cpu", float(n))]]
        text = format_top_table(
            report, build_rows(report, spec, told, Reports()), clock.wall(), 80, 10, TopSort.CPU, keys=True
        )
        assert len(text) == 10
        assert [line.split()[0] for line in text[3:8]] == [f"worker:{n}" for n in range(999, 994, -1)]
        assert text[8] == "and 995 more"
        assert text[9].startswith("sorted by cpu; t task, s state, c cpu, m memory, g gpu, p progress, q quit")

    def test_orders(self) -> None:
        """Unknown values sort last; by progress the slowest task is first."""
        rows = [
            TopRow(task="a", state="running", cpu=1.0, rss=3.0, gpu=None, progress=at_step(5.0)),
            TopRow(task="b", state="failed", cpu=None, rss=None, gpu=0.5),
            TopRow(task="c", state="running", cpu=2.0, rss=1.0, gpu=0.1, progress=at_step(3.0)),
        ]
        orders = {sort.value: "".join(row.task for row in sort_rows(rows, sort)) for sort in TopSort}
        assert orders == {"task": "abc", "state": "bac", "cpu": "cab", "memory": "acb", "gpu": "bca", "progress": "bca"}

    def test_requested_series_cover_all_devices(self) -> None:
        """As many devices as any task was granted."""
        assert list_top_series(WITH_GPUS) == (
            *("cpu", "rss"),
            *("gpu0.util", "gpu0.memory", "gpu1.util", "gpu1.memory"),
        )


def watched(home: Home, tell: Callable[[FakeAm, Terminal, Top], Coroutine[Any, Any, None]]) -> list[str]:
    """What a screen shows in the end of a job that lives while something happens to it."""
    folder, record = recorded(home, spec=WITH_GPUS)
    terminal = Terminal()

    async def work() -> None:
        async with FakeAm(folder, running(home)) as master:
            master.measured, master.progress = measured(), reports().progress
            top = Top(home, record, terminal, TopSort.TASK)
            async with asyncio.timeout(60), asyncio.TaskGroup() as group:
                group.create_task(tell(master, terminal, top))
                await top.run()

    asyncio.run(work())
    return shown(terminal, 100, 16)


class TestLive:
    def test_it_ends_with_the_job(self, home: Home) -> None:
        """The last table stays: one, with the job's end in it, and nothing about keys."""

        async def tell(master: FakeAm, terminal: Terminal, top: Top) -> None:
            await wait_until(lambda: "20/100" in terminal.text)
            folder, record = master.folder, recorded_of(home)
            await master.finish(succeeded(folder, record))

        rows = watched(home, tell)
        assert rows[0].startswith("succeeded after 8 s  session 1  digits")
        assert [row.split()[0] for row in rows[2:]] == ["TASK", "worker:0", "worker:1", "ps:0"]

    def test_keys(self, home: Home) -> None:
        """One sorts, one quits; the table is drawn in its place each time."""

        async def tell(master: FakeAm, terminal: Terminal, top: Top) -> None:
            await wait_until(lambda: "sorted by task" in terminal.text)
            master.measured = measured("worker:1", 9.0)
            top._on_key("c")
            await wait_until(lambda: "sorted by cpu" in terminal.text)
            top._on_key("x")
            await wait_until(lambda: "11 " in shown(terminal, 100, 16)[3])
            top._on_key("q")

        rows = watched(home, tell)
        assert sum(row.startswith("TASK") for row in rows) == 1
        assert rows[3].startswith("worker:1")
        assert rows[-1].startswith("sorted by cpu; ")

    def test_an_am_that_restarts(self, home: Home) -> None:
        """The last values stay on the screen, with a note that the AM is being contacted again."""

        async def tell(master: FakeAm, terminal: Terminal, top: Top) -> None:
            await wait_until(lambda: "20/100" in terminal.text)
            master.hang_up()
            await wait_until(lambda: master.watched)
            top._on_key("q")

        assert any("20/100" in row for row in watched(home, tell))


def recorded_of(home: Home) -> Any:
    from tony.history.job_record import record_of

    return record_of(home, JOB)


class TestElsewhere:
    def test_one_table_and_out(self, tony: Tony, home: Home) -> None:
        """Where the output is no terminal."""
        folder, _ = recorded(home, spec=WITH_GPUS)
        with living(folder, running_of(home)) as beside:
            beside.master.measured, beside.master.progress = measured(), reports().progress
            answer = tony("top", JOB, "--sort", "memory")
            said = tony("top", JOB, "--json").json
        assert (answer.code, answer.err) == (0, "")
        assert "worker:0  running  3    ▃▆█  3 GiB 75%" in answer.out
        assert (said["state"], said["ended"]) == ("running", None)
        assert said["tasks"][0]["task"] == "worker:0"
        assert said["tasks"][0]["left"] == 40

    def test_of_an_ended_job(self, tony: Tony, home: Home) -> None:
        """It says that the job has ended, and when, so that old values are not taken for current ones."""
        folder, record = recorded(home)
        report = succeeded(folder, record)
        write_summary(folder, report)
        line = tony("top", JOB).out.splitlines()[1]
        assert line.startswith(f"ended at {format_clock_time(report.ended)}, ")
        assert line.endswith(" ago")
        assert tony("top", JOB, "--json").json["ended"] == report.ended
        writer = MetricsWriter(folder.metrics, JOB, 5.0)
        writer.write([TaskMetricsUpdate("worker:0", "worker", 5.0, True, 0, {"cpu": (2.0, 2.5, 3.0)})])
        writer.close()
        assert tony("top", JOB).out.splitlines()[1].endswith(" ago; last values: 2.5 cores")


def running_of(home: Home) -> JobReport:
    """The report of a job that is recorded already."""
    report = standing(home.job(JOB), recorded_of(home), JobState.RUNNING, TaskState.RUNNING)
    return replace(report, tasks=tuple(replace(task, pid=7) for task in report.tasks))
