"""Failures in words, and the first cause among several."""

from __future__ import annotations

import pytest

from tests.core.sample_states import standing
from tests.core.specs import COLLISION, FAILED, SEGV, task, workers
from tests.facts import mentions
from tony.core import failures
from tony.core.deadline import DeadlineKind
from tony.core.state import State
from tony.errors import ExitCode
from tony.model.exit_status import ExitReason, ExitStatus
from tony.model.failure_facts import MessageFacts
from tony.model.job_report import Failure, FailureCause, FailureClass
from tony.model.job_spec import Timeouts

USER, INFRASTRUCTURE = FailureClass.USER, FailureClass.INFRASTRUCTURE


def job(count: int = 2, **more: object) -> State:
    state = standing(workers(count, **more), worker=" ".join(["running"] * count))
    for each in state.tasks.values():
        each.host, each.ended_at = "node-7", 5.0
    return state


EXITS = [
    # how it ended -> class, cause, reason
    (FAILED, USER, "program", "worker:0 failed with exit code 1 on node-7"),
    (SEGV, USER, "program", "worker:0 was killed by SIGSEGV on node-7"),
    (COLLISION, INFRASTRUCTURE, "port-collision", "worker:0 failed: port 5000 was taken by pid 7 on node-7"),
    (
        ExitStatus(
            reason=ExitReason.MEMORY, signal="SIGKILL", message="ran out of memory (limit 1g): 1 process killed"
        ),
        USER,
        "memory",
        "worker:0 ran out of memory (limit 1g): 1 process killed on node-7",
    ),
    (
        ExitStatus(reason=ExitReason.LAUNCH_FAILED, message="no such command: trian"),
        USER,
        "launch",
        "worker:0 failed: no such command: trian on node-7",
    ),
    (
        ExitStatus(reason=ExitReason.STOPPED, signal="SIGTERM"),
        INFRASTRUCTURE,
        "lost",
        "worker:0 was stopped externally: its executor received a stop signal that the AM did not send on node-7",
    ),
]


@pytest.mark.parametrize(("status", "failure_class", "cause", "reason"), EXITS)
def test_a_programs_end(status: ExitStatus, failure_class: FailureClass, cause: str, reason: str) -> None:
    """Whose fault, by what stable word, in what sentence; with all the evidence."""
    state = job()
    failure = failures.failure_from_exit(state, state.tasks[task("worker:0")], status)
    assert (failure.failure_class, failure.cause, failure.reason) == (failure_class, cause, reason)
    assert (failure.task, failure.host, failure.session, failure.at) == ("worker:0", "node-7", 1, 5.0)
    assert (failure.exit_code, failure.signal, failure.tail) == (status.code, status.signal, status.tail)
    assert failure.log == "logs/worker-0.s1.t1.err"


@pytest.mark.parametrize(
    ("kind", "failure_class", "said"),
    [
        ("registration", INFRASTRUCTURE, "worker:0 did not register within 5 s (registration_timeout)"),
        ("startup", USER, "worker:0 printed nothing within 7 s (startup_timeout)"),
        ("execution", USER, "worker:0 ran longer than 1 m 01 s (execution_timeout)"),
    ],
)
def test_a_tasks_time_outs(kind: str, failure_class: FailureClass, said: str) -> None:
    state = job(timeouts=Timeouts(registration=5.0, startup=7.0, execution=61.0))
    failure = failures.failure_from_timeout(state, state.tasks[task("worker:0")], DeadlineKind(kind), 99.0)
    assert (failure.failure_class, failure.cause, failure.at) == (failure_class, f"{kind}-timeout", 99.0)
    assert failure.reason.startswith(said)


def test_the_jobs_time_outs() -> None:
    """Infrastructure's if containers do not come, with what the scheduler said; the user's if the job is too long."""
    state = job(timeouts=Timeouts(allocation=5.0, job=61.0))
    state.queue_reason = "behind job 7"
    allocation = failures.failure_from_job_timeout(state, DeadlineKind.ALLOCATION, 1.0)
    assert (allocation.failure_class, allocation.cause) == (INFRASTRUCTURE, "allocation-timeout")
    assert mentions(allocation.reason, "job 7", "5 s", "allocation_timeout")
    whole = failures.failure_from_job_timeout(state, DeadlineKind.JOB, 1.0)
    assert (whole.failure_class, whole.cause) == (USER, "job-timeout")
    assert mentions(whole.reason, "1 m 01 s", "job_timeout")


def test_a_task_that_never_ran_has_no_log() -> None:
    """And no session's log of an earlier try is shown for this one."""
    state = job()
    state.session = 2
    failure = failures.failure_from_task(
        state,
        state.tasks[task("worker:0")],
        FailureCause.LAUNCH,
        INFRASTRUCTURE,
        MessageFacts(message="no container"),
        1.0,
    )
    assert (failure.log, failure.session) == (None, 2)


def failure(cause: str, at: float, who: str = "worker:0") -> Failure:
    return Failure(
        failure_class=USER, cause=FailureCause(cause), reason=f"{who} {cause} at {at}", session=1, at=at, task=who
    )


@pytest.mark.parametrize(
    ("decided", "others", "root"),
    [
        (("program", 5.0), [("program", 4.0), ("lost", 6.0)], ("program", 4.0)),
        (("program", 5.0), [("lost", 3.0)], ("lost", 3.0)),
        (("silent", 30.0), [("program", 31.0)], ("silent", 30.0)),
        (("job-timeout", 9.0), [("program", 4.0)], ("job-timeout", 9.0)),
        (("group-timeout", 9.0), [("program", 9.5)], ("group-timeout", 9.0)),
        (("program", 9.0), [("startup-timeout", 4.0)], ("program", 9.0)),
        (("killed", 9.0), [("program", 4.0)], ("killed", 9.0)),
    ],
)
def test_the_first_cause(decided: tuple[str, float], others: list[tuple[str, float]], root: tuple[str, float]) -> None:
    """Among programs that ended, the earliest; limits and kills stand as they were decided."""
    state = job()
    first = failure(*decided)
    state.failures = [first, *(failure(*other, "worker:1") for other in others)]
    found = failures.select_root_cause(state, first)
    assert (found.cause, found.at) == root
    assert len(found.others) == len(others)


def test_others_are_named_up_to_twenty() -> None:
    """Ten thousand tasks may fail at once."""
    state = job()
    state.failures = [failure("program", float(n), f"worker:{n}") for n in range(10_000)]
    found = failures.select_root_cause(state, state.failures[17])
    assert found.task == "worker:0"
    assert len(found.others) == 21
    assert found.others[-1] == "and 9979 more"


def test_every_class_has_its_exit_code() -> None:
    assert failures.EXIT_CODES == {
        FailureClass.USER: ExitCode.PROGRAM_FAILED,
        FailureClass.INFRASTRUCTURE: ExitCode.INFRASTRUCTURE,
        FailureClass.KILLED: ExitCode.KILLED,
        FailureClass.PLATFORM: ExitCode.BUG,
    }
