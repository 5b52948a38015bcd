"""The live table: below the output, never in it, and gone at the end."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.cli.screen import Terminal, shown
from tests.jobs.fake_am import recorded, standing, succeeded
from tests.support.screen import Screen
from tony.cli.live_status import LiveView
from tony.cli.text.status_text import format_live_table
from tony.jobs.log_lines import LogLine
from tony.model.job_report import JobReport
from tony.model.log_name import LogName
from tony.model.progress import JobProgress
from tony.model.state_directory import Home
from tony.model.states import JobState, TaskState

WORKER = LogName("worker", 0, 1, 1, "out")


@pytest.fixture(autouse=True)
def size(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 80 columns and 24 lines that shows colours."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.fixture
def report(home: Home) -> JobReport:
    report = standing(*recorded(home), JobState.RUNNING, TaskState.RUNNING)
    return replace(report, tasks=tuple(replace(task, pid=7) for task in report.tasks))


def test_output_scrolls_above_the_table(report: JobReport) -> None:
    """Every line once, in order; one table, below them."""
    terminal = Terminal()
    with LiveView(terminal) as view:
        view.on_report(report)
        view.on_output([LogLine(WORKER, b"one"), LogLine(WORKER, b"two")])
        view.on_report(report)
        view.on_output([LogLine(WORKER, b"three")])
        rows = shown(terminal, 80)
        assert [row for row in rows if row.startswith("worker:0 |")] == [
            "worker:0 | one",
            "worker:0 | two",
            "worker:0 | three",
        ]
        table = rows[rows.index("worker:0 | three") + 1 :]
        assert [row.split()[0] for row in table] == ["running", "TASK", "worker:0", "worker:1"]
        assert sum(row.startswith("TASK") for row in rows) == 1


def test_the_table_is_erased_at_the_end(home: Home, report: JobReport) -> None:
    """Output of programs and messages stay."""
    terminal = Terminal()
    with LiveView(terminal) as view:
        view.on_report(report)
        view.on_output([LogLine(WORKER, b"one")])
        view.on_report(succeeded(*recorded(home)))
    rows = shown(terminal, 80)
    assert "worker:0 | one" in rows
    assert not any(row.startswith("TASK") for row in rows)
    assert "succeeded" in rows[-1]


def test_long_lines_fold_and_leave_the_table_whole(report: JobReport) -> None:
    terminal = Terminal()
    with LiveView(terminal) as view:
        view.on_report(report)
        view.on_output([LogLine(WORKER, b"@" * 200)])
        view.on_output([LogLine(WORKER, b"end")])
        rows = shown(terminal, 80)
    assert "".join(rows).count("@") == 200
    assert sum(row.startswith("TASK") for row in rows) == 1


def test_a_window_that_is_made_narrower(report: JobReport, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folded table is wiped as a whole; the next one fits."""
    terminal, screen = Terminal(), Screen(80)
    with LiveView(terminal) as view:
        view.on_report(report)
        before = terminal.text
        screen.feed(before)
        screen.narrow(20)
        monkeypatch.setenv("COLUMNS", "20")
        view.on_report(report)
        view.on_output([LogLine(WORKER, b"end")])
        screen.feed(terminal.text[len(before) :])
    assert sum(row.startswith("TASK") for row in screen.rows) == 1
    assert screen.rows[screen.rows.index("worker:0 | end") + 2].startswith("TASK")


def test_a_terminal_of_few_lines(report: JobReport, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table is never higher than the screen: what scrolled away could not be wiped."""
    monkeypatch.setenv("LINES", "3")
    terminal = Terminal()
    with LiveView(terminal) as view:
        for _ in range(3):
            view.on_report(report)
            view.on_output([LogLine(WORKER, b"one")])
    rows = shown(terminal, 80, lines=3)
    assert [row for row in rows[:-3] if "worker:" not in row] == rows[: len(rows) - 5]
    assert rows[-3:] == ["worker:0 | one"] * 3


def test_the_table_has_the_progress_and_the_time_that_the_job_took(report: JobReport) -> None:
    began = report.submitted or 0.0
    head, *_, last = format_live_table(report, began + 9.7, 80, 10, "20 % done, 5 m left")
    assert (" for 9.7 s" in head, last) == (True, "20 % done, 5 m left")
    assert " after 4 s" in format_live_table(replace(report, ended=began + 4.0), began + 9.7, 80, 10)[0]


def test_the_share_is_that_of_the_steps_in_the_table(report: JobReport) -> None:
    """The progress is polled less often than reports arrive; that of an earlier session is not shown."""

    def draw(steps: tuple[float | None, float | None], session: int, stalled: float | None = None) -> str:
        terminal = Terminal()
        tasks = [
            replace(task, step=step, total=100.0, session=session)
            for task, step in zip(report.tasks, steps, strict=True)
        ]
        polled = JobProgress(
            task="worker:0", step=17.0, total=100.0, share=0.17, rate=None, left=60.0, age=0.0, overdue=None,
            stalled=stalled, tasks=2,
        )  # fmt: skip
        with LiveView(terminal) as view:
            view._progress = polled
            view.on_report(replace(report, tasks=tuple(tasks), session=session, state=state))
            return shown(terminal, 80)[-1]

    state = JobState.RUNNING
    assert draw((27.0, 31.0), 1) == "27 % done, 1 m 00 s left"
    assert draw((27.0, 31.0), 1, stalled=60.0) == "17 % done, worker:0 stalled for 1 m 00 s"
    assert draw((None, None), 2).startswith("worker:1")
    state = JobState.SUCCEEDED
    assert "done" not in draw((100.0, 100.0), 1)


def test_colours_only_where_they_are_wanted(report: JobReport, monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR leaves the table as it is, without any."""
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal()
    with LiveView(terminal) as view:
        view.on_report(report)
        view.on_notice("something")
    assert re.search("\x1b\\[\\d*m", terminal.text) is None
    monkeypatch.delenv("NO_COLOR")
    coloured = Terminal()
    with LiveView(coloured) as view:
        view.on_report(report)
    assert "\x1b[36mrunning\x1b[0m" in coloured.text
