"""The plain view: lines with the time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.cli.screen import Terminal
from tests.jobs.fake_am import recorded, standing
from tony.cli import plain_status
from tony.cli.plain_status import PlainView
from tony.jobs.log_lines import LogLine
from tony.model.log_name import LogName
from tony.model.state_directory import Home
from tony.model.states import JobState, TaskState


def test_the_plain_view_on_a_poor_terminal(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines with the time; nothing that could steer the terminal."""
    monkeypatch.setattr(plain_status, "format_stamp", lambda: "12:00:00 ")
    monkeypatch.setenv("TERM", "dumb")
    terminal = Terminal()
    view = PlainView(terminal)
    report = standing(*recorded(home), JobState.RUNNING, TaskState.RUNNING)
    view.on_report(replace(report, tasks=tuple(replace(task, pid=7) for task in report.tasks)))
    view.on_output([LogLine(LogName("worker", 0, 1, 1, "out"), b"\x1b[2Ja\rb")])
    assert terminal.text.splitlines() == [
        "12:00:00 Started worker:0 on here (pid 7)",
        "12:00:00 Started worker:1 on here (pid 7)",
        "12:00:00 worker:0 | b",
    ]
