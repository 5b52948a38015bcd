"""Numbers for Prometheus: a reader that knows the format's rules finds what was there, whatever names hold."""

from __future__ import annotations

import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tony.history.prometheus_text import MOST_TASKS, JobSnapshot, exposition
from tony.model.job_report import JobReport, Restarts, TaskReport, Used
from tony.model.states import JobState, TaskState

_LINE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\"n])*",?)*)\} (\S+)')
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"')
_ESCAPE = re.compile(r"\\(.)")

Read = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parsed(text: str) -> Read:
    """Reads the format as its specification has it; refuses what breaks its rules."""
    found: Read = {}
    families: list[str] = []
    for line in text.split("\n")[:-1]:
        if line.startswith("# HELP "):
            assert re.fullmatch(r"# HELP [a-zA-Z_:][a-zA-Z0-9_:]* \S.*", line), line
            continue
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert kind in ("gauge", "counter")
            assert name not in families
            families.append(name)
            continue
        match = _LINE.fullmatch(line)
        assert match, line
        assert match[1] == families[-1]  # lines of one name stand together, behind their TYPE
        labels = _LABEL.findall(match[2])
        assert len({name for name, _ in labels}) == len(labels)
        values = frozenset((n, _ESCAPE.sub(lambda m: {"n": "\n"}.get(m[1], m[1]), v)) for n, v in labels)
        assert (match[1], values) not in found
        found[match[1], values] = float(match[3])
    return found


def job(count: int = 2, **fields: object) -> JobReport:
    tasks = tuple(TaskReport(task=f"worker:{n}", role="worker", index=n, state=TaskState.RUNNING) for n in range(count))
    report = JobReport(
        job="local-1",
        name="digits",
        state=JobState.RUNNING,
        session=2,
        attempt=1,
        exit_code=None,
        folder="/f",
        am=None,
        tasks=tasks,
        failure=None,
        user="ann",
        submitted=1000.5,
        restarts=Restarts(charged=1, most=3, free=2),
        used=Used(gpu_hours=0.5, gb_hours=8.0, core_hours=4.0),
    )
    return replace(report, **fields)  # type: ignore[arg-type]


def value(found: Read, metric: str, /, **labels: str) -> float:
    """The one line with these labels among others."""
    wanted = set(labels.items())
    (number,) = [value for (each, having), value in found.items() if each == metric and wanted <= having]
    return number


def test_metrics_of_a_job() -> None:
    """State, tasks, restarts, hours; numbers with their units in their names."""
    latest = {
        "worker:0": {"cpu": 1.5, "rss": 2**30, "gpu1.util": 0.25, "user.loss": 0.125, "net-in": 7.0, "??": 1.0},
        "ghost:9": {"cpu": 9.0},
    }
    found = parsed(exposition([JobSnapshot(report=job(), latest=latest)]))
    assert value(found, "tony_job_info", job_id="local-1", user="ann", name="digits", framework="none") == 1
    assert value(found, "tony_job_state", state="running") == 1
    assert value(found, "tony_job_state", state="failed") == 0
    assert value(found, "tony_job_tasks", role="worker", state="running") == 2
    assert value(found, "tony_job_restarts", charged="false") == 2
    assert value(found, "tony_job_gpu_hours", job_id="local-1") == 0.5
    assert value(found, "tony_job_submitted_timestamp_seconds", job_id="local-1") == 1000.5
    assert value(found, "tony_task_cpu_cores", task="worker:0", role="worker") == 1.5
    assert value(found, "tony_task_rss_bytes", task="worker:0") == 2**30
    assert value(found, "tony_task_gpu_util_ratio", gpu="1") == 0.25
    assert value(found, "tony_task_told", series="loss") == 0.125
    assert value(found, "tony_task_net_in_bytes_per_second", task="worker:0") == 7.0
    assert not any("ghost:9" in str(key) for key in found)


def test_several_jobs_share_names() -> None:
    """Each name is declared once, and its lines stand together."""
    jobs = [JobSnapshot(report=job(job=f"local-{n}", state=state)) for n, state in enumerate(JobState)]
    ended = JobSnapshot(
        report=job(job="local-x", state=JobState.FAILED, ended=2000.0, exit_code=1, restarts=None, used=None)
    )
    found = parsed(exposition([*jobs, ended]))
    assert sum(number for (name, _), number in found.items() if name == "tony_job_state") == len(jobs) + 1
    assert value(found, "tony_job_exit_code", job_id="local-x") == 1
    assert value(found, "tony_job_ended_timestamp_seconds", job_id="local-x") == 2000.0


def test_many_tasks_are_aggregated_by_role() -> None:
    """Least, mean and most, instead of a time series for each."""
    latest = {f"worker:{n}": {"cpu": float(n)} for n in range(MOST_TASKS + 1)}
    text = exposition([JobSnapshot(report=job(MOST_TASKS + 1), latest=latest)])
    found = parsed(text)
    assert value(found, "tony_role_cpu_cores", role="worker", of_tasks="most") == MOST_TASKS
    assert value(found, "tony_role_cpu_cores", of_tasks="mean") == MOST_TASKS / 2
    assert len(text) < 10_000


def test_no_jobs_are_an_empty_answer() -> None:
    assert exposition([]) == ""


@given(st.text(max_size=100), st.floats(), st.text(max_size=30))
def test_special_characters_in_names_are_escaped(name: str, number: float, series: str) -> None:
    """Quotation marks, line ends, half characters and invalid numbers break no line."""
    latest = {"worker:0": {"cpu": number, f"user.{series}": 1.0, series: 2.0}}
    found = parsed(exposition([JobSnapshot(report=job(name=name), latest=latest)]))
    info = next(dict(labels) for (each, labels) in found if each == "tony_job_info")
    clean = name.encode("utf-8", "replace").decode()
    assert info["name"] == clean if len(clean.encode()) <= 200 else clean.startswith(info["name"])
