"""`tony compare`: two jobs side by side."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.cli.conftest import Tony
from tests.jobs.fake_am import JOB, failed, logged, recorded, succeeded
from tests.web.sample_jobs import keep
from tony.cli.terminal.terminal_text import count_columns
from tony.cli.text.compare_text import format_comparison
from tony.history.job_record import write_summary
from tony.history.json_files import write_json
from tony.history.metrics_schema import TaskMetricsUpdate
from tony.history.metrics_writer import MetricsWriter
from tony.jobs.comparison import ComparedJob, Comparison, MetricDifference, SettingDifference, format_change
from tony.model.codec import to_plain
from tony.model.job_report import Used
from tony.model.job_spec import GIB, JobSpec, Resources, Role
from tony.model.state_directory import Home

OTHER = JOB[:-1] + "d"


def job(home: Home, name: str, memory: int, cpu: float, *, good: bool) -> None:
    """A job that has ended, with something measured."""
    spec = JobSpec(
        name="digits",
        command="true",
        env={"HF_TOKEN": "very-secret", "LR": str(cpu)},
        roles={"worker": Role(instances=2, resources=Resources(memory=memory))},
    )
    folder, record = recorded(home, name, spec)
    sources = {"roles.worker.memory": "job.toml:5" if good else "--set"}
    write_json(folder.job, to_plain(replace(record, sources=sources)))
    report = succeeded(folder, record) if good else failed(folder, record)
    used = Used(gpu_hours=0.0, gb_hours=memory / GIB, core_hours=1.0)
    write_summary(folder, replace(report, used=used, ended=record.submitted + (8 if good else 16)))
    logged(folder, [])
    writer = MetricsWriter(folder.metrics, name, 5.0)
    for number in range(2):
        values = {
            "cpu": (cpu, cpu, cpu),
            "read": (0.0, 0.0, 0.0),
            "user.loss": (cpu, cpu, cpu),
            "step": (1.0, 40.0, 90.0),
        }
        writer.write([TaskMetricsUpdate(f"worker:{number}", "worker", 5.0, True, 0, values, {"step": 90.0 * cpu})])
    writer.close()


@pytest.fixture
def two(home: Home) -> None:
    """One that succeeded, and a slower one with more memory that failed."""
    job(home, JOB, GIB, 1.0, good=True)
    job(home, OTHER, 2 * GIB, 2.0, good=False)


def test_side_by_side(tony: Tony, two: None) -> None:
    """No relative change of a metric of the program, no metric that is zero in both, no secret."""
    answer = tony("compare", JOB, OTHER)
    assert (answer.code, answer.err) == (0, "")
    lines = [" ".join(line.split()) for line in answer.out.splitlines()]
    assert lines[0] == f"{JOB} {OTHER}"
    assert "state succeeded failed" in lines
    assert "took 8 s 16 s +100 %" in lines
    assert "GB-hours 1 2 +100 %" in lines
    assert any(line.startswith("root cause - worker:1") for line in lines)
    assert 'roles.worker.memory: "1g" (job.toml:5) -> "2g" (--set)' in lines
    assert any(line.startswith("settings (2 differ, ") for line in lines)
    assert lines[-3:] == ["worker cpu 1 2 +100 %", "worker step 90 180 +100 %", "worker user.loss 1 2"]
    assert "secret" not in answer.out


def test_as_json(tony: Tony, two: None) -> None:
    said = tony("compare", JOB, OTHER, "--json").json
    assert (said["a"]["state"], said["b"]["state"]) == ("succeeded", "failed")
    assert (said["a"]["took"], said["b"]["cause"]) == (8.0, "program")
    assert {
        "key": "roles.worker.memory",
        "a": {"value": "1g", "source": "job.toml:5"},
        "b": {"value": "2g", "source": "--set"},
    } in said["settings"]
    measured = {"cpu": (1.0, 2.0), "step": (90.0, 180.0), "user.loss": (1.0, 2.0)}
    assert said["measured"] == [{"role": "worker", "series": name, "a": a, "b": b} for name, (a, b) in measured.items()]


def test_of_lives(tony: Tony, home: Home) -> None:
    """With goodput and where time went; a role that one of them lacks is one line, and not twenty."""
    for number, seed in enumerate((5, 8)):
        keep(home, f"local-20260101-000000-0a1b2{number}", seed=seed)
    out = tony("compare", "0a1b20", "0a1b21").out
    assert "time of tasks:" in out
    assert "unknown" in out
    assert "  roles.evaluator: only in the first job\n" in out
    assert "roles.evaluator.memory" not in out
    same = tony("compare", "0a1b20", "0a1b20").out
    assert "settings: all " in same


def test_a_job_that_is_not_there(tony: Tony, two: None) -> None:
    assert tony("compare", JOB, "unknown").code == 2


@pytest.mark.parametrize("columns", [40, 80, 132])
def test_it_fits_the_terminal(home: Home, columns: int) -> None:
    """Long values have lines of their own; what cannot fit is cut."""
    report = succeeded(*recorded(home))
    side = ComparedJob(
        report=report,
        took=None,
        restarts=0,
        goodput=None,
        gpu_hours=None,
        gb_hours=None,
        core_hours=None,
        seconds={"productive": 5.0, "idle": None},
    )
    long = SettingDifference(key="command", a=("x" * 200, "job.toml:1"), b=None)
    found = Comparison(
        a=side, b=side, settings=(long,), same=3, measures=(MetricDifference(role="w", series="cpu", a=1, b=None),)
    )
    lines = format_comparison(found, columns)
    assert max(map(count_columns, lines)) <= columns
    assert " -> not set" in lines
    unknown = format_comparison(replace(found, settings=None), columns)
    assert any(line.startswith("settings: unknown") for line in unknown)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (1.0, 1.001, ""),
        (1.0, 1.5, "+50 %"),
        (2.0, 1.0, "-50 %"),
        (1.0, 4.0, "x 4"),
        (0.0, 1.0, ""),
        (None, 1.0, ""),
        (1.0, -1.0, ""),
    ],
)
def test_format_change(before: float | None, after: float | None, said: str) -> None:
    assert format_change(before, after) == said
