"""The page that shows how a job stands."""

from __future__ import annotations

from dataclasses import replace

from tony.am.fallback_page import render_fallback_page
from tony.model.failure import Failure, FailureCause, FailureClass
from tony.model.job_report import JobReport, TaskReport
from tony.model.states import JobState, TaskState


def report(state: JobState = JobState.RUNNING, failure: Failure | None = None) -> JobReport:
    """A job with names that are no text for a page."""
    tasks = (
        TaskReport(task="worker:0", role="worker", index=0, state=TaskState.RUNNING, host="<node>", try_=1),
        TaskReport(task="worker:1", role="worker", index=1, state=TaskState.FAILED, exit_code=3, note="a & b"),
    )
    return JobReport(
        job="application_1_0001",
        name="<script>alert(1)</script>",
        state=state,
        session=2,
        attempt=1,
        exit_code=None,
        folder="/somewhere",
        am=None,
        tasks=tasks,
        failure=failure,
        user="ann",
        submitted=1_700_000_000.0,
        ended=1_700_000_060.0 if state.ended else None,
        waiting="",
    )


def test_foreign_text_is_text() -> None:
    body = render_fallback_page(report())
    assert "<script" not in body
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in body
    assert "&lt;node&gt;" in body
    assert "a &amp; b" in body


def test_an_ended_job_stays() -> None:
    """With its root cause and the last lines; it is not asked for again and again."""
    failure = Failure(
        failure_class=FailureClass.USER,
        cause=FailureCause.PROGRAM,
        reason="worker:1 <failed>",
        session=2,
        at=1.0,
        tail=("x < y",),
    )
    body = render_fallback_page(report(JobState.FAILED, failure))
    assert "refresh" not in body
    assert "worker:1 &lt;failed&gt;" in body
    assert "<pre>x &lt; y</pre>" in body
    assert ", took " in body


def test_a_clock_that_was_set_back_gives_no_negative_duration() -> None:
    ended = replace(report(JobState.SUCCEEDED), ended=1_699_999_000.0)
    assert ", took 0 s<" in render_fallback_page(ended)
