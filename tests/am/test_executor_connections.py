"""Who may speak for a task, what is acknowledged when, and who is silent: on fake connections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.am.fake_connection import FakeConnection
from tests.core.specs import OK, roles, task, workers
from tests.support.simulation import Simulation
from tony import clock
from tony.am.executor_connections import Executors
from tony.am.metrics_store import MetricsStore
from tony.core import events as ev
from tony.core.steps.container_loss import REPORT_WAIT_SECONDS
from tony.model.diagnosis import EvidenceLine
from tony.model.ids import TaskId
from tony.model.job_spec import JobSpec, Role
from tony.model.log_file_tail import LogFileTail
from tony.model.states import TaskState
from tony.protocol.client_messages import KillJob
from tony.protocol.error_codes import Code
from tony.protocol.executor_messages import (
    MAX_EXPORT_BYTES,
    Ack,
    Attach,
    Heartbeat,
    Prepare,
    ProgramExited,
    ProgramStarted,
    Ready,
    Welcome,
)
from tony.protocol.output_messages import LogPiece, ReadLog


class Scene:
    """Two workers whose containers are there, and the executors' desk.

    Attributes:
        now: what the monotonic clock shows.
        fed: events that came out.
    """

    def __init__(self, spec: JobSpec) -> None:
        self.simulation = Simulation(spec)
        self.simulation.begin()
        self.simulation.run(until=lambda: len(self.simulation.executors) == 2)
        self.simulation.pending.clear()
        self.fed: list[ev.Event] = []
        self.now = 1000.0
        self.in_charge = True
        self.kept: list[LogFileTail] = []
        self.metrics = MetricsStore(self.simulation.app.state, self.time, Path("/nowhere"), late=False)
        self.desk = self.executors_of(attempt=1)

    def time(self) -> float:
        return self.now - 1000.0

    def executors_of(self, attempt: int, overlap: float = 0.0, output_limit: int = 0) -> Executors:
        return Executors(
            self.simulation.app,
            attempt,
            self.fed.append,
            self.time,
            self.metrics,
            lambda: self.in_charge,
            overlap,
            self._store_output,
            output_limit,
        )

    async def _store_output(self, tails: Sequence[LogFileTail]) -> None:
        self.kept += tails

    def attach(self, who: str = "worker:0", incarnation: str = "i-1", **more: object) -> FakeConnection:
        """A connection on which an executor has attached."""
        wire = FakeConnection()
        container = {"worker:0": "c-1", "worker:1": "c-2"}.get(who, "c-1")
        said = {
            "task": TaskId.parse(who),
            "container": container,
            "incarnation": incarnation,
            "highest_attempt": 1,
            "pid": 5,
        }
        self.desk.attach(wire.me, Attach(**{**said, "host": "h", **more}))  # type: ignore[arg-type]
        return wire


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    """Heartbeats every second, silence after five."""
    scene = Scene(workers(2, heartbeat_interval=1.0, heartbeat_timeout=5.0, metrics_interval=0.0))
    monkeypatch.setattr(clock, "monotonic", lambda: scene.now)
    scene.desk._checked = scene.now
    return scene


def ready(n: int, session: int = 1) -> Ready:
    return Ready(n=n, session=session, address="h:1")


# --- who may speak ----------------------------------------------------------------------------------------------------


def test_an_expected_executor_is_accepted(scene: Scene) -> None:
    """It gets the heartbeat interval and the number of its last known report."""
    wire = scene.attach()
    assert wire.sent == [Welcome(attempt=1, heartbeat_interval=1.0, acked=0)]


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"task": TaskId("worker", 7)}, Code.STALE),
        ({"task": TaskId("unknown", 0)}, Code.STALE),
        ({"container": "c-2"}, Code.STALE),
        ({"container": "c-9"}, Code.STALE),
        ({"highest_attempt": 2}, Code.SUPERSEDED),
    ],
)
def test_an_unexpected_executor_is_refused(scene: Scene, said: dict[str, object], code: Code) -> None:
    """Another task, another container, another master's: none of its messages is accepted."""
    wire = scene.attach(**said)  # type: ignore[arg-type]
    assert (wire.refused, wire.sent) == ([code], [])
    assert not scene.desk.on_message(wire.me, ready(1))
    assert scene.fed == []


def test_a_registered_task_has_one_executor(scene: Scene) -> None:
    """Once one has registered, another process in the same container is not believed."""
    wire = scene.attach()
    scene.desk.on_message(wire.me, ready(1))
    scene.simulation.deliver(scene.fed[0])
    assert scene.attach(incarnation="i-2").refused == [Code.STALE]
    assert scene.attach().refused == []


def test_a_new_connection_replaces_the_old_one(scene: Scene) -> None:
    """The same executor came back before we noticed that it was gone."""
    old = scene.attach()
    new = scene.attach()
    assert (old.over, new.over, scene.desk.connected_count) == (True, False, 1)
    scene.desk.on_closed(old.me)
    scene.desk.send(task("worker:0"), Prepare(session=1))
    assert new.sent[-1] == Prepare(session=1)


# --- reports ----------------------------------------------------------------------------------------------------------


def test_a_report_is_acknowledged_when_the_log_has_it(scene: Scene) -> None:
    """Not before; and once more if it is sent again."""
    wire = scene.attach()
    assert scene.desk.on_message(wire.me, ready(1))
    assert [type(m) for m in wire.sent] == [Welcome]
    scene.desk.acknowledge(scene.desk.take_unacknowledged())
    assert wire.sent[1:] == [Ack(n=1)]
    scene.desk.on_message(wire.me, ready(1))
    assert (wire.sent[1:], len(scene.fed)) == ([Ack(n=1), Ack(n=1)], 1)


def test_acknowledged_reports_are_known_after_a_reconnect(scene: Scene) -> None:
    """The executor sends the rest again, and nothing is counted twice."""
    wire = scene.attach()
    scene.desk.on_message(wire.me, ready(1))
    scene.desk.acknowledge(scene.desk.take_unacknowledged())
    scene.desk.on_message(wire.me, ProgramStarted(n=2, session=1, try_=1, pid=9))
    scene.desk.on_closed(wire.me)
    scene.desk.acknowledge(scene.desk.take_unacknowledged())
    wire = scene.attach()
    assert wire.sent == [Welcome(attempt=1, heartbeat_interval=1.0, acked=2)]
    scene.desk.on_message(wire.me, ProgramExited(n=3, session=1, try_=1, status=OK, ago=0.0))
    assert [event.kind for event in scene.fed] == ["registered", "started", "exited"]


def test_messages_of_an_older_session_are_logged_once(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """Once for each executor and session; the machine refuses and counts every one."""
    first, second = scene.attach(), scene.attach("worker:1", "i-2")
    scene.simulation.app.state.session = 3
    for wire in (first, second):
        for n, session in enumerate((1, 1, 2, 2, 3), 1):
            scene.desk.on_message(wire.me, ProgramStarted(n=n, session=session, try_=1, pid=9))
    said = [r.getMessage() for r in caplog.records if "ignored a report" in r.getMessage()]
    assert said == [
        f"ignored a report of {who}: started of session {session}, the current session is 3"
        for who in ("worker:0", "worker:1")
        for session in (1, 2)
    ]
    before = scene.simulation.app.state.refused
    for event in scene.fed[:4]:
        scene.simulation.app.handle(event, 1.0)
    assert scene.simulation.app.state.refused == before + 4


def test_a_gap_in_the_numbers_is_refused(scene: Scene) -> None:
    """A report was lost: never pass over it."""
    wire = scene.attach()
    scene.desk.on_message(wire.me, ready(2))
    assert (wire.refused, scene.fed) == ([Code.BAD_MESSAGE], [])


def test_messages_that_executors_may_not_send_are_refused(scene: Scene) -> None:
    """Messages of clients and of the master itself."""
    wire = scene.attach()
    assert scene.desk.on_message(wire.me, KillJob(actor="me"))
    assert wire.refused == [Code.BAD_MESSAGE]


@pytest.mark.parametrize(("ago", "at"), [(0.0, 7.0), (2.5, 4.5), (99.0, 0.0), (-5.0, 7.0)])
def test_when_a_program_ended(scene: Scene, ago: float, at: float) -> None:
    """By the job's clock, never before the job began and never in the future."""
    scene.now = 1007.0
    wire = scene.attach()
    scene.desk.on_message(wire.me, ProgramExited(n=1, session=1, try_=1, status=OK, ago=ago))
    assert scene.fed == [ev.Exited(task=task("worker:0"), session=1, try_=1, status=OK, at=at)]


def test_of_the_tasks_that_a_line_names_the_first_ones_are_kept(scene: Scene) -> None:
    wire = scene.attach()
    line = EvidenceLine(stream="err", number=1, text="x", ago=0.0, rule="jax-missing", named=(task("worker:1"),) * 30)
    status = replace(OK, evidence=(line,))
    scene.desk.on_message(wire.me, ProgramExited(n=1, session=1, try_=1, status=status, ago=0.0))
    (event,) = scene.fed
    assert isinstance(event, ev.Exited)
    assert event.status.evidence == (replace(line, named=line.named[:20]),)


def test_only_exports_of_the_role_are_accepted_and_cut() -> None:
    """Whatever an executor sends: other names are left out, a long value is cut, a NUL would end it."""
    wanted = {"RESULT": "result: ", "LONG": "long: ", "GONE": "gone: ", "UNTOLD": "untold: "}
    scene = Scene(roles(worker=Role(instances=2, exports=wanted)))
    wire = scene.attach()
    said: dict[str, str | None] = {"RESULT": "a\0b", "LONG": "ä" * MAX_EXPORT_BYTES, "GONE": None, "PATH": "/evil"}
    scene.desk.on_message(wire.me, ProgramExited(n=1, session=1, try_=1, status=OK, ago=0.0, exports=said))
    (event,) = scene.fed
    assert isinstance(event, ev.Exited)
    assert event.exports == {"RESULT": "ab", "LONG": "ä" * (MAX_EXPORT_BYTES // 2), "GONE": None}


# --- what heartbeats say ----------------------------------------------------------------------------------------------


def test_the_last_line_and_its_age(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ages by itself between two heartbeats; a new program has none yet."""
    wire = scene.attach()
    scene.desk.on_message(wire.me, Heartbeat(last_output_age=3.0, last_line="epoch 1" + "x" * 500))
    scene.now += 0.5
    live = scene.desk.collect_live()[task("worker:0")]
    assert (live.last_output_age, len(live.last_line), live.last_step_age) == (3.5, 200, None)
    assert (live.memory, scene.desk.find_last_line(task("worker:0"))) == (None, live.last_line)
    monkeypatch.setattr(scene.metrics, "find_step_age", {task("worker:0"): 2.0}.get)
    assert scene.desk.collect_live()[task("worker:0")].last_step_age == 2.0
    scene.desk.on_message(wire.me, ProgramStarted(n=1, session=1, try_=1, pid=9))
    assert scene.desk.collect_live() == {}


# --- liveness ---------------------------------------------------------------------------------------------------------


def check_for(scene: Scene, seconds: int) -> None:
    """Time passes, looked at once a second."""
    for _ in range(seconds):
        scene.now += 1.0
        scene.desk.check()


def test_silence_is_reported_once(scene: Scene) -> None:
    """After the time-out, whether or not there is a connection."""
    scene.attach()
    gone = scene.attach("worker:1")
    scene.desk.on_closed(gone.me)
    check_for(scene, 5)
    assert scene.fed == []
    check_for(scene, 5)
    assert scene.fed == [
        ev.Silent(task=task("worker:0"), incarnation="i-1", silence=6.0, container="c-1"),
        ev.Silent(task=task("worker:1"), incarnation="i-1", silence=6.0, container="c-2"),
    ]


def test_every_message_counts_as_a_heartbeat(scene: Scene) -> None:
    wire = scene.attach()
    for say in (Heartbeat(), ready(1)):
        check_for(scene, 4)
        scene.desk.on_message(wire.me, say)
    check_for(scene, 4)
    scene.attach()
    check_for(scene, 4)
    assert [event.kind for event in scene.fed] == ["registered"]


def test_a_suspended_application_master_does_not_count_as_silence(scene: Scene) -> None:
    """After an hour's suspension every executor gets the full timeout again."""
    scene.attach()
    scene.now += 3600.0
    scene.desk.check()
    check_for(scene, 5)
    assert scene.fed == []
    check_for(scene, 1)
    assert [event.kind for event in scene.fed] == ["silent"]


def test_heartbeats_of_large_jobs_are_rarer() -> None:
    """So that the master handles about two thousand a second; silence is measured by that."""
    app = Simulation(workers(10_000, heartbeat_interval=1.0, heartbeat_timeout=5.0)).app
    metrics = MetricsStore(app.state, lambda: 0.0, Path("/nowhere"), late=False)
    desk = Executors(app, 1, lambda event: None, lambda: 0.0, metrics, lambda: True, 0.0)
    assert (desk.interval, desk._timeout) == (5.0, 15.0)


# --- containers that end ----------------------------------------------------------------------------------------------


def test_late_reports_of_an_ended_container_count_for_a_while(scene: Scene) -> None:
    """Reports that were on their way when the container ended count; then the connection is closed."""
    wire = scene.attach()
    assert scene.desk.on_container_ended("c-1")
    scene.desk.on_message(wire.me, ready(1))
    assert [event.kind for event in scene.fed] == ["registered"]
    check_for(scene, int(REPORT_WAIT_SECONDS))
    assert not wire.over
    check_for(scene, 1)
    assert (wire.over, scene.desk.connected_count) == (True, 0)
    assert not scene.desk.on_message(wire.me, ready(2))
    check_for(scene, 20)
    assert [event.kind for event in scene.fed] == ["registered"]


def test_the_dead_say_nothing(scene: Scene) -> None:
    """No connection, or none any longer: nothing can be on its way."""
    assert not scene.desk.on_container_ended("c-9")
    wire = scene.attach()
    scene.desk.on_closed(wire.me)
    assert not scene.desk.on_container_ended("c-1")
    wire = scene.attach("worker:1")
    assert scene.desk.on_container_ended("c-2")
    scene.desk.on_closed(wire.me)
    check_for(scene, 20)
    assert scene.fed == []


# --- leases -----------------------------------------------------------------------------------------------------------


def asks(mono: float) -> Heartbeat:
    """A heartbeat that wants to know whether it is heard."""
    return Heartbeat(mono=mono, asks=True)


def test_a_lease_request_is_answered_with_the_last_contact(scene: Scene) -> None:
    """In the executor's own clock: its lease is renewed from there. Executors without a lease get no answer."""
    wire = scene.attach()
    scene.desk.on_message(wire.me, Heartbeat(mono=1.0))
    scene.desk.on_message(wire.me, asks(2.5))
    welcome = Welcome(attempt=1, heartbeat_interval=1.0, acked=0, renews=True)
    assert wire.sent == [welcome, Ack(n=0, heard=2.5)]


def test_no_lease_is_renewed_in_a_container_that_was_given_up(scene: Scene) -> None:
    """Its executor may be heard, and is asked to end; but that another takes its place is reckoned with."""
    wire = scene.attach()
    scene.desk.on_message(wire.me, ready(1))
    scene.simulation.app.state.containers["c-1"].is_end_unconfirmed = True
    scene.desk.on_message(wire.me, asks(2.5))
    assert [message for message in wire.sent if isinstance(message, Ack)] == []
    again = scene.attach()
    assert again.sent[0] == Welcome(attempt=1, heartbeat_interval=1.0, acked=0, renews=False)


def test_a_master_that_may_have_a_successor_renews_no_lease(scene: Scene) -> None:
    """It does not hear of its scheduler: the next one may have given up what we still hear."""
    wire = scene.attach()
    scene.in_charge = False
    scene.desk.on_message(wire.me, asks(2.5))
    assert len(wire.sent) == 1
    scene.in_charge = True
    scene.desk.on_message(wire.me, asks(3.5))
    assert wire.sent[-1] == Ack(n=0, heard=3.5)


def test_the_last_contact_is_in_job_time(scene: Scene) -> None:
    """For an executor that was never heard of it is now."""
    scene.now = 1010.0
    wire = scene.attach()
    scene.now = 1014.0
    scene.desk.on_message(wire.me, Heartbeat())
    scene.desk.on_closed(wire.me)
    scene.now = 1040.0
    assert scene.desk.find_last_contact("c-1") == 14.0
    assert scene.desk.find_last_contact("c-9") == 40.0


def test_an_older_am_may_have_renewed_leases_until_it_is_superseded(scene: Scene) -> None:
    """An older application master may live, and renew leases, until it must know that it is no longer in charge."""
    scene.desk.on_message(scene.attach().me, ready(1))
    scene.simulation.deliver(scene.fed[0])
    later = scene.executors_of(attempt=2, overlap=480.0)
    scene.now = 1010.0
    assert later.find_last_contact("c-1") == 480.0  # it was expected from 1000 on
    assert later.find_last_contact("c-9") == 490.0
    scene.desk = later
    scene.attach()
    assert later.find_last_contact("c-1") == 10.0


async def test_the_end_of_the_output_is_requested_before_the_exit_is_acknowledged(scene: Scene) -> None:
    """An executor that waits for nothing else still gets the request; its answer is no client's."""
    scene.desk = scene.executors_of(attempt=1, output_limit=1 << 20)
    wire = scene.attach()
    scene.desk.on_message(wire.me, ready(1))
    status = replace(OK, first_output=0.5)
    scene.desk.on_message(wire.me, ProgramExited(n=2, session=1, try_=1, status=status, ago=0.0))
    requests = [each for each in wire.sent if isinstance(each, ReadLog)]
    assert [each.name for each in requests] == ["worker-0.s1.t1.out", "worker-0.s1.t1.err"]
    assert wire.sent[-2:] == requests
    piece = LogPiece(reader=requests[0].reader, name=requests[0].name, data="eA==")
    scene.desk.on_message(wire.me, piece)
    await scene.desk.outputs.finish()
    assert [each.data for each in scene.kept] == [b"x"]
    scene.desk.on_message(wire.me, replace(piece, reader=requests[1].reader, name=requests[1].name, data="?"))
    assert wire.refused == [Code.BAD_MESSAGE]


@pytest.mark.parametrize("state", [TaskState.FAILED, TaskState.RUNNING])
def test_a_later_am_attempt_requests_what_the_one_before_may_not_have_stored(scene: Scene, state: TaskState) -> None:
    scene.desk.on_message(scene.attach().me, ready(1))
    scene.simulation.deliver(scene.fed[0])
    known = scene.simulation.app.state.tasks[TaskId("worker", 0)]
    known.session, known.try_, known.state = 1, 2, state
    known.status = replace(OK, first_output=0.5)
    scene.desk = scene.executors_of(attempt=2, output_limit=1 << 20)
    wire = scene.attach(session=1, try_=2)
    requested = [each.name for each in wire.sent if isinstance(each, ReadLog)]
    assert requested == (["worker-0.s1.t2.out", "worker-0.s1.t2.err"] if state is TaskState.FAILED else [])
    assert isinstance(wire.sent[0], Welcome)


def test_a_given_up_container_is_forgotten_after_its_lease(scene: Scene) -> None:
    """First by the state machine, then by the connections."""
    wire = scene.attach()
    del scene.simulation.app.state.containers["c-1"]
    scene.now += 1.0
    scene.desk.check()
    before = wire.over
    scene.now += 3.0
    scene.desk.check()
    assert (before, wire.over, len(scene.desk)) == (False, True, 0)
