"""A person who follows a job is told what changes, and who is missing for too long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.facts import mention_each
from tests.jobs.fake_am import FAILURE
from tony.cli.text.status_changes import StatusChanges
from tony.model.ids import TaskId
from tony.model.job_report import JobReport, RoleSize, TaskReport
from tony.model.states import JobState, TaskState


def task(name: str, state: TaskState = TaskState.PENDING, **more: object) -> TaskReport:
    role, _, index = name.partition(":")
    known = {"host": "here", "pid": 7 if state is TaskState.RUNNING else None, "session": 1}
    return TaskReport(task=name, role=role, index=int(index), state=state, **{**known, **more})  # type: ignore[arg-type]


def report(
    state: JobState = JobState.STARTING, tasks: Mapping[str, TaskState] | None = None, **more: object
) -> JobReport:
    known = {
        "job": "j",
        "name": "digits",
        "session": 1,
        "attempt": 1,
        "exit_code": None,
        "folder": "/f",
        "am": None,
        "failure": None,
        "submitted": 100.0,
    }
    states = tasks or {"worker:0": TaskState.PENDING}
    made = tuple(task(name, word) for name, word in states.items())
    return JobReport(state=state, **{"tasks": made, **known, **more})  # type: ignore[arg-type]


@pytest.fixture
def story() -> StatusChanges:
    story = StatusChanges()
    story.describe(report(), 0.0)
    return story


def test_a_finished_job() -> None:
    last = report(JobState.SUCCEEDED, {"worker:0": TaskState.SUCCEEDED}, ended=108.0)
    assert mention_each(StatusChanges().describe(last, 0.0), ("worker:0 succeeded",), ("8 s", "succeeded"))


def test_a_started_program_is_reported_with_its_pid(story: StatusChanges) -> None:
    """Not before the pid is known."""
    told = replace(task("worker:0", TaskState.RUNNING), pid=None)
    assert story.describe(report(JobState.RUNNING, tasks=None), 1.0) == []
    assert story.describe(replace(report(JobState.RUNNING), tasks=(told,)), 2.0) == []
    assert story.describe(replace(report(JobState.RUNNING), tasks=(replace(told, pid=9),)), 3.0) == [
        "Started worker:0 on here (pid 9)"
    ]
    assert story.describe(replace(report(JobState.RUNNING), tasks=(replace(told, pid=9),)), 4.0) == []


def test_a_failure_has_its_reason(story: StatusChanges) -> None:
    """By its note, its signal or its code."""
    for more, said in (
        ({"note": "ran out of memory (limit 1g)"}, "worker:0 failed: ran out of memory (limit 1g)"),
        ({"signal": "SIGKILL", "session": 2}, "worker:0 failed: SIGKILL"),
        ({"exit_code": 3, "session": 3}, "worker:0 failed: exit code 3"),
        ({"session": 4}, "worker:0 failed"),
    ):
        assert story.describe(replace(report(), tasks=(task("worker:0", TaskState.FAILED, **more),)), 1.0) == [said]


def test_many_tasks_share_one_line(story: StatusChanges) -> None:
    states = {f"worker:{n}": TaskState.RUNNING for n in range(64)} | {"chief:0": TaskState.RUNNING}
    assert story.describe(report(JobState.RUNNING, states), 1.0) == ["Started worker:0-63, chief:0"]


def test_a_lone_restart_is_reported_with_its_failure(story: StatusChanges) -> None:
    """While it waits, once for each task attempt; the new pid follows."""

    def tell(state: TaskState, try_: int, note: str, pid: int | None = None) -> list[str]:
        now = task("worker:0", state, try_=try_, note=note, pid=pid)
        return story.describe(replace(report(JobState.RUNNING), tasks=(now,)), 1.0)

    first, second = (f"worker:0 on here: exit code 3 (restart {n} of 3)" for n in (1, 2))
    waits = f"starts again in 2 s: {second}"
    assert tell(TaskState.RUNNING, 1, "", 7) == ["Started worker:0 on here (pid 7)"]
    assert tell(TaskState.RUNNING, 2, f"try 2, for before: {first}", 8) == [
        f"Restarting worker:0: try 2, for before: {first}",
        "Started worker:0 on here (pid 8)",
    ]
    assert tell(TaskState.REGISTERED, 2, waits) == [f"Restarting worker:0: {waits}"]
    assert tell(TaskState.REGISTERED, 2, waits.replace("2 s", "1 s")) == []
    assert tell(TaskState.RUNNING, 3, f"try 3, for before: {second}", 9) == ["Started worker:0 on here (pid 9)"]
    assert tell(TaskState.REQUESTED, 3, f"no container yet (before: {first})") == [
        f"Restarting worker:0: no container yet (before: {first})"
    ]


def test_a_gang_that_forms_again_does_not_start_again_alone(story: StatusChanges) -> None:
    """Its tasks have run in the session before."""
    waits = task("worker:0", TaskState.STARTING, try_=1, session=1, note="container started, has not reported yet")
    assert story.describe(replace(report(session=2), tasks=(waits,)), 1.0) == []


def test_the_failure_precedes_the_tasks_that_it_stopped(story: StatusChanges) -> None:
    tasks = (task("worker:0", TaskState.STOPPED), task("worker:1", TaskState.FAILED, exit_code=1))
    assert story.describe(replace(report(JobState.RUNNING), tasks=tasks), 1.0) == [
        "worker:1 failed: exit code 1",
        "worker:0 stopped",
    ]


def test_the_reason_of_a_session_is_reported_once(story: StatusChanges) -> None:
    story.describe(replace(report(JobState.RESTARTING), restarting="worker:1 failed"), 1.0)
    assert story.open_session(2, "worker:1 failed") == "Session 2 started"
    assert story.open_session(3, "worker:0 failed") == "Session 3: worker:0 failed"  # it restarted between two reports


def test_many_lone_restarts_share_one_line(story: StatusChanges) -> None:
    tasks = tuple(task(f"worker:{n}", TaskState.RUNNING, try_=2, note="try 2, for before: x") for n in range(4))
    told = story.describe(replace(report(JobState.RUNNING), tasks=tasks), 1.0)
    assert told == ["Restarting worker:0-3, each alone", "Started worker:0-3"]


def test_tasks_left_out_are_reported_once_a_session(story: StatusChanges) -> None:
    """With the size of the role; a complete session reports none."""
    tasks = {f"worker:{index}": TaskState.PENDING for index in range(5)}
    small = RoleSize(
        role="worker", tasks=2, least=2, most=5, left_out=tuple(TaskId("worker", index) for index in (1, 2, 4))
    )
    first = report(tasks=tasks, sizes=(small,))
    said = "runs without worker:1-2, worker:4: worker has 2 of 5 tasks (min 2)"
    assert story.describe(first, 1.0) == [f"Session 1 {said}"]
    assert story.describe(first, 2.0) == []
    assert story.describe(replace(first, session=2, sizes=(replace(small, tasks=5, left_out=()),)), 3.0) == []
    assert story.describe(replace(first, session=3), 4.0) == [f"Session 3 {said}"]
    ended = report(JobState.STOPPING, dict.fromkeys(tasks, TaskState.STOPPED), session=3, sizes=first.sizes)
    assert story.describe(ended, 5.0) == ["worker:0 stopped", "worker:3 stopped"]


def test_missing_tasks_are_reported_after_a_delay(story: StatusChanges) -> None:
    """In every normal start some task is missing for an instant."""
    waiting = "waiting {} for worker:1: container started, has not reported yet"
    assert story.describe(report(waiting=waiting.format("0.2 s")), 1.0) == []
    assert story.describe(report(waiting=waiting.format("1 s")), 1.9) == []
    assert story.describe(report(waiting=waiting.format("1.4 s")), 2.1) == [waiting.format("1.4 s")]
    assert story.describe(report(waiting=waiting.format("2 s")), 3.0) == []
    assert story.describe(report(waiting=waiting.format("31 s")), 33.0) == [waiting.format("31 s")]


def test_waiting_for_something_else_is_news(story: StatusChanges) -> None:
    """Once it has stayed so for a moment; the time alone is no news."""
    first, second = "waiting {} s for worker:1: no container yet", "waiting {} s for worker:1: container started"
    story.describe(report(waiting=first.format(5)), 1.0)
    assert story.describe(report(waiting=first.format(9)), 5.0) == [first.format(9)]
    assert story.describe(report(waiting=second.format(10)), 6.0) == []
    assert story.describe(report(waiting=second.format(11)), 7.0) == [second.format(11)]


def test_changing_waits_are_reported_at_intervals(story: StatusChanges) -> None:
    """When a hundred tasks register one by one, each report names others."""
    told = [now for now in range(1, 20) if story.describe(report(waiting=f"waiting for {'x' * now}"), float(now))]
    assert told == [6, 11, 16]


def test_a_long_wait_is_reported_with_growing_intervals(story: StatusChanges) -> None:
    """After half a minute, a minute later, and so on."""
    told = [now for now in range(1, 250) if story.describe(report(waiting=f"waiting {now} s"), float(now))]
    assert told == [2, 32, 92, 212]


def test_the_pending_delay_starts_anew_after_an_end(story: StatusChanges) -> None:
    """An end of the waiting resets the moment."""
    story.describe(report(waiting="no room"), 1.0)
    story.describe(report(), 1.5)
    assert story.describe(report(waiting="no room"), 2.2) == []
    assert story.describe(report(waiting="no room"), 3.3) == ["no room"]


def test_a_restart_has_its_reason(story: StatusChanges) -> None:
    story.describe(report(JobState.RUNNING, {"worker:0": TaskState.RUNNING}), 1.0)
    again = report(JobState.RESTARTING, {"worker:0": TaskState.RUNNING}, failure=FAILURE)
    assert story.describe(again, 2.0) == ["Restarting: worker:1 on here: exit code 3"]
    second = replace(
        report(JobState.RUNNING, failure=FAILURE), session=2, tasks=(task("worker:0", TaskState.RUNNING, session=2),)
    )
    assert story.describe(second, 3.0) == ["Started worker:0 on here (pid 7)"]


def test_stopping_has_its_reason_if_a_task_failed(story: StatusChanges) -> None:
    assert story.describe(report(JobState.STOPPING), 1.0) == []
    again = StatusChanges()
    again.describe(report(), 0.0)
    failed, stopping = task("worker:1", TaskState.FAILED, exit_code=3), task("worker:0", TaskState.STOPPING)
    alone = replace(report(JobState.STOPPING, failure=FAILURE), tasks=(failed,))
    assert again.describe(alone, 1.0) == ["worker:1 failed: exit code 3"]
    together = StatusChanges()
    together.describe(report(), 0.0)
    assert together.describe(replace(alone, tasks=(failed, stopping)), 1.0) == [
        "worker:1 failed: exit code 3",
        "Stopping the other tasks",
    ]
    by_silence = StatusChanges()
    by_silence.describe(report(), 0.0)
    assert by_silence.describe(replace(alone, tasks=(stopping,)), 1.0) == ["Stopping: worker:1 on here: exit code 3"]


def test_how_a_job_failed_is_explained_below(story: StatusChanges) -> None:
    assert story.describe(report(JobState.FAILED, ended=101.0), 1.0) == []
    assert mention_each(story.describe(report(JobState.SUCCEEDED, ended=101.0), 2.0), ("1 s", "succeeded"))


def test_tasks_waited_for_after_a_success_are_reported_after_a_delay(story: StatusChanges) -> None:
    """Tasks that exit one after the other are not reported; a job that continues without its chief is."""
    run, done = TaskState.RUNNING, TaskState.SUCCEEDED
    text = "chief:0 has succeeded; still waiting for worker:0-1"
    one = report(JobState.RUNNING, {"chief:0": done, "worker:0": run, "worker:1": run}, unfinished=text)
    assert text not in story.describe(one, 0.0)
    assert story.describe(one, 10.0) == [text]
    assert story.describe(one, 11.0) == []
