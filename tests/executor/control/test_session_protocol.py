"""What the executor makes of commands that come twice, late, or from the wrong application master."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tony.executor.control.session_protocol import LinkState, SessionProtocol
from tony.model.ids import TaskId
from tony.model.program_exit import ExitReason, ExitStatus
from tony.protocol.client_messages import GetReport
from tony.protocol.executor_messages import (
    Ack,
    Attach,
    Prepare,
    ProgramExited,
    Ready,
    ReleaseExecutor,
    Reported,
    StartProgram,
    StopProgram,
    Welcome,
)
from tony.protocol.message_base import Message
from tony.protocol.shared_messages import SetLogLevel

DONE = ExitStatus(reason=ExitReason.EXITED, code=0)


def make(session: int = 1) -> SessionProtocol:
    attach = Attach(task=TaskId("worker", 0), container="c-1", incarnation="i", highest_attempt=1, pid=7, host="h")
    return SessionProtocol(attach, session)


def welcome(attempt: int = 1, acked: int = 0) -> Welcome:
    return Welcome(attempt=attempt, heartbeat_interval=2.0, acked=acked)


def start(session: int, try_: int = 1, attempt: int = 1) -> StartProgram:
    return StartProgram(attempt=attempt, session=session, try_=try_, version=1, shared=None)


def stop(session: int, grace: float = 3.0) -> StopProgram:
    return StopProgram(session=session, grace=grace, reason="why")


@pytest.fixture
def dialog() -> SessionProtocol:
    """Connected, welcome, ready for session 1; what was to be sent is sent and acknowledged."""
    made = make()
    made.on_connected()
    made.on_message(welcome())
    made.report_ready(1, "h:1")
    made.take_unsent(0.0)
    made.on_message(Ack(n=1))
    return made


def test_nothing_is_sent_before_the_welcome() -> None:
    """Reports wait for the application master's answer, then come in order with their numbers."""
    dialog = make()
    dialog.report_ready(1, "h:1", tb_port=6006)
    assert dialog.take_unsent(0.0) == ()
    assert dialog.on_connected().task == TaskId("worker", 0)
    assert dialog.take_unsent(0.0) == ()
    dialog.on_message(welcome())
    assert dialog.take_unsent(0.0) == [Ready(n=1, session=1, address="h:1", tb_port=6006)]
    assert dialog.take_unsent(0.0) == []
    assert dialog.heartbeat_interval == 2.0
    assert not dialog.is_settled
    dialog.on_message(Ack(n=1))
    assert dialog.is_settled


def test_unacknowledged_reports_come_again_on_the_next_connection(dialog: SessionProtocol) -> None:
    """The end's age grows with each sending; what the Welcome says it has is left out."""
    dialog.on_message(start(1))
    dialog.report_started(1, 1, 42)
    dialog.report_exited(1, 1, DONE, ended=10.0)
    assert [2, 3] == [report.n for report in dialog.take_unsent(10.0)]
    dialog.on_disconnected()
    assert dialog.take_unsent(11.0) == ()
    dialog.on_connected()
    dialog.on_message(welcome(acked=2))
    assert dialog.take_unsent(12.5) == [ProgramExited(n=3, session=1, try_=1, status=DONE, ago=2.5)]


def test_start_is_obeyed_once(dialog: SessionProtocol) -> None:
    """The same try again, while it runs and when it has ended, does nothing; the next try starts."""
    assert dialog.on_message(start(1)) == start(1)
    assert dialog.on_message(start(1)) is None
    dialog.report_exited(1, 1, DONE, ended=0.0)
    assert dialog.on_message(start(1)) is None
    assert dialog.on_message(start(1, try_=2)) == start(1, try_=2)
    assert dialog.refused == 2


def test_stop_before_start_bars_the_session(dialog: SessionProtocol) -> None:
    """The late start is answered with its end, once."""
    assert dialog.on_message(stop(1)) is None
    assert dialog.on_message(start(1)) is None
    assert dialog.on_message(start(1)) is None
    (ended,) = dialog.take_unsent(0.0)
    assert isinstance(ended, ProgramExited)
    assert ended.status.reason is ExitReason.NOT_STARTED
    assert dialog.on_message(Prepare(session=2)) == Prepare(session=2)
    dialog.report_ready(2, "h:2")
    assert dialog.on_message(start(2)) == start(2)


def test_stop_names_the_running_try(dialog: SessionProtocol) -> None:
    """A stop may be repeated while the program runs, and means nothing when it has ended."""
    dialog.on_message(start(1))
    command = replace(stop(1), try_=1)
    assert dialog.on_message(stop(1)) == command
    assert dialog.on_message(stop(1)) == command
    dialog.report_exited(1, 1, DONE, ended=0.0)
    assert dialog.on_message(stop(1)) is None
    assert dialog.on_message(start(1, try_=2)) is not None


def test_a_stop_is_for_one_try_and_for_none_after_it(dialog: SessionProtocol) -> None:
    """One that comes late does not end the next try; one that comes first keeps the try that it names from starting."""
    dialog.on_message(start(1))
    dialog.report_exited(1, 1, ExitStatus(reason=ExitReason.EXITED, code=1), 5.0)
    late = StopProgram(session=1, try_=1, grace=1.0)
    assert dialog.on_message(late) is None
    assert dialog.on_message(start(1, 2)) == start(1, 2)
    assert dialog.on_message(late) is None
    dialog.report_exited(1, 2, ExitStatus(reason=ExitReason.EXITED, code=1), 6.0)
    assert dialog.on_message(StopProgram(session=1, try_=3, grace=1.0)) is None
    dialog.take_unsent(6.0)
    assert dialog.on_message(start(1, 3)) is None
    (report,) = dialog.take_unsent(6.0)
    assert isinstance(report, ProgramExited)
    assert (report.try_, report.status.reason) == (3, ExitReason.NOT_STARTED)


def test_older_sessions_are_history(dialog: SessionProtocol) -> None:
    """Once a session is prepared, nothing that names an older one has an effect."""
    dialog.on_message(Prepare(session=3))
    dialog.report_ready(3, "h:3")
    for late in (Prepare(session=2), Prepare(session=3), start(1), start(2), stop(2)):
        assert dialog.on_message(late) is None
    assert dialog.refused == 5
    assert dialog.on_message(start(3)) == start(3)


def test_prepare_while_the_old_program_runs(dialog: SessionProtocol) -> None:
    """The new session is prepared; the old exit is still reported, and no stop of the old program is needed."""
    dialog.on_message(start(1))
    assert dialog.on_message(Prepare(session=2)) == Prepare(session=2)
    assert dialog.on_message(stop(1)) is None
    assert dialog.on_message(stop(2)) is None
    dialog.report_exited(1, 1, DONE, ended=0.0)
    dialog.report_ready(2, "h:2")
    assert [ProgramExited, Ready] == [type(report) for report in dialog.take_unsent(0.0)]


def test_start_of_an_unprepared_session_fails_with_a_sentence(dialog: SessionProtocol) -> None:
    """It should not happen; if it does, the application master gets an end and not silence."""
    assert dialog.on_message(start(2)) is None
    (ended,) = dialog.take_unsent(0.0)
    assert isinstance(ended, ProgramExited)
    assert (ended.session, ended.status.reason) == (2, ExitReason.LAUNCH_FAILED)
    assert "not been prepared" in ended.status.message
    assert dialog.on_message(Prepare(session=2)) == Prepare(session=2)


def test_of_two_masters_the_older_is_powerless(dialog: SessionProtocol) -> None:
    """A Welcome or a start of a lower attempt is ignored; what we say next names the highest."""
    dialog.on_disconnected()
    dialog.on_connected()
    dialog.on_message(welcome(attempt=2, acked=1))
    assert dialog.on_message(start(1, attempt=1)) is None
    dialog.on_disconnected()
    assert dialog.on_connected().highest_attempt == 2
    assert dialog.on_message(welcome(attempt=1)) is None
    assert dialog.link_state is LinkState.ATTACHED
    assert dialog.on_message(start(1, attempt=2)) is None


def test_from_when_a_later_master_calls_the_older_one_is_not_heeded(dialog: SessionProtocol) -> None:
    """Whatever it had sent before and we have not looked at: it may be meant for another state of things."""
    assert not dialog.accept_reattach(0)
    assert dialog.accept_reattach(1)
    assert dialog.on_message(start(1)) == start(1)
    assert dialog.accept_reattach(2)
    for late in (stop(1), ReleaseExecutor(), Prepare(session=2), Ack(n=9)):
        assert dialog.on_message(late) is None
    assert not dialog.accept_reattach(1)
    assert dialog.on_message(welcome(attempt=1)) is None
    dialog.on_disconnected()
    attach = dialog.on_connected()
    assert (attach.highest_attempt, attach.session, attach.acked) == (2, 1, 1)
    dialog.on_message(welcome(attempt=2, acked=1))
    assert dialog.on_message(stop(1)) == replace(stop(1), try_=1)


def test_an_attaching_executor_sends_its_address_and_state(dialog: SessionProtocol) -> None:
    """Where it can be called, the newest session, the last report that was acknowledged: never more than it made."""
    dialog.on_disconnected()
    dialog.set_listen_address("tls:h:1")
    assert dialog.on_connected().listens == "tls:h:1"
    dialog.on_message(welcome(acked=7))
    dialog.on_message(Prepare(session=3))
    dialog.on_disconnected()
    attach = dialog.on_connected()
    assert (attach.session, attach.acked) == (3, 1)


def test_release_and_log_level(dialog: SessionProtocol) -> None:
    """After the release nothing is started or prepared any longer."""
    assert dialog.on_message(SetLogLevel(level="debug")) == SetLogLevel(level="debug")
    assert dialog.on_message(ReleaseExecutor(grace=1.0)) == ReleaseExecutor(grace=1.0)
    assert dialog.on_message(start(1)) is None
    assert dialog.on_message(Prepare(session=2)) is None
    (ended,) = dialog.take_unsent(0.0)
    assert isinstance(ended, ProgramExited)


def test_messages_that_are_not_for_executors_are_ignored(dialog: SessionProtocol) -> None:
    assert dialog.on_message(GetReport()) is None
    assert dialog.refused == 1


def test_a_try_ends_once(dialog: SessionProtocol) -> None:
    """A second end is our own bug, and said."""
    dialog.on_message(start(1))
    dialog.report_exited(1, 1, DONE, ended=0.0)
    with pytest.raises(ValueError, match="ended twice"):
        dialog.report_exited(1, 1, DONE, ended=0.0)


COMMANDS = st.one_of(
    st.builds(start, st.integers(1, 4), st.integers(1, 3), st.integers(1, 2)),
    st.builds(stop, st.integers(1, 4)),
    st.builds(lambda n: Prepare(session=n), st.integers(1, 4)),
    st.builds(lambda n: Ack(n=n), st.integers(0, 8)),
)
STEPS = st.lists(
    st.one_of(COMMANDS, st.sampled_from(["ends", "prepared", "break", "send"]), st.builds(welcome, st.integers(1, 2))),
    max_size=60,
)


class Shell:
    """Performs the actions of the dialog, and checks what it guarantees."""

    def __init__(self) -> None:
        self.dialog = make()
        self.running: tuple[int, int] | None = None
        self.to_prepare: int | None = 1
        self.started: list[tuple[int, int]] = []
        self.ended: list[tuple[int, int]] = []
        self.arrived: dict[int, Reported] = {}
        self.acked = 0

    def perform(self, command: Message | None) -> None:
        match command:
            case Prepare(session=session):
                self.to_prepare = session
            case StartProgram(session=session, try_=try_):
                assert self.running is None, "two programs at a time"
                assert self.started[-1:] < [(session, try_)], "an older try after a newer one, or one twice"
                self.running = session, try_
                self.started.append(self.running)
            case StopProgram(session=session, try_=try_):
                assert self.running == (session, try_)

    def end(self) -> None:
        if self.running:
            self.dialog.report_exited(*self.running, DONE, ended=0.0)
            self.ended.append(self.running)
            self.running = None

    def send(self) -> None:
        numbers = []
        for report in self.dialog.take_unsent(1.0):
            numbers.append(report.n)
            known = self.arrived.setdefault(report.n, report)
            assert known == report, "one number, two reports"
        assert numbers == sorted(numbers)


@settings(max_examples=300)
@given(STEPS)
def test_guarantees_hold_for_any_messages(steps: list[object]) -> None:
    """Duplicates, reordering, broken connections: one program at a time, one end per start, dense report numbers."""
    shell = Shell()
    dialog = shell.dialog
    dialog.on_connected()
    dialog.on_message(welcome())
    for step in steps:
        if step == "ends":
            shell.end()
        elif step == "prepared" and shell.to_prepare is not None:
            shell.end()
            dialog.report_ready(shell.to_prepare, "h:1")
            shell.to_prepare = None
        elif step == "break":
            dialog.on_disconnected()
            dialog.on_connected()
        elif step == "send":
            shell.send()
        elif isinstance(step, Ack):
            dialog.on_message(Ack(n=min(step.n, len(shell.arrived))))  # none acknowledges what it has not got
        elif isinstance(step, Message):
            shell.perform(dialog.on_message(step))
    shell.end()
    dialog.on_disconnected()
    dialog.on_connected()
    dialog.on_message(welcome(attempt=9, acked=0))
    shell.send()
    assert list(range(1, len(shell.arrived) + 1)) == sorted(shell.arrived)
    ends = [(report.session, report.try_) for report in shell.arrived.values() if isinstance(report, ProgramExited)]
    assert len(ends) == len(set(ends)), "one try ended twice"
    assert set(shell.started) == set(shell.ended) <= set(ends)
