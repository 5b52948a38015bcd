"""The line above the output of a followed job."""

from __future__ import annotations

import io

import pytest

from tests.cli.screen import Terminal
from tests.facts import mentions
from tests.jobs.fake_am import JOB, recorded
from tony.cli.text import job_heading
from tony.cli.text.job_heading import print_heading
from tony.model.state_directory import Home


def test_it_names_the_job(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the time of day, unless a live table follows."""
    monkeypatch.setattr(job_heading, "format_stamp", lambda: "12:00:00 ")
    folder, record = recorded(home)
    file = io.StringIO()
    print_heading("Submitted", record.spec, folder, to=file)
    assert file.getvalue().startswith(f"12:00:00 Submitted job {JOB} (digits): ")
    assert mentions(file.getvalue(), "2 tasks on local", str(folder.path))
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    print_heading("Following", record.spec, folder, to=terminal)
    assert terminal.text.startswith(f"Following job {JOB} (digits): ")


def test_a_reader_that_has_gone(home: Home) -> None:
    """The job is followed all the same, which says how it continues."""

    class Broken(io.StringIO):
        def flush(self) -> None:
            raise BrokenPipeError

    folder, record = recorded(home)
    print_heading("Submitted", record.spec, folder, to=Broken())
