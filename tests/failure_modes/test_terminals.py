"""Terminals that are narrow, odd, or not there at all: everything can be read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.e2e.lab import TONY, Lab
from tests.failure_modes.terminal import Shown, show
from tony.cli.main import COMMANDS

pytestmark = pytest.mark.e2e

NARROW = 40
NAME = "a job with quite a long name, as people give"
ERROR = "a rather long line of an error message that is longer than forty columns"
#: One succeeds; the other one fails when that is known, for what still runs then is stopped.
FAILS = f"until grep -q exited $TONY_HOME/jobs/$JOB_ID/events.1.jsonl; do sleep 0.1; done; echo '{ERROR}' >&2; exit 3"
JOB = f"""
name = "{NAME}"
command = "echo hello from {{role}} {{index}}; sleep 0.5; test {{index}} = 0 || {{ {FAILS}; }}"
[roles.worker]
instances = 2
"""


@pytest.fixture(scope="module")
def place() -> Iterator[tuple[Lab, str, Path]]:
    """A user, one failed job of theirs, and its file."""
    with TemporaryDirectory(prefix="tony-e2e-") as folder:
        lab = Lab(Path(folder))
        try:
            file = lab.job_file(JOB)
            assert lab.submit(file).returncode == 1
            yield lab, lab.only_job(), file
        finally:
            lab.close()


def on(place: tuple[Lab, str, Path], columns: int, *words: str, terminal: str = "xterm-256color") -> Shown:
    lab = place[0]
    shown = show([TONY, *words], columns, lab.env, lab.root, terminal)
    assert "Traceback" not in shown.raw
    assert "internal error" not in shown.raw
    return shown


def has_words(shown: Shown, text: str) -> bool:
    """Whether a text can be read, wherever its lines are broken."""
    return re.sub(r"\s+", "", text) in re.sub(r"\s+", "", "".join(shown.lines))


def test_a_job_is_followed(place: tuple[Lab, str, Path]) -> None:
    """What was printed stays, each line whole; the table below it is gone; the failure is told in full."""
    lab, _, file = place
    shown = on(place, NARROW, "submit", str(file))
    assert shown.code == 1
    job = lab.jobs()[-1]
    for line in ("worker:0 | hello from worker 0", "worker:1 | hello from worker 1", f"worker:1 | {ERROR}"):
        assert shown.lines.count(line) == 1, shown.lines
    assert not [line for line in shown.lines if line.startswith("TASK ")]
    assert has_words(shown, f"job {job} ({NAME}) failed after")
    assert has_words(shown, "worker:1: exit code 3")
    assert any(line.startswith(f"  tony logs {job} worker:1 ") for line in shown.lines)
    # While it ran there was a table, and each of its rows had room on one line.
    frames = [re.sub(r"\x1b\[[0-9;]*m", "", row) for row in re.split(r"\r?\n|\r|\x1b\[\d*[AJ]", shown.raw)]
    rows = [row for row in frames if re.match(r"TASK +STATE|worker:[01] +(starting|running|failed|succeeded)", row)]
    assert len(rows) >= 3
    assert max(map(len, rows)) < NARROW


def test_status(place: tuple[Lab, str, Path]) -> None:
    """Columns that tell least are left out; the verdict is whole."""
    _, job, _ = place
    shown = on(place, NARROW, "status", job)
    table = [row for row in shown.rows if re.match(r"TASK|worker:\d ", row)]
    assert [row.split()[:2] for row in table] == [["TASK", "STATE"], ["worker:0", "succeeded"], ["worker:1", "failed"]]
    assert all(len(row) <= NARROW for row in table)
    assert has_words(shown, job)
    assert has_words(shown, NAME)
    assert has_words(shown, f"job {job} ({NAME}) failed after")
    assert has_words(shown, ERROR)


def test_list(place: tuple[Lab, str, Path]) -> None:
    """Of an id there is as much as every command takes; a name that is cut says so."""
    _, job, _ = place
    shown = on(place, NARROW, "list")
    heading, *rows = [row for row in shown.rows if row]
    assert heading.split() == ["JOB", "NAME", "STATE"]
    row = next(row for row in rows if row.split()[0] == job[-6:])
    assert "…" in row
    assert row.endswith("failed")
    assert all(len(row) <= NARROW for row in rows)
    assert on(place, NARROW, "status", job[-6:]).code == 0


def test_logs_and_events_are_whole(place: tuple[Lab, str, Path]) -> None:
    """What was printed is not ours to cut: it wraps."""
    _, job, _ = place
    assert f"worker:1 | {ERROR}" in on(place, NARROW, "logs", job).lines
    events = on(place, NARROW, "events", job)
    assert has_words(events, "worker:1 of session 1: exit code 3")


def test_paths_are_whole(place: tuple[Lab, str, Path]) -> None:
    lab, job, _ = place
    shown = on(place, NARROW, "history", job)
    assert has_words(shown, str(lab.home / "jobs" / job / "summary.json"))


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits(place: tuple[Lab, str, Path], name: str) -> None:
    """Nothing of a help page wraps, but for a word that has no room on any line, and examples: people copy them."""
    shown = on(place, NARROW, name, "--help")
    assert shown.code == 0
    too_long = [line.strip() for line in shown.lines if len(line) > NARROW]
    too_long = [line for line in too_long if " " in line.replace(" [", "[") and not line.startswith("tony ")]
    assert too_long == []


def test_settings_fit(place: tuple[Lab, str, Path]) -> None:
    shown = on(place, NARROW, "settings", "--all")
    assert [line for line in shown.lines if len(line) > NARROW and len(line.split()) > 1] == []


@pytest.mark.parametrize("columns", [0, 1, 2, 7, 500])
def test_odd_widths(place: tuple[Lab, str, Path], columns: int) -> None:
    """Nothing can be read on a terminal of one column, but nothing breaks, either."""
    _, job, file = place
    lines = (
        ("submit", str(file)),
        ("status", job),
        ("list",),
        ("logs", job),
        ("settings",),
        ("--help",),
        ("events", job),
    )
    codes = [on(place, columns, *words).code for words in lines]
    assert codes == [1, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("terminal", ["dumb", "", "no-such-terminal", "vt100"])
def test_terminals_that_can_do_little(place: tuple[Lab, str, Path], terminal: str) -> None:
    """Without redrawing there are plain lines."""
    _, _, file = place
    shown = on(place, NARROW, "submit", str(file), terminal=terminal)
    assert shown.code == 1
    assert any(line.endswith(f"worker:1 | {ERROR}") for line in shown.lines)
    if terminal in ("dumb", ""):
        assert "\x1b" not in shown.raw


def test_no_terminal_at_all(place: tuple[Lab, str, Path]) -> None:
    """Neither input, nor output, nor a controlling terminal: nothing is cut, nothing is coloured, no prompt is
    shown."""
    lab, job, file = place
    done = lab.tony("submit", file, env={"TERM": "", "COLUMNS": "40"})
    assert done.returncode == 1
    assert f"worker:1 | {ERROR}\n" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr
    for words in (("status", job), ("list",), ("events", job), ("history", job)):
        answer = lab.tony(*words, env={"COLUMNS": "40"})
        assert answer.returncode == 0
        assert "…" not in answer.stdout
        assert "\x1b" not in answer.stdout
    lab.prefix = ("setsid", "--wait")
    try:
        assert lab.tony("run", "--", "true").returncode == 0
    finally:
        lab.prefix = ()
