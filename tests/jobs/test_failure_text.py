"""A failed job is explained from the root cause on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.jobs.fake_am import FAILURE, JOB, failed, recorded, succeeded, write_log
from tony.errors import InfraError, KilledError, PlatformError, ProgramError, TonyError, UserError
from tony.jobs.failure_text import build_error, find_hints, format_outcome, format_report
from tony.model.failure import Failure, FailureCause, FailureClass
from tony.model.ids import TaskId
from tony.model.job_report import JobReport
from tony.model.state_directory import Home
from tony.model.states import JobState


@pytest.fixture
def report(home: Home) -> JobReport:
    """A job of which worker:1 failed, after it printed something."""
    folder, record = recorded(home)
    write_log(folder, "worker-1.s1.t1.err", "ValueError: no such file\n")
    return failed(folder, record)


def of(report: JobReport, **more: object) -> JobReport:
    """The same job with a somewhat different failure."""
    return replace(report, failure=replace(FAILURE, **more))  # type: ignore[arg-type]


def test_a_program_that_failed(report: JobReport) -> None:
    """Task, host and exit code; its last lines; the path to the rest; what to type next."""
    assert format_report(report) == [
        f"job {JOB} (digits) failed after 8 s: worker:1 on here: exit code 3",
        "  Last lines of output:",
        "    Traceback (most recent call last):",
        "    ValueError: no such file",
        f"  Full log: {report.folder}/logs/worker-1.s1.t1.err",
        "",
        "Next:",
        f"  tony logs {JOB} worker:1",
        f"  tony status {JOB}",
    ]


def test_only_files_that_hold_something_are_named(home: Home) -> None:
    """Both streams, one, or none; without output there is nothing to look at."""
    folder, record = recorded(home)
    report = failed(folder, record)
    (folder.logs / "worker-1.s1.t1.err").touch()
    assert not [line for line in format_report(report) if "Full log" in line or "tony logs" in line]
    write_log(folder, "worker-1.s1.t1.out", "a\n")
    assert f"  Full log: {folder.logs}/worker-1.s1.t1.out" in format_report(report)
    write_log(folder, "worker-1.s1.t1.err", "b\n")
    assert f"  Full log: {folder.logs}/worker-1.s1.t1.out and {folder.logs}/worker-1.s1.t1.err" in format_report(report)


def test_the_reason_for_no_restart_is_given_if_one_was_considered(report: JobReport) -> None:
    lines = format_report(of(report, verdict="already restarted once (max_restarts = 1)"))
    assert lines[1] == "  Not restarted: already restarted once (max_restarts = 1)"
    assert not [line for line in format_report(report) if "Not restarted" in line]


def test_others_follow_one_line_each(report: JobReport) -> None:
    lines = format_report(of(report, others=("worker:0 on here: killed by SIGTERM", "and 7 more")))
    at = lines.index("Also failed:")
    assert lines[at - 1 : at + 4] == [
        "",
        "Also failed:",
        "  worker:0 on here: killed by SIGTERM",
        "  and 7 more",
        "",
    ]


def test_a_signal_is_named(report: JobReport) -> None:
    lines = format_report(of(report, exit_code=None, signal="SIGSEGV", reason="worker:1 on here: killed by SIGSEGV"))
    assert lines[0].endswith(": worker:1 on here: killed by SIGSEGV")


def test_a_limit_is_explained(report: JobReport) -> None:
    """The reason is the headline, not the signal, and it is said once."""
    why = "worker:1 on here: ran out of memory (limit 1g): 1 process killed by the kernel"
    lines = format_report(of(report, exit_code=None, signal="SIGKILL", cause="memory", reason=why))
    assert [line for line in lines if why in line] == [f"job {JOB} (digits) failed after 8 s: {why}"]


def test_a_later_session_is_named(report: JobReport) -> None:
    """Its logs are those of that session."""
    lines = format_report(replace(of(report, session=3), session=3))
    assert lines[0].startswith(f"job {JOB} (digits) failed after 8 s in session 3:")
    assert f"  tony logs {JOB} worker:1 --session 3" in lines


def test_a_failure_of_no_task(report: JobReport) -> None:
    failure = Failure(
        failure_class=FailureClass.INFRASTRUCTURE,
        cause=FailureCause.ALLOCATION_TIMEOUT,
        reason="not every container was granted within 1 m 00 s (allocation_timeout)",
        session=1,
        at=60.0,
    )
    assert format_report(replace(report, failure=failure)) == [
        f"job {JOB} (digits) failed after 8 s: not every container was granted within 1 m 00 s (allocation_timeout)",
        "",
        "Next:",
        f"  tony status {JOB}",
        f"  tony events {JOB}",
    ]


def test_a_killed_job_needs_no_page(report: JobReport) -> None:
    failure = Failure(
        failure_class=FailureClass.KILLED, cause=FailureCause.KILLED, reason="killed by ann", session=1, at=1.0
    )
    killed = replace(report, state=JobState.KILLED, failure=failure, exit_code=4)
    assert format_report(killed) == [f"job {JOB} (digits) killed after 8 s: killed by ann"]


def test_a_job_that_succeeded_has_no_page(home: Home) -> None:
    """Even if something failed on the way."""
    report = succeeded(*recorded(home))
    assert format_report(report) == []
    assert format_report(replace(report, failure=FAILURE)) == []
    assert build_error(report) is None
    assert format_outcome(report) == f"job {JOB} (digits) succeeded after 8 s"


@pytest.mark.parametrize(
    ("failure_class", "kind"),
    [
        (FailureClass.USER, ProgramError),
        (FailureClass.INFRASTRUCTURE, InfraError),
        (FailureClass.KILLED, KilledError),
        (FailureClass.PLATFORM, PlatformError),
    ],
)
def test_a_failure_is_an_error(report: JobReport, failure_class: FailureClass, kind: type[TonyError]) -> None:
    """Its class says whose failure it was, its text is the page."""
    error = build_error(of(report, failure_class=failure_class))
    assert type(error) is kind
    assert str(error).startswith(f"job {JOB} (digits) failed")


def test_a_job_that_the_master_refused(report: JobReport) -> None:
    """Exit code 2 is refused input also when the application master was the one to refuse it."""
    error = build_error(replace(report, exit_code=2))
    assert (type(error), error and error.exit_code) == (UserError, 2)


def test_a_known_error_has_a_hint_below_its_lines(report: JobReport) -> None:
    """What to do, where the error's own text does not say it."""
    tail = ("ValueError: Attempt to convert a value (PerReplica:{", "...", "  [0. 0. 0.]")
    lines = format_report(of(report, tail=tail))
    assert lines[lines.index("      [0. 0. 0.]") + 1].startswith("  Hint: model.fit of Keras 3 does not work under ")


def _find(reason: str, *tail: str) -> list[str]:
    return find_hints(
        Failure(
            failure_class=FailureClass.USER,
            cause=FailureCause.PROGRAM,
            reason=f"worker:0: {reason}",
            session=1,
            at=1.0,
            tail=tail,
        )
    )


@pytest.mark.parametrize(
    "line",
    [
        "ValueError: Attempt to convert a value (PerReplica:{",
        "}) with an unsupported type (<class 'tensorflow.python.distribute.values.PerReplica'>) to a Tensor.",
    ],
)
def test_keras_3_under_a_strategy(line: str) -> None:
    (hint,) = _find("exit code 1", "...", line, "  [0. 0.]")
    assert 'TF_USE_LEGACY_KERAS = "1"' in hint


def test_a_program_out_of_memory() -> None:
    """The page of a job shows the same hints."""
    failure = Failure(
        failure_class=FailureClass.USER,
        cause=FailureCause.MEMORY,
        reason="worker:0 ran out of memory (limit 1g)",
        session=1,
        at=1.0,
        task=TaskId("worker", 0),
    )
    (hint,) = find_hints(failure)
    assert "roles.worker.memory" in hint


def test_other_errors_have_none() -> None:
    assert _find("exit code 1", "ValueError: no such column", "KeyError: 'PerReplica'") == []


def test_a_program_that_is_not_there() -> None:
    """The reason of a command that cannot be started, and the shell's last line."""
    (hint,) = _find("command not found: pyhton (not on PATH)")
    assert hint == "correct the command, or activate the environment that has it"
    assert _find("exit code 127", "sh: 1: pyhton: not found") == [hint]
