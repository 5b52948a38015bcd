"""A report as lines: every fact of a task on one, and no more than the terminal has room for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.cli.text.test_status_changes import report, task
from tests.facts import mention_each, mentions
from tests.jobs.fake_am import FAILURE
from tony import clock
from tony.cli.text.status_text import format_live_table, format_status
from tony.model.failure import FailureClass
from tony.model.ids import TaskId
from tony.model.job_report import JobReport, RoleSize
from tony.model.states import JobState, TaskState

#: 2026-01-31, 12:00:00 UTC.
NOON = 1_769_860_800.0
MISSING = "container started, has not reported yet"


@pytest.fixture(autouse=True)
def noon(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """It is noon in UTC, on every machine."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.setattr(clock, "wall", lambda: NOON)
    real = time.localtime
    monkeypatch.setattr(time, "localtime", lambda seconds=NOON: real(seconds))
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def running() -> JobReport:
    tasks = (
        task("worker:0", TaskState.RUNNING, since=NOON - 65, last_output_age=0.4, pid=123),
        task("worker:1", TaskState.STARTING, since=NOON - 12, note=MISSING, host="there"),
    )
    waiting = f"waiting 12 s for worker:1: {MISSING}"
    return replace(
        report(JobState.STARTING, waiting=waiting, submitted=NOON - 3700.0), job="local-1", tasks=tasks, session=1
    )


def test_a_starting_job(running: JobReport) -> None:
    """One line per task: state, host, pid, since when, session, age of the last line, exit; then who is missing."""
    assert format_status(running) == [
        "local-1  digits  starting  session 1  submitted 10:58:20, for 1 h 01 m",
        "TASK      STATE     HOST   PID  SINCE                SESSION  OUTPUT     EXIT  NOTE",
        "worker:0  running   here   123  11:58:55 (1 m 05 s)  1        0.4 s ago  -",
        f"worker:1  starting  there  -    11:59:48 (12 s)      1        -          -     {MISSING}",
        "",
        "waiting 12 s for worker:1: container started, has not reported yet",
    ]


def test_a_training_job(running: JobReport) -> None:
    """Step, rate and memory, where they are known; what is not known of any task has no column."""
    first, second = running.tasks
    tasks = (replace(first, step=120.0, total=400.0, rate=2.5, memory=1.5 * (1 << 30)), replace(second, note=""))
    lines = format_status(replace(running, waiting="", stragglers="worker:0 is slow: 2 s a step", tasks=tasks))
    assert lines[1:] == [
        "TASK      STATE     HOST   PID  SINCE                SESSION  STEP     RATE   MEMORY   OUTPUT     EXIT",
        "worker:0  running   here   123  11:58:55 (1 m 05 s)  1        120/400  2.5/s  1.5 GiB  0.4 s ago  -",
        "worker:1  starting  there  -    11:59:48 (12 s)      1        -        -      -        -          -",
        "",
        "worker:0 is slow: 2 s a step",
        "",
        "Next:",
        "  tony top local-1  # the use of each task",
    ]
    live = format_live_table(replace(running, waiting="", tasks=tasks), NOON, 65, 10)
    assert live[1:] == [
        "TASK      STATE     STEP     RATE   MEMORY   OUTPUT     NOTE",
        "worker:0  running   120/400  2.5/s  1.5 GiB  0.4 s ago",
        "worker:1  starting  -        -      -        -",
    ]


def test_a_job_with_fewer_tasks_than_it_asks_for(running: JobReport) -> None:
    """How many each such role has in this session, below the tasks."""
    sizes = (RoleSize(role="worker", tasks=1, least=1, most=2, left_out=(TaskId("worker", 1),)),)
    lines = format_status(replace(running, waiting="", sizes=sizes))
    assert lines[-3:] == ["", "Session 1:", "  worker has 1 of 2 tasks (min 1)"]


@pytest.mark.parametrize(
    ("state", "states", "said"),
    [
        (JobState.STARTING, "registered starting", "has 2 of 2 tasks (min 1)"),
        (JobState.STARTING, "registered requested", "requests 2 of 2 tasks (min 1); 1 with a container"),
        (JobState.QUEUED, "requested requested", "requests 2 of 2 tasks (min 1); none with a container"),
        (JobState.QUEUED, "pending pending", "requests 2 of 2 tasks (min 1); none with a container"),
        (JobState.SUCCEEDED, "succeeded stopped", "has 2 of 2 tasks (min 1)"),
        (JobState.FAILED, "stopped stopped", "requested 2 of 2 tasks (min 1); none of them ran"),
    ],
)
def test_container_counts_of_a_queued_or_restarting_job(state: JobState, states: str, said: str) -> None:
    """How many are wanted, and how many are there: a container is not taken for granted."""
    session = 0 if "none" in said else 1
    tasks = tuple(task(f"worker:{n}", TaskState(word), session=session) for n, word in enumerate(states.split()))
    size = RoleSize(role="worker", tasks=2, least=1, most=2)
    assert f"  worker {said}" in format_status(replace(report(state), tasks=tasks, sizes=(size,)))


def test_a_job_that_failed() -> None:
    """The page of its failure is below; a note that only repeats the exit is left out."""
    tasks = (
        task(
            "worker:0",
            TaskState.STOPPED,
            note="killed by SIGTERM",
            note_repeats_exit=True,
            signal="SIGTERM",
            since=NOON,
        ),
        task("worker:1", TaskState.FAILED, note="exit code 3", note_repeats_exit=True, exit_code=3, since=NOON),
    )
    ended = report(JobState.FAILED, submitted=NOON - 8, ended=NOON, exit_code=1, failure=FAILURE)
    lines = format_status(replace(ended, tasks=tasks, job="local-1", folder="/f"))
    assert lines[:4] == [
        "local-1  digits  failed  session 1  submitted 11:59:52, took 8 s  exit code 1",
        "TASK      STATE    HOST  PID  SINCE           SESSION  OUTPUT  EXIT",
        "worker:0  stopped  here  -    12:00:00 (0 s)  1        -       SIGTERM",
        "worker:1  failed   here  -    12:00:00 (0 s)  1        -       3",
    ]
    assert mention_each(lines[4:6], ("",), ("code 3", "8 s", "local-1", "failed", "worker:1", "here"))
    assert lines[-3:] == ["", "Next:", "  tony rerun local-1 --restage  # run it again, once the program is corrected"]


def test_a_job_in_its_second_session(running: JobReport) -> None:
    """What failed the first is said as long as the job lives."""
    lines = format_status(replace(running, session=2, attempt=2, failure=FAILURE))
    assert lines[0].startswith("local-1  digits  starting  session 2  AM attempt 2")
    assert mentions(lines[-5], "session 1", "worker:1 on here: exit code 3")
    assert lines[-2:] == [
        "  tony why local-1                        # why session 1 failed",
        "  tony logs local-1 worker:1 --session 1  # its whole output",
    ]


def test_many_restarts(running: JobReport) -> None:
    reasons = {number: f"why {number}" for number in range(2, 12)}
    lines = format_status(replace(running, session=11), sessions=reasons)
    at = lines.index("Restarted 10 times, the last 5:")
    assert lines[at - 1 : at + 3] == ["", lines[at], "  session 7 after why 7", "  session 8 after why 8"]
    assert "Restarted once:" in format_status(replace(running, session=2), sessions={2: "why"})


def test_a_job_that_is_being_killed(running: JobReport) -> None:
    killed = replace(FAILURE, failure_class=FailureClass.KILLED, reason="killed by ann")
    assert format_status(replace(running, failure=killed))[-1] == "killed by ann"


def test_before_anything_runs() -> None:
    """Everything that is not known is a dash."""
    pending = report(JobState.SUBMITTED, submitted=NOON)
    bare = replace(pending, session=0, tasks=(replace(pending.tasks[0], host=None, session=0),))
    assert format_status(bare) == [
        "j  digits  submitted  submitted 12:00:00, for 0 s",
        "TASK      STATE    HOST  PID  SINCE  SESSION  OUTPUT  EXIT",
        "worker:0  pending  -     -    -      -        -       -",
    ]


def test_a_narrow_terminal(running: JobReport) -> None:
    lines = format_status(running, 40)
    assert lines[1:4] == [
        "TASK      STATE     EXIT  NOTE",
        "worker:0  running   -",
        "worker:1  starting  -     container sta…",
    ]
    assert all(len(line) <= 40 for line in lines[1:4])


def test_the_live_table(running: JobReport) -> None:
    """The same facts, as long as they are news."""
    assert format_live_table(running, NOON, columns=100, rows=10) == [
        "starting for 1 h 01 m  session 1  digits  local-1",
        "TASK      STATE     HOST   PID  FOR       OUTPUT     NOTE",
        "worker:0  running   here   123  1 m 05 s  0.4 s ago",
        "worker:1  starting  there  -    12 s      -          container started, has not reported yet",
        "waiting 12 s for worker:1: container started, has not reported yet",
    ]


def test_the_live_table_on_a_narrow_terminal(running: JobReport) -> None:
    """No line is longer than the terminal: it would break the redrawing."""
    for columns in (10, 20, 40, 60):
        assert all(len(line) <= columns for line in format_live_table(running, NOON, columns, rows=10))


def test_the_live_table_of_a_large_job() -> None:
    """More tasks than room: one row for each role, its states counted."""
    states = {f"worker:{n}": TaskState.RUNNING if n else TaskState.FAILED for n in range(1000)}
    large = report(JobState.RUNNING, {"chief:0": TaskState.RUNNING, **states}, submitted=NOON)
    assert format_live_table(large, NOON, columns=80, rows=8)[1:] == [
        "ROLE    TASKS",
        "chief   1 running",
        "worker  1 failed, 999 running",
    ]


def test_the_live_table_shows_how_programs_ended() -> None:
    tasks = (
        task("a:0", TaskState.FAILED, signal="SIGSEGV", since=NOON),
        task("a:1", TaskState.FAILED, exit_code=2, since=NOON),
        task("a:2", TaskState.SUCCEEDED, exit_code=0, note="exit code 0", note_repeats_exit=True, since=NOON),
    )
    rows = format_live_table(replace(report(submitted=NOON), tasks=tasks), NOON, columns=80, rows=8)
    assert [row.split()[-1] for row in rows[2:]] == ["SIGSEGV", "2", "-"]


def test_a_long_sentence_takes_several_rows_of_the_live_table_and_its_command_another_one(running: JobReport) -> None:
    waiting = "no step for 41 s: worker:1 (last step 1,204) is in recv at train.py:88; the other 3 are in all_reduce"
    shown = replace(running, waiting=waiting, stalled=True)
    rows = format_live_table(shown, NOON, columns=60, rows=10)
    assert " ".join(rows[-3:-1]) == waiting
    assert rows[-1] == f"see: tony stacks {running.job}"
    endless = format_live_table(replace(running, waiting="word " * 200), NOON, columns=60, rows=10)
    assert len(endless) == len(rows)
    assert endless[-1].endswith("…")


def test_unfinished_tasks_are_on_every_report_of_a_job(running: JobReport) -> None:
    """`tony status` and the live table have a line for it."""
    text = "chief:0 has succeeded; still waiting for worker:0-1"
    shown = replace(running, waiting="", unfinished=text)
    assert text in format_status(shown)
    assert text in format_live_table(shown, NOON, columns=100, rows=10)
