"""`tony metrics`: metrics as tables, as lines for programs, as JSON; of ended jobs and of living ones."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from tests.cli.conftest import Tony
from tests.cli.in_process_am import living
from tests.facts import mentions
from tests.jobs.fake_am import JOB, logged, recorded, standing, succeeded
from tony.cli.text.metric_values import draw_sparkline
from tony.cli.text.metrics_text import format_task_table
from tony.core import events as ev
from tony.history.job_record import write_summary
from tony.history.metrics_schema import TaskMetricsUpdate
from tony.history.metrics_writer import MetricsWriter
from tony.jobs.job_metrics import sort_series
from tony.model.job_report import JobReport
from tony.model.job_spec import JobSpec, Role
from tony.model.metric_definitions import Points
from tony.model.state_directory import Home, JobFolder
from tony.model.states import JobState, TaskState

MANY = JobSpec(name="digits", command="true", roles={"worker": Role(instances=30)})


def measure(folder: JobFolder, tasks: int = 2) -> None:
    """Three samples of each task: cpu and rss, of task n more than of the one before."""
    writer = MetricsWriter(folder.metrics, folder.job_id, 5.0)
    for number_ in range(tasks):
        cpu = tuple(value + number_ for value in (1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 3.0, 3.0, 3.0))
        series = {"cpu": cpu, "rss": tuple(2.0**30 for _ in cpu), "threads": cpu}
        writer.write([TaskMetricsUpdate(f"worker:{number_}", "worker", 5.0, True, 0, series)])
    writer.close()


def newest(task: str, series: str, *at: float) -> Points:
    """What a living master says: 7.0 at each moment."""
    values = tuple(7.0 for _ in at)
    return Points(task=task, series=series, every=5.0, at=at, least=values, mean=values, most=values)


@pytest.fixture
def ended(home: Home) -> JobFolder:
    folder, record = recorded(home)
    logged(folder, [ev.AttemptStarted(attempt=1, wall=1.0, settings="", pid=1, host="h")])
    measure(folder)
    write_summary(folder, succeeded(folder, record))
    return folder


def running(home: Home) -> tuple[JobFolder, JobReport]:
    folder, record = recorded(home)
    return folder, standing(folder, record, JobState.RUNNING, TaskState.RUNNING)


def test_a_table_of_tasks(tony: Tony, ended: JobFolder) -> None:
    """The usual series of each task, with a spark line; others when they are named."""
    answer = tony("metrics", JOB)
    assert (answer.code, answer.err) == (0, "")
    rows = [line.split() for line in answer.out.splitlines()]
    assert rows[0] == ["TASK", "SERIES", "NEWEST", "MEAN", "LEAST", "MOST"]
    assert rows[1][:6] == ["worker:0", "cpu", "3", "2", "1", "3"]
    assert rows[1][6] == "▃▆█"
    assert rows[2][:3] == ["worker:0", "rss", "1"]
    assert len(rows) == 5
    rows = [line.split() for line in tony("metrics", JOB, "--series", "thr*", "worker:1").out.splitlines()]
    assert [row[:2] for row in rows[1:]] == [["worker:1", "threads"]]


def test_lines_for_programs(tony: Tony, ended: JobFolder) -> None:
    """Comma-separated, with the time of the clock and the unit."""
    answer = tony("metrics", JOB, "--csv", "worker:0", "--series", "cpu,rss")
    rows = list(csv.DictReader(io.StringIO(answer.out)))
    assert [row["mean"] for row in rows if row["series"] == "cpu"] == ["1", "2", "3"]
    assert rows[0] == {
        "task": "worker:0",
        "series": "cpu",
        "unit": "cores",
        "at": "5",
        "time": "1700000005.000",
        "every": "5",
        "least": "1",
        "mean": "1",
        "most": "1",
    }


def test_json(tony: Tony, ended: JobFolder) -> None:
    said = tony("metrics", JOB, "--json").json
    assert [(each["task"], each["series"]) for each in said][:3] == [
        ("worker:0", "cpu"),
        ("worker:0", "rss"),
        ("worker:0", "threads"),
    ]
    assert (said[0]["at"], said[0]["mean"], said[0]["unit"]) == ([5, 10, 15], [1, 2, 3], "cores")
    assert tony("metrics", JOB, "--json", "--points", "2").json[0]["at"] != [5, 10, 15]


def test_of_many_tasks_one_row_of_each_role(tony: Tony, home: Home) -> None:
    """The middle of all, and whose are the extremes; a task that is named has its own row."""
    folder, record = recorded(home, spec=MANY)
    measure(folder, 30)
    write_summary(folder, succeeded(folder, record))
    lines = tony("metrics", JOB).out.splitlines()
    assert lines[0].split() == ["ROLE", "SERIES", "TASKS", "MEDIAN", "LEAST", "MOST"]
    assert lines[1].split()[:8] == ["worker", "cpu", "30", "16.5", "2", "(worker:0)", "31", "(worker:29)"]
    assert tony("metrics", JOB, "worker:29", "--series", "cpu").out.splitlines()[1].startswith("worker:29")


def test_a_living_master_knows_more(tony: Tony, home: Home) -> None:
    """What it says goes behind what was written down, each moment once; it is asked in as many pieces as it takes."""
    folder, report = running(home)
    measure(folder)
    with living(folder, report) as beside:
        beside.master.measured = [newest("worker:0", "cpu", 15.0, 20.0), newest("worker:1", "step", 20.0)]
        beside.master.room = 1
        said = tony("metrics", JOB, "--json").json
    found = {(each["task"], each["series"]): each for each in said}
    assert found["worker:0", "cpu"]["at"] == [5, 10, 15, 20]
    assert found["worker:0", "cpu"]["mean"] == [1, 2, 3, 7]
    assert found["worker:1", "step"]["mean"] == [7]


def test_nothing_to_show(tony: Tony, home: Home) -> None:
    """It says why: nothing yet, a file that is none, a name that nothing has, nothing wanted."""
    folder, report = running(home)
    with living(folder, report):
        assert mentions(tony("metrics", JOB).err, f"tony status {JOB}")
    record = recorded(home, JOB[:-1] + "d", JobSpec(name="x", command="true", metrics_interval=0.0))
    write_summary(record[0], succeeded(*record))
    assert tony("metrics", record[0].job_id).err == "tony: no metrics: metrics_interval is 0s\n"
    other = recorded(home, JOB[:-1] + "e")
    write_summary(other[0], succeeded(*other))
    Path(other[0].metrics).write_bytes(b"nonsense" * 1000)
    answer = tony("metrics", other[0].job_id)
    assert (answer.code, answer.out) == (0, "")
    assert "no metrics: metrics.db cannot be read" in answer.err
    Path(other[0].metrics).unlink()
    job = other[0].job_id
    assert mentions(tony("metrics", job).err, f"tony status {job}")


@pytest.mark.parametrize(
    ("least", "most", "newest"),
    [
        ((4.0, 35.0), (34.0, 59.0), "59"),
        ((4.0, 0.0), (34.0, 40.0), "40"),  # it began anew within the last point: the highest one that it reached
    ],
)
def test_the_newest_step(least: tuple[float, ...], most: tuple[float, ...], newest: str) -> None:
    """Not the mean of the last seconds, but the step that was reported last."""
    mean = tuple((low + high) / 2 for low, high in zip(least, most, strict=True))
    points = Points(task="worker:0", series="step", every=5.0, at=(5.0, 10.0), least=least, mean=mean, most=most)
    assert format_task_table([points], None, unicode=True)[1].split()[2] == newest


@pytest.mark.parametrize("how", [(), ("--csv",), ("--json",)])
def test_a_series_that_is_not_there(tony: Tony, ended: JobFolder, how: tuple[str, ...]) -> None:
    """That is an error: it names those that are there. Of several the others are shown."""
    answer = tony("metrics", JOB, "--series", "cpus,gpu*.util", *how)
    said = f"job {JOB} has no series 'cpus', 'gpu*.util'; it has cpu, rss, threads"
    assert (answer.code, answer.err) == (2, f"tony: {said}\n")
    if "--json" in how:
        assert answer.json["error"]["message"] == said
    else:
        assert answer.out == ""
    answer = tony("metrics", JOB, "--series", "cpus,rss", *how)
    assert answer.code == 0
    assert mentions(answer.err, "cpus", f"job {JOB}", "cpu, rss, threads")
    assert "rss" in answer.out


def test_a_series_that_only_others_have(tony: Tony, ended: JobFolder) -> None:
    """It is there, but not of the task that was named."""
    writer = MetricsWriter(ended.metrics, JOB, 5.0)
    writer.write([TaskMetricsUpdate("worker:1", "worker", 5.0, False, 0, {"files": (1.0, 1.0, 1.0)})])
    writer.close()
    assert tony("metrics", JOB, "--series", "files", "worker:1").code == 0
    answer = tony("metrics", JOB, "--series", "files", "worker:0")
    assert (answer.code, answer.out) == (2, "")
    assert mentions(answer.err, "worker:0", "tony metrics")
    assert tony("metrics", JOB, "--series", "files", "worker:0", "--json").json["error"]["exit_code"] == 2
    answer = tony("metrics", JOB, "--series", "files", "worker:0", "--csv")
    assert (answer.code, answer.out) == (2, "")


def test_a_series_while_the_am_does_not_answer(tony: Tony, home: Home) -> None:
    """Unwritten samples are only in the AM: the answer does not claim that there are none."""
    folder, _ = running(home)
    measure(folder)
    answer = tony("metrics", JOB, "--series", "step")
    assert answer.code == 0
    assert mentions(answer.err, "step", "cpu, rss, threads")


def test_a_series_that_only_the_master_knows(tony: Tony, home: Home) -> None:
    """What is too new to be written down is there, and named."""
    folder, report = running(home)
    measure(folder)
    with living(folder, report) as beside:
        beside.master.measured = [newest("worker:1", "step", 20.0)]
        answer = tony("metrics", JOB, "--series", "step")
        assert (answer.code, answer.err) == (0, "")
        answer = tony("metrics", JOB, "--series", "steps")
        assert answer.code == 2
        assert mentions(answer.err, "steps", f"job {JOB}", "cpu, rss, threads, step")
        answer = tony("metrics", JOB, "--series", "step", "worker:0")
        assert (answer.code, "worker:0 has none of these series yet" in answer.err) == (0, True)


def test_sparks() -> None:
    """Bars from the least to the most, or from zero; gaps; digits where there are no bars."""
    assert draw_sparkline([0.0, 1.0, 2.0, 7.0], 10) == "▁▂▃█"
    assert draw_sparkline([5.0, 6.0], 10) == "▁█"
    assert draw_sparkline([5.0, 6.0], 10, from_zero=True) == "▇█"
    assert draw_sparkline([0.0, None, 7.0], 10, unicode=False) == "0_7"
    assert draw_sparkline([], 10) == draw_sparkline([None, float("nan")], 10) == ""
    assert draw_sparkline([1.0] * 3, 10) == "▁▁▁"
    assert len(draw_sparkline([float(n) for n in range(1000)], 24)) == 24
    assert draw_sparkline([-1e308, 1e308], 2) in ("▁█", "▁▁")


def test_order_of_series() -> None:
    assert sort_series(["user.loss", "gpu0.util", "rss", "cpu"]) == ["cpu", "rss", "gpu0.util", "user.loss"]
