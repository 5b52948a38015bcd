"""The event log as spans: without gaps, and true to what happened."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.core.specs import FAILED, OK, task, with_restarts, workers
from tests.history.simulated_logs import entries, entries_of, life, record
from tests.support.simulation import Simulation
from tests.support.timelines import timeline
from tony.core import events as ev
from tony.history import timeline as module
from tony.history.event_log import read, segments
from tony.history.job_record import read_job
from tony.history.timeline import Mark, MarkerKind, TaskPhase, Timeline, TimelineReader, with_checkpoints
from tony.model.actor import Actor
from tony.model.job_spec import JobSpec, Role
from tony.model.setting_choices import AfterCondition
from tony.model.state_directory import JobFolder

LOGS = Path(__file__).parent.parent / "logs"


def drawn(cluster: Simulation, until: float | None = None) -> Timeline:
    return timeline(record(cluster.app.state.spec), entries(cluster), until)


def phases(line: Timeline, name: str) -> list[tuple[str, float, float]]:
    return [(span.what.value, span.since, span.until) for span in line.spans if span.task == name]


def check(line: Timeline) -> None:
    """Spans of a task follow each other from 0 to the end, and differ from their neighbours."""
    for name, spans in line.group_by_task():
        assert spans[0].since == 0.0, name
        assert spans[-1].until == line.until, name
        for one, other in itertools.pairwise(spans):
            assert one.until == other.since > one.since, name
    for mark in line.marks:
        assert 0.0 <= mark.at <= max(line.until, mark.at)
    for since, until in line.queued:
        assert 0.0 <= since < until <= line.until


def test_containers_are_listed_with_their_hosts() -> None:
    """For each task in the order in which it had them."""
    cluster = life(3).cluster
    line = drawn(cluster)
    granted = {each.event.container: each.event.host for each in entries(cluster) if isinstance(each.event, ev.Granted)}
    told = [pair for held in line.held.values() for pair in held]
    assert told
    assert set(told) <= set(granted.items())
    assert len(told) == len(dict(told))
    registered = {
        (str(each.event.task), each.event.container)
        for each in entries(cluster)
        if isinstance(each.event, ev.Registered)
    }
    assert registered <= {(task, container) for task, held in line.held.items() for container, _ in held}


def step(cluster: Simulation, seconds: float) -> None:
    """Everything on its way arrives; then time passes."""
    cluster.run()
    cluster.now += seconds


def started(spec: JobSpec) -> Simulation:
    """A job that was accepted 2 s before its master began, and granted everything 3 s later."""
    cluster = Simulation(spec, capacity=0)
    cluster.now = 2.0
    cluster.begin()
    step(cluster, 3.0)
    cluster.capacity = 100
    cluster.grant()
    return cluster


def test_a_life_without_trouble() -> None:
    """Waiting, container, gang, program, nothing: each at its time."""
    cluster = started(workers(1))
    cluster.deliver_pending()  # the grant; then its executor comes up
    cluster.now += 4.0
    cluster.run()
    cluster.now += 60.0
    cluster.exit(task("worker:0"), OK)
    cluster.run()
    line = drawn(cluster)
    check(line)
    assert phases(line, "worker:0") == [("waiting", 0.0, 5.0), ("set-up", 5.0, 9.0), ("running", 9.0, 69.0)]
    assert (line.first_start, line.ended, line.until, line.doubt) == (9.0, 69.0, 69.0, "")
    assert line.queued == ((0.0, 2.0),)
    assert line.accepted == 998.0
    assert [span.held for span in line.spans] == [False, True, True]


def test_a_restart_is_one_interval() -> None:
    """The other tasks are stopped and wait; all time until the programs run again belongs to the restart."""
    cluster = started(with_restarts(workers(2), 1))
    step(cluster, 10.0)
    cluster.stubborn.add(task("worker:1"))
    cluster.exit(task("worker:0"), FAILED)
    step(cluster, 5.0)
    cluster.exit(task("worker:1"), FAILED)
    step(cluster, 20.0)
    for name in ("worker:0", "worker:1"):
        cluster.exit(task(name), OK)
    cluster.run()
    line = drawn(cluster)
    check(line)
    assert phases(line, "worker:0") == [
        ("waiting", 0.0, 5.0),
        ("running", 5.0, 15.0),
        ("waiting", 15.0, 20.0),
        ("running", 20.0, 40.0),
    ]
    assert phases(line, "worker:1")[1:3] == [("running", 5.0, 15.0), ("stopping", 15.0, 20.0)]
    again = [span for span in line.spans if span.again]
    assert {(span.task, span.what) for span in again} == {
        ("worker:0", TaskPhase.WAITING),
        ("worker:1", TaskPhase.STOPPING),
    }
    assert [(s.number, s.since, s.until) for s in line.sessions] == [(1, 2.0, 20.0), (2, 20.0, 40.0)]
    assert MarkerKind.RESTART in {mark.what for mark in line.marks}


def test_a_role_that_waits_for_another_takes_no_time() -> None:
    """Until the other role has finished."""
    spec = JobSpec(command="x", roles={"first": Role(), "later": Role(after={"first": AfterCondition.SUCCEEDED})})
    cluster = started(spec)
    step(cluster, 30.0)
    cluster.exit(task("first:0"), OK)
    step(cluster, 10.0)
    cluster.exit(task("later:0"), OK)
    cluster.run()
    line = drawn(cluster)
    check(line)
    assert phases(line, "later:0") == [("waiting", 0.0, 2.0), ("gone", 2.0, 35.0), ("running", 35.0, 45.0)]


def test_one_that_starts_again_alone() -> None:
    """Between its tries it is under way again, and the others run on."""
    from tony.model.setting_choices import RestartScope

    spec = JobSpec(
        command="x", max_restarts=2, roles={"worker": Role(instances=2, restart=RestartScope.TASK)}, backoff=0.0
    )
    cluster = started(spec)
    step(cluster, 10.0)
    cluster.exit(task("worker:0"), FAILED)
    step(cluster, 10.0)
    cluster.lose(cluster.app.state.tasks[task("worker:0")].container or "", "its node burned", silent=True)
    step(cluster, 10.0)
    for name in ("worker:0", "worker:1"):
        cluster.exit(task(name), OK)
    cluster.run()
    line = drawn(cluster)
    check(line)
    assert phases(line, "worker:1") == [("waiting", 0.0, 5.0), ("running", 5.0, 35.0)]
    assert [(span.try_, span.what) for span in line.spans if span.task == "worker:0"][1:] == [
        (1, TaskPhase.RUNNING),
        (2, TaskPhase.RUNNING),
        (3, TaskPhase.RUNNING),
    ]
    assert [mark.task for mark in line.marks if mark.what is MarkerKind.DEATH] == ["worker:0"]


def test_the_latest_lone_restart_of_each_task() -> None:
    """Restarts of the gang are sessions."""
    marks = (
        Mark(MarkerKind.RESTART, 1.0, "worker:0", "exit code 1"),
        Mark(MarkerKind.RESTART, 2.0, "worker:1", "exit code 2"),
        Mark(MarkerKind.RESTART, 3.0, note="the gang failed"),
        Mark(MarkerKind.FAILURE, 4.0, "worker:1", "exit code 3"),
        Mark(MarkerKind.RESTART, 5.0, "worker:0", "exit code 4"),
    )
    line = Timeline(job="j", accepted=0.0, until=9.0, spans=(), sessions=(), marks=marks, roles={})
    assert line.lone_restarts == [marks[4], marks[1]]


def test_open_spans_end_now() -> None:
    """For a running job; read again later, they are longer and nothing else has changed."""
    cluster = started(workers(2))
    step(cluster, 0.0)
    chronicle = TimelineReader(record(cluster.app.state.spec))
    for entry in entries(cluster):
        chronicle.take(entry)
    early, late = chronicle.timeline(8.0), chronicle.timeline(50.0)
    for line in (early, late):
        check(line)
    assert (early.until, late.until, late.ended) == (8.0, 50.0, None)
    assert [span.since for span in early.spans] == [span.since for span in late.spans]


def test_an_end_is_dated_when_it_was() -> None:
    """What an executor reports late ended when it did, not when that was heard."""
    cluster = started(workers(1))
    cluster.run()
    cluster.now = 65.0
    cluster.exit(task("worker:0"), OK)
    cluster.now = 105.0
    cluster.run()
    line = drawn(cluster)
    check(line)
    assert ("running", 5.0, 65.0) in phases(line, "worker:0")


def test_checkpoints_are_marks_among_the_others() -> None:
    """They come from what programs told, and stand in the order of time."""
    cluster = started(with_restarts(workers(1), 1))
    step(cluster, 10.0)
    cluster.exit(task("worker:0"), FAILED)
    step(cluster, 10.0)
    line = with_checkpoints(drawn(cluster), [("worker:0", 7.0, 100), ("worker:0", 21.0, 200)])
    assert [mark.what for mark in line.marks] == [MarkerKind.CHECKPOINT, MarkerKind.RESTART, MarkerKind.CHECKPOINT]


@pytest.mark.parametrize("block", range(4))
def test_spans_cover_every_second(block: int) -> None:
    """Random jobs with restarts, lone ones, deaths of masters, elastic gangs: each task's spans cover all of it."""
    for seed in range(block * 40, (block + 1) * 40):
        try:
            line = drawn(life(seed).cluster)
            assert line.doubt == ""
            check(line)
        except AssertionError as error:
            error.add_note(f"in life {seed}")
            raise


@pytest.mark.parametrize("name", sorted(path.name for path in LOGS.iterdir() if path.is_dir()))
def test_logs_of_real_jobs(name: str) -> None:
    """What real jobs left, also under earlier versions, makes a picture without doubt."""
    folder = JobFolder(LOGS / name)
    kept = read_job(folder)
    assert kept
    line = timeline(kept, read(segments(folder.path)))
    check(line)
    assert line.doubt == ""
    assert line.ended is not None
    assert any(span.what is TaskPhase.RUNNING for span in line.spans)


def test_a_log_that_makes_no_sense_is_doubted() -> None:
    """What cannot be is left out, and said."""
    cluster = started(workers(1))
    cluster.run()
    strange = [*cluster.log, (ev.SessionOpened(session=7, reason="?"), cluster.now)]
    line = timeline(record(cluster.app.state.spec), entries_of(strange))
    check(line)
    assert line.doubt.startswith(f"event {len(strange)} (session-opened)")


def test_the_latest_marks_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory for users' requests is bounded; the newest ones are kept."""
    monkeypatch.setattr(module, "MAX_MARKS", 3)
    cluster = started(workers(1))
    asked = [(ev.LogLevelRequested(actor=Actor("ann"), level=f"no. {number}"), cluster.now) for number in range(5)]
    line = timeline(record(cluster.app.state.spec), entries_of([*cluster.log, *asked]))
    assert [mark.note for mark in line.marks] == [f"ann requested log level no. {number}" for number in (2, 3, 4)]
