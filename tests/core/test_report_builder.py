"""The report: what people and programs are told about a job, at every point of its life."""

from __future__ import annotations

import pytest

from tests.core.simulated import seen, started
from tests.core.specs import FAILED, OK, SEGV, roles, staged, task, workers
from tests.facts import mentions
from tests.support.simulation import Simulation
from tony.core import events as ev
from tony.core.report_builder import Live, ReportContext, build_report
from tony.model.actor import Actor
from tony.model.codec import to_plain
from tony.model.job_report import AmReport, TaskReport
from tony.model.job_spec import JobSpec, Role
from tony.model.program_exit import ExitReason, ExitStatus
from tony.model.progress import Progress, Resumption
from tony.model.progress_rules import measure_task
from tony.model.setting_choices import AfterCondition, RoleKind
from tony.model.states import JobState, TaskState


def one(simulation: Simulation, who: str = "worker:0", **more: object) -> TaskReport:
    (found,) = (each for each in seen(simulation, **more).tasks if each.task == who)  # type: ignore[arg-type]
    return found


def before_registering(spec: JobSpec) -> Simulation:
    """All containers are there, no executor has registered."""
    simulation = Simulation(spec)
    simulation.begin()
    simulation.run(until=lambda: len(simulation.executors) == len(spec.task_ids))
    simulation.pending.clear()
    return simulation


def test_a_container_in_preparation_is_reported() -> None:
    """In the task's note and in the job's line, until its executor has been started."""
    simulation = before_registering(workers(2))
    first = next(iter(simulation.app.state.tasks))
    live = {first: Live(preparing="unpacking the Python environment")}
    assert mentions(one(simulation, live=live).note, "Python environment")
    assert seen(simulation, live=live).waiting.endswith("preparing the container: unpacking the Python environment")
    assert one(simulation).note == "container started, has not reported yet"


# --- what stands in it ------------------------------------------------------------------------------------------------


def test_the_promised_fields_are_there() -> None:
    """What `tony status --json` promises, by these names."""
    plain = to_plain(seen(started(workers(2))))
    assert {"job", "name", "state", "session", "attempt", "exit_code", "folder", "am", "tasks", "failure"} <= set(plain)
    assert plain["am"] == {"pid": 1, "host": "am"}
    assert {
        *("task", "role", "index", "state", "host", "pid", "executor_pid"),
        *("session", "exit_code", "signal", "try"),
    } <= set(plain["tasks"][0])


def test_before_the_first_event() -> None:
    """All tasks are pending, in the job's order; nothing is counted yet."""
    shown = seen(Simulation(roles(ps=Role(), worker=Role(instances=2))))
    assert (shown.state, shown.attempt, shown.session, shown.am) == (JobState.SUBMITTED, 0, 0, None)
    assert [(t.task, t.state, t.session, t.try_) for t in shown.tasks] == [
        ("ps:0", TaskState.PENDING, 0, 0),
        ("worker:0", TaskState.PENDING, 0, 0),
        ("worker:1", TaskState.PENDING, 0, 0),
    ]
    assert (shown.waiting, shown.failure, shown.exit_code, shown.ended) == ("", None, None, None)


def test_while_it_runs() -> None:
    """Pids, hosts, sessions and tries; times are wall-clock times."""
    simulation = Simulation(workers(1))
    simulation.begin()
    simulation.run(until=lambda: bool(simulation.executors))
    simulation.now = 7.0
    simulation.run()
    shown = seen(simulation)
    assert (shown.job, shown.name, shown.user, shown.folder) == ("sim", "job", "ann", "/home/jobs/sim")
    assert (shown.state, shown.attempt, shown.session) == (JobState.RUNNING, 1, 1)
    assert (shown.am, shown.submitted, shown.ended) == (AmReport(pid=1, host="am"), 999.5, None)
    assert shown.tasks == (
        TaskReport(
            task="worker:0",
            role="worker",
            index=0,
            state=TaskState.RUNNING,
            host="h",
            pid=2,
            executor_pid=100,
            session=1,
            try_=1,
            since=1007.0,
        ),
    )


@pytest.mark.parametrize(
    ("status", "state", "code", "signal", "note"),
    [
        (OK, TaskState.SUCCEEDED, 0, None, "exit code 0"),
        (FAILED, TaskState.FAILED, 1, None, "exit code 1"),
        (SEGV, TaskState.FAILED, None, "SIGSEGV", "killed by SIGSEGV"),
        (
            ExitStatus(reason=ExitReason.MEMORY, signal="SIGKILL", message="ran out of memory (limit 1g)"),
            TaskState.FAILED,
            None,
            "SIGKILL",
            "ran out of memory (limit 1g)",
        ),
    ],
)
def test_after_a_programs_end(
    status: ExitStatus, state: TaskState, code: int | None, signal: str | None, note: str
) -> None:
    """No pid any longer; the code or the signal by name; the executor lives as long as its container is held."""
    simulation = started(workers(2, max_restarts=1))
    simulation.exit(task("worker:0"), status)
    simulation.deliver_pending()
    shown = one(simulation, live={task("worker:0"): Live(last_output_age=1.0, last_line="bye")})
    assert (shown.state, shown.exit_code, shown.signal, shown.note) == (state, code, signal, note)
    assert shown.note_repeats_exit is (not status.message)
    assert (shown.pid, shown.last_output_age, shown.host) == (None, None, "h")
    assert shown.executor_pid == 100


def test_after_the_jobs_end() -> None:
    """Nothing lives: no application master, no executor, no program; when it ended and how."""
    simulation = started(workers(2))
    simulation.now = 3.0
    simulation.exit(task("worker:1"), FAILED)
    simulation.settle()
    shown = seen(simulation, now=99.0)
    assert (shown.state, shown.exit_code, shown.am, shown.waiting) == (JobState.FAILED, 1, None, "")
    assert shown.ended == 1003.0
    assert shown.failure
    assert (shown.failure.task, shown.failure.cause) == (task("worker:1"), "program")
    assert [(t.state, t.pid, t.executor_pid) for t in shown.tasks] == [
        (TaskState.STOPPED, None, None),
        (TaskState.FAILED, None, None),
    ]


def test_a_new_session_begins_with_a_clean_sheet() -> None:
    """Codes and notes of the session before are gone, sessions and tries still say what ran last."""
    simulation = started(workers(1, max_restarts=1))
    simulation.exit(task("worker:0"), FAILED)
    simulation.run(until=lambda: simulation.app.state.session == 2)
    shown = one(simulation)
    assert (shown.state, shown.exit_code, shown.session, shown.try_) == (TaskState.STARTING, None, 1, 1)
    assert shown.note == "container started, has not reported yet"
    assert seen(simulation).failure is None
    simulation.run()
    assert one(simulation).session == 2


def test_the_age_of_the_last_line_is_the_shells_to_say() -> None:
    """It changes too often to be an event."""
    simulation = started(workers(1))
    assert one(simulation).last_output_age is None
    assert one(simulation, live={task("worker:0"): Live(last_output_age=2.5)}).last_output_age == 2.5


def test_step_rate_and_memory_are_those_of_a_running_program() -> None:
    """The last step is known after the end, too."""
    simulation = started(workers(1))
    known = measure_task(Progress("worker:0", 1, 1, 0.0, 2.0, 20.0, 12.0, 40.0, recent_rate=2.5), None)
    context = ReportContext(
        folder="f",
        user="u",
        submitted=0.0,
        live={task("worker:0"): Live(memory=5.0)},
        find_progress=lambda task: known,
    )
    (shown,) = build_report(simulation.app, simulation.now, context).tasks
    assert (shown.step, shown.total, shown.rate, shown.memory) == (20.0, 40.0, 2.5, 5.0)
    simulation.exit(task("worker:0"), FAILED)
    simulation.settle()
    (shown,) = build_report(simulation.app, simulation.now, context).tasks
    assert (shown.step, shown.total, shown.rate, shown.memory) == (20.0, 40.0, None, None)


# --- who is missing, and why ------------------------------------------------------------------------------------------


def test_missing_tasks_are_named() -> None:
    """While the gang forms, one sentence says which tasks are missing, and since when."""
    simulation = started(workers(2), capacity=1)
    shown = seen(simulation, now=12.0)
    assert mentions(shown.waiting, "12 s", "worker:1")
    assert [(t.state, t.host, t.note) for t in shown.tasks] == [
        (TaskState.REGISTERED, "h", "registered, waiting for the rest of the gang"),
        (TaskState.REQUESTED, None, "no container yet"),
    ]


def test_the_last_output_line_of_a_missing_task_is_shown() -> None:
    """What it says itself is the best hint there is."""
    simulation = before_registering(workers(1))
    live = {task("worker:0"): Live(last_line="unpacking env.tar.gz")}
    assert mentions(seen(simulation, now=12.0, live=live).waiting, "12 s", "worker:0", "env.tar.gz")


def test_of_many_three_are_named() -> None:
    """Ten thousand may be missing."""
    simulation = before_registering(workers(10))
    assert mentions(seen(simulation, now=5.0).waiting, "5 s", "7 more", "worker:0", "worker:1", "worker:2")


def test_the_task_missing_longest_is_named_first() -> None:
    """Its reason is the one that is shown; so is the reason why a container was replaced."""
    simulation = before_registering(workers(2))
    simulation.now = 5.0
    simulation.deliver(ev.ContainerEnded(container="c-1", cause="its node burned"))
    shown = seen(simulation, now=9.0)
    assert mentions(shown.waiting, "9 s", "worker:1", "worker:0")
    assert [(t.host, t.note) for t in shown.tasks] == [
        (None, "no container yet (before: its node burned)"),
        ("h", "container started, has not reported yet"),
    ]


def test_sidecars_are_not_missing() -> None:
    """The gang does not wait for them."""
    simulation = started(roles(worker=Role(), board=Role(kind=RoleKind.SIDECAR)), capacity=1)
    assert seen(simulation).waiting == ""


def test_a_queued_job_has_its_reason() -> None:
    """Without room the job is queued and repeats the scheduler's reason; with room it continues."""
    simulation = started(workers(1), capacity=0)
    simulation.deliver(ev.Queued(reason="4g are free, 8g are needed, behind job 7"))
    shown = seen(simulation, now=1.0)
    assert shown.state == JobState.QUEUED
    assert mentions(shown.waiting, "job 7", "4g", "8g")
    simulation.deliver(ev.Queued(reason=""))
    assert seen(simulation, now=3.0).state is JobState.STARTING
    assert mentions(seen(simulation, now=3.0).waiting, "3 s", "worker:0")


def test_unmet_conditions_of_a_role_are_reported() -> None:
    """And no others."""
    simulation = started(staged())
    assert one(simulation, "chief:0").note == "waiting until prep has succeeded"
    assert mentions(one(simulation, "export:0").note, "chief", "succeeded", "worker")
    for name in ("prep:0", "prep:1"):
        simulation.exit(task(name), OK)
    simulation.run()
    simulation.exit(task("chief:0"), OK)
    simulation.run()
    assert one(simulation, "export:0").note == "waiting until worker has ended"


def test_a_role_that_can_never_start_is_reported() -> None:
    """A sidecar that can never start is tolerated, not forgotten."""
    spec = roles(
        prep=Role(kind=RoleKind.SIDECAR),
        board=Role(kind=RoleKind.SIDECAR, after={"prep": AfterCondition.SUCCEEDED}),
        worker=Role(),
    )
    simulation = started(spec)
    simulation.exit(task("prep:0"), FAILED)
    simulation.run()
    assert mentions(one(simulation, "board:0").note, "prep", "succeeded")


def test_the_pending_reason_of_a_restart() -> None:
    """First for programs of the session before, then for its time."""
    simulation = Simulation(workers(2, max_restarts=3, backoff=8.0))
    simulation.stubborn.add(task("worker:1"))
    simulation.begin()
    simulation.run()
    simulation.exit(task("worker:0"), FAILED)
    simulation.run()
    shown = seen(simulation)
    assert shown.state == JobState.RESTARTING
    assert mentions(shown.waiting, "session 1")
    assert shown.failure
    assert shown.failure.task == task("worker:0")
    assert shown.session_reason == ""
    assert shown.previous_failure is None
    simulation.exit(task("worker:1"), OK)
    simulation.run()
    restarted = seen(simulation)
    reason = restarted.session_reason
    assert reason == shown.restarting != ""
    assert restarted.failure is None
    assert restarted.previous_failure == shown.failure
    simulation.exit(task("worker:0"), FAILED)
    simulation.run()
    simulation.exit(task("worker:1"), OK)
    simulation.run()
    last = seen(simulation)
    assert last.waiting.startswith("session 3 opens in ")
    assert last.session_reason == reason != last.restarting


def test_the_pending_reason_of_a_job_that_stops() -> None:
    simulation = Simulation(workers(2))
    simulation.stubborn |= {task("worker:0"), task("worker:1")}
    simulation.begin()
    simulation.run()
    simulation.deliver(ev.KillRequested(actor=Actor("ann")))
    shown = seen(simulation)
    assert (shown.state, shown.waiting) == (JobState.STOPPING, "waiting for worker:0, worker:1 to stop")
    assert shown.failure
    assert shown.failure.reason == "killed by ann"
    simulation.exit(task("worker:0"), OK)
    simulation.exit(task("worker:1"), OK)
    while simulation.app.state.living:
        simulation.deliver_pending()
    assert seen(simulation).waiting == "releasing containers"


def test_where_a_restarted_job_continued_is_told() -> None:
    """By the role that had come furthest: an evaluator may count its own steps."""
    simulation = started(workers(2, max_restarts=1))
    first, second = task("worker:0"), task("worker:1")
    known = {
        first: Resumption(first_step=31, reached=33, earliest=1),
        second: Resumption(first_step=30, reached=34, earliest=1),
    }
    assert seen(simulation, resumptions=known).resumption == ""
    simulation.exit(first, FAILED)
    simulation.settle()
    assert seen(simulation, resumptions=known).resumption == "continued at step 30; step 34 had been reached"
    lost = {first: Resumption(first_step=10, reached=50, earliest=10)}
    assert mentions(seen(simulation, resumptions=lost).resumption, "began again at step 10", "checkpoint", "50")
