"""A failed job is explained from the root cause on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.jobs.fake_am import FAILURE, JOB, failed, recorded, succeeded, write_log
from tony.diagnosis.failure_diagnosis import diagnose
from tony.errors import InfraError, KilledError, PlatformError, ProgramError, TonyError, UserError
from tony.jobs.failure_text import build_error, format_note, format_outcome, format_report
from tony.jobs.remote.log_mirror import Mirror
from tony.jobs.root_cause import build_root_cause
from tony.model.codec import to_plain
from tony.model.diagnosis import Diagnosis, EvidenceLine, FailureKind, LineMeaning
from tony.model.failure import Failure, FailureCause, FailureClass
from tony.model.job_report import JobReport
from tony.model.log_name import LogName
from tony.model.state_directory import Home
from tony.model.states import JobState, TaskState


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
        "  Other tasks: worker:0 stopped",
        "",
        "Next:",
        f"  tony logs {JOB} worker:1    # its whole output",
        f"  tony rerun {JOB} --restage  # run it again, once the program is corrected",
    ]


def test_the_fate_of_the_other_tasks_is_told_in_one_line(report: JobReport) -> None:
    """Those that failed as well have lines of their own."""
    first = report.tasks[0]
    others = {TaskState.STOPPED: (2, 3, 5), TaskState.SUCCEEDED: (6,), TaskState.FAILED: (7,)}
    tasks = [
        replace(first, task=f"worker:{index}", index=index, state=state, session=1)
        for state, indices in others.items()
        for index in indices
    ]
    tasks.append(replace(first, task="ps:0", role="ps", index=0, state=TaskState.STOPPED, session=0))
    (line,) = [line for line in format_report(replace(report, tasks=tuple(tasks))) if "Other tasks" in line]
    assert line == "  Other tasks: worker:2-3, worker:5 stopped; worker:6 succeeded; ps:0 never started"


def test_a_note_does_not_repeat_the_failure(report: JobReport) -> None:
    """The failure is shown next to the table of tasks, once."""
    ended, root = report.tasks[0], next(task for task in report.tasks if task.task == str(FAILURE.task))
    assert format_note(report, replace(ended, note=f"stopped ({FAILURE.reason})")) == "stopped (worker:1 failed)"
    assert format_note(report, replace(root, note="printed nothing")) == "printed nothing"
    assert format_note(report, replace(root, note="exit code 3", note_repeats_exit=True)) == ""


def test_the_beginning_that_a_log_lacks_is_named(home: Home) -> None:
    folder, record = recorded(home)
    Mirror(folder.logs).write(LogName("worker", 1, 1, 1, "err"), 0, 2048, b"the end")
    lines = format_report(failed(folder, record))
    at = lines.index("  Missing: 2 KiB before the last 7 bytes of worker-1.s1.t1.err")
    assert lines[at - 1].startswith("  Full log: ")


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
    lines = format_report(of(report, no_restart_reason="already restarted once (max_restarts = 1)"))
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
    assert any(line.startswith(f"  tony logs {JOB} worker:1 --session 3 ") for line in lines)


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
        "  Tasks: worker:0 stopped",
        "",
        "Next:",
        f"  tony events {JOB}  # what happened, in order",
        f"  tony rerun {JOB}   # run it again as it was (it may pass)",
    ]


def test_a_killed_job_needs_no_page(report: JobReport) -> None:
    failure = Failure(
        failure_class=FailureClass.KILLED, cause=FailureCause.KILLED, reason="killed by ann", session=1, at=1.0
    )
    killed = replace(report, state=JobState.KILLED, failure=failure, exit_code=4)
    assert format_report(killed) == [
        f"job {JOB} (digits) killed after 8 s: killed by ann",
        "",
        "Next:",
        f"  tony rerun {JOB}  # run it again",
    ]


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


def diagnosed(report: JobReport, text: str, *, kind: FailureKind = FailureKind.USER_CODE) -> JobReport:
    """The same job, of which a line of output was recognized."""
    line = EvidenceLine(stream="err", number=7, text=text, ago=0.1, rule="python-module")
    cause = LineMeaning.CAUSE
    found = Diagnosis(kind=kind, meaning=cause, retry=False, advice="install the module", evidence=(line,))
    return of(report, diagnosis=found)


def test_the_lines_that_prove_the_cause_replace_the_last_ones(report: JobReport) -> None:
    lines = format_report(diagnosed(report, "ModuleNotFoundError: No module named 'trian'"))
    assert lines[1:4] == [
        "  Cause:",
        "    worker-1.s1.t1.err:7: ModuleNotFoundError: No module named 'trian'",
        "  What to do: install the module",
    ]
    assert not [line for line in lines if "Last lines" in line]


def test_the_verdict_is_one_record(report: JobReport) -> None:
    root_cause = build_root_cause(diagnosed(report, "ModuleNotFoundError: No module named 'trian'"))
    assert root_cause is not None
    fields = to_plain(root_cause)
    assert (fields["class"], fields["root_task"], fields["retry"]) == ("user-code", "worker:1", False)
    assert [(line["file"], line["line"]) for line in fields["evidence"]] == [("worker-1.s1.t1.err", 7)]


def test_a_kind_without_output_has_advice_too(report: JobReport) -> None:
    root_cause = build_root_cause(of(report, cause="memory", diagnosis=diagnose(FailureCause.MEMORY, None)))
    assert root_cause is not None
    assert root_cause.class_ is FailureKind.MEMORY
    assert "request more memory" in root_cause.advice


def test_nothing_failed(home: Home) -> None:
    assert build_root_cause(succeeded(*recorded(home))) is None


def test_a_foreign_record_cannot_break_the_report(report: JobReport) -> None:
    """Records of other people's jobs may hold anything that fits their types."""
    line = EvidenceLine(stream="a/b.", number=-1, text="x", ago=0.0, rule="no such rule")
    found = Diagnosis(kind=FailureKind.NODE, meaning=LineMeaning.CAUSE, retry=True, evidence=(line,))
    assert format_report(of(report, diagnosis=found))
    assert format_report(of(report, diagnosis=found, task=None))
