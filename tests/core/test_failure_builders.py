"""Failures in words, and the root cause among several."""

from __future__ import annotations

import pytest

from tests.core.sample_states import standing
from tests.core.specs import COLLISION, FAILED, SEGV, task, workers
from tests.facts import mentions
from tony.core import failure_builders
from tony.core.deadline import DeadlineKind
from tony.core.sentences import describe_failure
from tony.core.state import State
from tony.errors import ExitCode
from tony.model.diagnosis import EvidenceLine
from tony.model.failure import EXIT_CODES, ExitFacts, FailureCause, FailureClass, MessageFacts, SilenceFacts
from tony.model.job_spec import Timeouts
from tony.model.program_exit import ExitReason, ExitStatus

USER, INFRASTRUCTURE = FailureClass.USER, FailureClass.INFRASTRUCTURE


def job(count: int = 2, **more: object) -> State:
    state = standing(workers(count, **more), worker=" ".join(["running"] * count))
    for each in state.tasks.values():
        each.host, each.ended_at = "node-7", 5.0
    return state


EXITS = [
    # how it ended -> class, cause, reason
    (FAILED, USER, "program", "worker:0 on node-7: exit code 1"),
    (SEGV, USER, "program", "worker:0 on node-7: killed by SIGSEGV"),
    (COLLISION, INFRASTRUCTURE, "port-collision", "worker:0 on node-7: port 5000 was taken by pid 7"),
    (
        ExitStatus(
            reason=ExitReason.MEMORY, signal="SIGKILL", message="ran out of memory (limit 1g): 1 process killed"
        ),
        USER,
        "memory",
        "worker:0 on node-7: ran out of memory (limit 1g): 1 process killed",
    ),
    (
        ExitStatus(reason=ExitReason.LAUNCH_FAILED, message="no such command: trian"),
        USER,
        "launch",
        "worker:0 on node-7: no such command: trian",
    ),
    (
        ExitStatus(reason=ExitReason.STOPPED, signal="SIGTERM"),
        INFRASTRUCTURE,
        "lost",
        "worker:0 on node-7 was stopped externally: its executor received a stop signal that the AM did not send",
    ),
]


@pytest.mark.parametrize(("status", "failure_class", "cause", "reason"), EXITS)
def test_a_programs_end(status: ExitStatus, failure_class: FailureClass, cause: str, reason: str) -> None:
    """Whose fault, by what stable word, in what sentence; with all the evidence."""
    state = job()
    failure = failure_builders.failure_from_exit(state, state.tasks[task("worker:0")], status)
    assert (failure.failure_class, failure.cause, failure.reason) == (failure_class, cause, reason)
    assert (failure.task, failure.host, failure.session, failure.at) == (task("worker:0"), "node-7", 1, 5.0)
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
    failure = failure_builders.failure_from_timeout(state, state.tasks[task("worker:0")], DeadlineKind(kind), 99.0)
    assert (failure.failure_class, failure.cause, failure.at) == (failure_class, f"{kind}-timeout", 99.0)
    assert failure.reason.startswith(said)


def test_the_jobs_time_outs() -> None:
    """Infrastructure's if containers do not come, with what the scheduler said; the user's if the job is too long."""
    state = job(timeouts=Timeouts(allocation=5.0, job=61.0))
    state.queue_reason = "behind job 7"
    allocation = failure_builders.failure_from_job_timeout(state, DeadlineKind.ALLOCATION, 1.0)
    assert (allocation.failure_class, allocation.cause) == (INFRASTRUCTURE, "allocation-timeout")
    assert mentions(allocation.reason, "job 7", "5 s", "allocation_timeout")
    whole = failure_builders.failure_from_job_timeout(state, DeadlineKind.JOB, 1.0)
    assert (whole.failure_class, whole.cause) == (USER, "job-timeout")
    assert mentions(whole.reason, "1 m 01 s", "job_timeout")


def test_a_task_that_never_ran_has_no_log() -> None:
    """And no session's log of an earlier try is shown for this one."""
    state = job()
    state.session = 2
    failure = failure_builders.failure_from_task(
        state,
        state.tasks[task("worker:0")],
        FailureCause.LAUNCH,
        INFRASTRUCTURE,
        MessageFacts(message="no container"),
        1.0,
    )
    assert (failure.log, failure.session) == (None, 2)


@pytest.mark.parametrize(("text", "shown"), [("E: x", "E: x"), ("x" * 999, "x" * 199 + "…")], ids=["short", "long"])
def test_a_long_line_in_a_reason_is_marked_as_cut(text: str, shown: str) -> None:
    state = job()
    line = EvidenceLine(stream="err", number=3, text=text, ago=0.0, rule="python-exception")
    failure = failure_builders.failure_from_task(
        state,
        state.tasks[task("worker:0")],
        FailureCause.PROGRAM,
        FailureClass.USER,
        ExitFacts(exit_message=""),
        1.0,
        status=ExitStatus(reason=ExitReason.EXITED, code=1, evidence=(line,)),
    )
    assert failure.reason.endswith(f"exit code 1: {shown}")


def test_every_class_has_its_exit_code() -> None:
    assert EXIT_CODES == {
        FailureClass.USER: ExitCode.PROGRAM_FAILED,
        FailureClass.INFRASTRUCTURE: ExitCode.INFRASTRUCTURE,
        FailureClass.KILLED: ExitCode.KILLED,
        FailureClass.PLATFORM: ExitCode.BUG,
    }


def test_a_silence_is_a_duration() -> None:
    silent = describe_failure(FailureCause.SILENT, SilenceFacts(silence=125.0), task("worker:0"))
    assert silent == "no heartbeat from worker:0 for 2 m 05 s (heartbeat_timeout)"


@pytest.mark.parametrize(("last_output", "is_failure"), [(50.0, True), (53.0, True), (99.0, False)])
def test_an_error_before_the_stop_counts_if_the_program_was_silent_since(last_output: float, is_failure: bool) -> None:
    """The program printed an error after 50 s, and was stopped after 100 s."""
    state = job()
    worker = state.tasks[task("worker:0")]
    worker.since = 100.0
    line = EvidenceLine(stream="err", number=3, text="KeyError: 'x'", ago=50.0, rule="python-code")
    status = ExitStatus(
        reason=ExitReason.STOPPED, signal="SIGTERM", evidence=(line,), duration=100.0, output_before_stop=last_output
    )
    found = failure_builders.failure_from_early_error(state, worker, status, 100.0)
    assert (found is not None) is is_failure
