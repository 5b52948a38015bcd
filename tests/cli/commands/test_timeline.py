"""`tony timeline`: what each task was doing when, as a picture that fits its terminal."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from tests.cli.conftest import Tony
from tests.cli.in_process_am import living
from tests.facts import mentions
from tests.history.simulated_logs import entries, life, record
from tests.jobs.fake_am import JOB, logged, recorded, standing, succeeded
from tests.support.timelines import timeline
from tests.web.sample_jobs import keep
from tony.cli.terminal.terminal_text import count_columns, knows_unicode
from tony.cli.text.timeline_text import format_headline, format_timeline
from tony.core import events as ev
from tony.history.job_record import write_summary
from tony.history.timeline import Mark, MarkerKind, SessionSpan, Span, TaskPhase, TaskResources, Timeline
from tony.model.setting_choices import RoleKind
from tony.model.state_directory import Home
from tony.model.states import JobState, TaskState


def told(spans: list[Span], marks: tuple[Mark, ...] = (), until: float = 100.0, sessions: int = 1) -> Timeline:
    length = until / sessions
    return Timeline(
        job="local-1",
        accepted=0.0,
        until=until,
        spans=tuple(spans),
        sessions=tuple(SessionSpan(n + 1, n * length, (n + 1) * length, "") for n in range(sessions)),
        marks=marks,
        roles={"worker": TaskResources(RoleKind.TRACKED, 1, 0, 1)},
        ended=until,
    )


def plain_life(task: str = "worker:0") -> list[Span]:
    """Waits, is set up, runs: 20, 20 and 60 seconds."""
    return [
        Span(task, 0, 0, TaskPhase.WAITING, 0.0, 20.0),
        Span(task, 1, 0, TaskPhase.SET_UP, 20.0, 40.0),
        Span(task, 1, 1, TaskPhase.RUNNING, 40.0, 100.0),
    ]


def row(lines: list[str], name: str) -> str:
    return next(line for line in lines if line.startswith(name)).removeprefix(name).strip(" ")


def test_a_column_shows_the_longest_state_of_its_time() -> None:
    """The width is divided as the time; the legend is below."""
    lines = format_timeline(told(plain_life()), 60, unicode=False)
    picture = row(lines, "worker:0")
    assert picture == "." * 10 + ":" * 10 + "#" * 30
    assert lines[-1] == ". waiting for a container  : container setup  # running"


def test_the_task_is_named_once() -> None:
    """A sentence that begins with the task needs no name before it."""
    marks = (
        Mark(MarkerKind.FAILURE, 60.0, "worker:0", "worker:0: exit code 1"),
        Mark(MarkerKind.FAILURE, 80.0, "worker:0", "worker:01 is another one"),
    )
    lines = format_timeline(told(plain_life(), marks), 80, unicode=False)
    assert [line.split("  ")[-1] for line in lines if "failure:" in line] == [
        "failure: worker:0: exit code 1",
        "worker:0 failure: worker:01 is another one",
    ]


def test_marks_stand_above_states() -> None:
    """A death hides a checkpoint of the same moment; each is told with its time."""
    marks = (
        Mark(MarkerKind.CHECKPOINT, 60.0, "worker:0", "step 3"),
        Mark(MarkerKind.CHECKPOINT, 80.0, "worker:0", "step 4"),
        Mark(MarkerKind.DEATH, 80.1, "worker:0", "its node \x1bburned"),
        Mark(MarkerKind.RESTART, 90.0, note="again"),
    )
    lines = format_timeline(told(plain_life(), marks, sessions=2), 60, unicode=False)
    picture = row(lines, "worker:0")
    assert (picture.index("C"), picture.index("X")) == (30, 40)
    assert row(lines, "job") == "R"
    assert row(lines, "sessions").split() == ["|1", "|2"]
    assert "  1 m 20 s  worker:0 death: its node \\x1bburned" in lines
    assert f"{'':>10}  2 checkpoints" in lines


def test_events_are_wrapped_and_the_newest_is_last() -> None:
    """A long line continues below; of very many the earlier ones are only counted."""
    long = "worker:1 ran out of memory (limit 64m) -> fail (worker is tracked: all of its tasks must succeed)"
    marks = tuple(Mark(MarkerKind.FAILURE, float(n), "worker:0", f"{long} {n}") for n in range(40))
    lines = format_timeline(told(plain_life(), marks), 60, unicode=False)
    words = " ".join(" ".join(lines).split())
    assert max(map(len, lines)) <= 60
    assert f"failure: {long} 39" in words
    assert "28 earlier ones: tony events" in words


def test_of_many_tasks_several_share_a_lane() -> None:
    """No more than some forty lanes, and one death among ten thousand tasks is seen."""
    spans = [span for number in range(10_000) for span in plain_life(f"worker:{number}")]
    line = told(spans, (Mark(MarkerKind.DEATH, 50.0, "worker:7777", "gone"),))
    lines = format_timeline(line, 80, unicode=True)
    lanes = [line for line in lines if line.startswith("worker:")]
    assert len(lanes) == 40
    assert [lane.split()[0] for lane in lanes if "✗" in lane] == ["worker:7750-7999"]
    assert max(map(count_columns, lines)) <= 80


def test_every_task_may_have_a_row() -> None:
    """If that is wanted; or only some tasks are shown."""
    spans = [span for number in range(60) for span in plain_life(f"worker:{number}")]
    rows = format_timeline(told(spans), 80, unicode=False, max_task_rows=None)
    assert sum(line.startswith("worker:") for line in rows) == 60
    rows = format_timeline(told(spans), 80, unicode=False, tasks=frozenset({"worker:7"}))
    assert [line.split()[0] for line in rows if line.startswith("worker:")] == ["worker:7"]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("columns", [24, 80, 200])
def test_any_life_fits_its_terminal(seed: int, columns: int) -> None:
    """Whatever happened: no line is longer than the terminal, but on one that is too narrow for any picture."""
    lived = life(seed)
    line = timeline(record(lived.spec), entries(lived.cluster))
    for unicode in (False, True):
        lines = format_timeline(line, columns, unicode=unicode)
        assert max(map(count_columns, lines)) <= max(columns, 50)
        names = {task for task, _ in line.group_by_task()}
        assert columns < 80 or names == {
            each.split()[0] for each in lines if each.split()[:1] and each.split()[0] in names
        }
    assert all(each.isascii() for each in format_timeline(line, columns, unicode=False) if "…" not in each)


def test_a_job_of_no_time_at_all() -> None:
    lines = format_timeline(told([Span("worker:0", 0, 0, TaskPhase.WAITING, 0.0, 0.0)], until=0.0), 80, unicode=False)
    assert any(line.startswith("worker:0") for line in lines)
    assert format_headline(told([], until=0.0), "failed", "a\nb") == "local-1  a\\nb  failed  took 0 s"


def test_colours_are_put_onto_runs() -> None:
    """One sequence for each run of a kind, not for each character."""
    lines = format_timeline(told(plain_life()), 60, unicode=False, paint=lambda text, colour: f"<{colour}>{text}</>")
    assert row(lines, "worker:0") == f"<yellow>{'.' * 10}</><blue>{':' * 10}</><green>{'#' * 30}</>"


class TestCommand:
    def test_of_an_ended_job(self, tony: Tony, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        """From its record, at the width that COLUMNS says."""
        monkeypatch.setenv("COLUMNS", "60")
        folder = keep(home, seed=5)
        answer = (
            tony("timeline", "last", "--ascii") if home.last.exists() else tony("timeline", folder.job_id, "--ascii")
        )
        assert (answer.code, answer.err) == (0, "")
        lines = answer.out.splitlines()
        assert lines[0].startswith(f"{folder.job_id}  digits  ")
        assert {"chief:0", "ps:0"} <= {line.split()[0] for line in lines if line.strip()}
        assert max(map(len, lines[1:])) <= 60
        only = tony("timeline", folder.job_id, "chief").out
        assert "chief:0" in only
        assert "ps:0" not in only

    def test_as_json(self, tony: Tony, home: Home) -> None:
        """Spans of each task, without gaps; null before anything was logged."""
        folder = keep(home, seed=5)
        said = tony("timeline", folder.job_id, "--json").json
        assert said["job"] == folder.job_id
        assert said["spans"][0]["what"] == "waiting"
        assert said["spans"][0]["since"] == 0.0

    def test_while_it_runs(self, tony: Tony, home: Home) -> None:
        """Up to this moment; without an event there is nothing to draw, which is said."""
        folder, written = recorded(home)
        with living(folder, standing(folder, written, JobState.RUNNING, TaskState.RUNNING)):
            answer = tony("timeline", JOB)
            assert answer.code == 0
            assert mentions(answer.out.splitlines()[0], f"job {JOB}", "running", f"tony status {JOB}")
        folder.events(1).unlink()
        logged(folder, [ev.AttemptStarted(attempt=1, wall=1.0, settings="", pid=1, host="h")])
        with living(folder, standing(folder, written, JobState.RUNNING, TaskState.RUNNING)):
            answer = tony("timeline", JOB)
        assert "digits  running  for " in answer.out

    def test_an_ended_job_without_events(self, tony: Tony, home: Home) -> None:
        """None are to come, so that it does not say yet."""
        folder, written = recorded(home)
        write_summary(folder, succeeded(folder, written))
        expected = f"no events of job {JOB} are kept; its state is succeeded"
        assert tony("timeline", JOB).out == f"{expected}; see: tony status {JOB}\n"
        assert expected in tony("trace", JOB, "--json").err

    def test_a_task_that_is_not_there(self, tony: Tony, home: Home) -> None:
        folder, written = recorded(home)
        write_summary(folder, succeeded(folder, written))
        answer = tony("timeline", JOB, "worker:9")
        assert (answer.code, answer.out) == (2, "")
        assert "it has worker:0, worker:1" in answer.err


def test_a_stream_without_utf_8(tmp_path: Path) -> None:
    """It gets a picture of ASCII; so does one that does not say what it takes."""
    assert knows_unicode(io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    assert not knows_unicode(io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert not knows_unicode(io.TextIOWrapper(io.BytesIO(), encoding="latin-1"))
    assert not knows_unicode(io.StringIO())
