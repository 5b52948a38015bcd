"""The AM's side of its executors: connections, acknowledgements, liveness.

Reports become events; an event's report is acknowledged when the log has it. Commands that could not be delivered are
not queued: what an executor must know follows from the state and is sent again when it attaches.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tony import clock
from tony.am.log_relay import LogRelay
from tony.am.metrics_store import MetricsStore
from tony.am.output_retention import OutputRetention, StoreOutput
from tony.am.stack_relay import StackRelay
from tony.am.tunnel_broker import TunnelBroker
from tony.core.application import Application
from tony.core.events import Event, Exited, FirstOutput, Registered, Silent, Started
from tony.core.report_builder import Live
from tony.core.steps.container_loss import REPORT_WAIT_SECONDS
from tony.diagnosis.evidence_selection import MAX_EVIDENCE_LINES
from tony.model.ids import TaskId
from tony.model.program_exit import ExitStatus
from tony.protocol.error_codes import Code
from tony.protocol.executor_messages import (
    MAX_EXPORT_BYTES,
    Ack,
    Attach,
    Heartbeat,
    ProgramExited,
    ProgramOutput,
    ProgramStarted,
    Ready,
    Reported,
    Sample,
    Welcome,
)
from tony.protocol.message_base import Message
from tony.protocol.output_messages import LogPiece
from tony.protocol.shared_messages import SetLogLevel, Stacks
from tony.protocol.tunnel_messages import TunnelFailed
from tony.rpc.am_address import is_callable
from tony.rpc.connection import RpcConnection

log = logging.getLogger(__name__)

#: Heartbeats per second that one AM should have to handle; intervals are stretched to stay below.
HEARTBEATS_PER_SECOND = 2000.0
#: Seconds after its container's end in which an executor's last reports may arrive; the state machine waits as long.
_LAST_REPORTS = REPORT_WAIT_SECONDS
#: A check that is later than this many intervals means that the AM itself was stopped, not the executors.
_LATE = 5.0
#: Maximum characters of a name and of a sentence, lines of output, and tasks that a line names, in an executor's
#: report. They are kept in the log, in every report and in memory, for up to 10,000 tasks: the rest is cut off.
_MAX_NAME = 100
_MAX_SENTENCE = 2000
_MAX_LINES = 20
_MAX_NAMED = 20
#: A host's name or number, and a port. It becomes part of other programs' variables.
_ADDRESS = re.compile(r"[!-~]{1,300}:\d{1,5}", re.ASCII)


@dataclass(slots=True, eq=False)
class Peer:
    """One executor process, over all of its connections.

    Attributes:
        last_seen_at: when its last message of any kind arrived (`clock.monotonic`); also set when it reattaches,
            and after the AM was stopped for a while.
        acked, seen: number of its last report that is in the log, and that was received.
        printed: its programs have printed something.
        stale: the newest older session of which it reported something, once that was logged.
        ended: when its container ended, while the connection is still there.
        expected: an earlier AM attempt knew it, and it has not connected to this one yet.
    """

    task: TaskId
    container: str
    incarnation: str
    pid: int
    connection: RpcConnection | None
    last_seen_at: float
    acked: int = 0
    seen: int = 0
    silent: bool = False
    printed: bool = False
    stale: int = 0
    ended: float | None = None
    expected: bool = False
    listens: str = ""
    output_at: float | None = None
    last_line: str = ""


class Executors:
    """All executors of a job.

    Args:
        feed: takes an event.
        now: returns the job's time.
        metrics: takes the samples of executors.
        is_current_attempt, overlap, store_output, output_limit: as of `ContainerAllocator`.
    """

    def __init__(
        self,
        app: Application,
        attempt: int,
        feed: Callable[[Event], None],
        now: Callable[[], float],
        metrics: MetricsStore,
        is_current_attempt: Callable[[], bool],
        overlap: float,
        store_output: StoreOutput | None = None,
        output_limit: int = 0,
    ) -> None:
        self._app = app
        self._attempt = attempt
        self._feed = feed
        self._now = now
        self._peers: dict[TaskId, Peer] = {}
        self._by_container: dict[str, Peer] = {}
        self._by_connection: dict[RpcConnection, Peer] = {}
        self._unacked: set[Peer] = set()
        self._level: str | None = None
        self._checked = clock.monotonic()
        self._metrics = metrics
        self._is_current_attempt = is_current_attempt
        self._overlap = overlap
        spec = app.state.spec
        self.interval = max(spec.heartbeat_interval, len(app.state.tasks) / HEARTBEATS_PER_SECOND)
        self._timeout = max(spec.heartbeat_timeout, 3 * self.interval)
        self.logs = LogRelay(self.send, app.state.tasks, late=attempt > 1)
        self.outputs = OutputRetention(self.send, len(app.state.tasks), store_output, output_limit)
        self.tunnels = TunnelBroker(self.send, app.state.tasks)
        self.stacks = StackRelay(self.send, app.state.tasks)
        self._expect()

    def _expect(self) -> None:
        """Expect the executors that an earlier AM attempt knew: they connect, or become silent."""
        for task in self._app.state.tasks.values():
            if task.container and task.incarnation:
                peer = Peer(task.id, task.container, task.incarnation, task.executor_pid or 0, None, clock.monotonic())
                peer.expected = peer.printed = True
                self._peers[task.id] = self._by_container[peer.container] = peer

    @property
    def expected(self) -> list[tuple[TaskId, str]]:
        """Executors that have not connected yet, and where each can be called."""
        tasks = self._app.state.tasks
        return [(peer.task, tasks[peer.task].listens) for peer in self._by_container.values() if peer.expected]

    # --- from the wire --------------------------------------------------------------------------------------------

    def attach(self, connection: RpcConnection, message: Attach) -> Peer | None:
        """Refuse an executor's first message, or answer Welcome; then the caller sends the current commands."""
        task = message.task
        if len(message.incarnation) > _MAX_NAME:
            connection.refuse(Code.BAD_MESSAGE, f"an incarnation of {len(message.incarnation)} characters")
            return None
        if message.highest_attempt > self._attempt:
            reason = f"this is AM attempt {self._attempt}; {task} has obeyed AM attempt {message.highest_attempt}"
            log.error("refused: %s", reason)
            connection.refuse(Code.SUPERSEDED, reason)  # this attempt is superseded; the executor's program continues
            return None
        if not self._app.accepts(task, message.container, message.incarnation):
            who = f"{task} in {message.container[:_MAX_NAME]!a} with incarnation {message.incarnation[:16]!a}"
            reason = f"{who} is not expected here"
            log.warning("refused: %s", reason)
            connection.refuse(Code.STALE, reason)
            return None
        lost = self._find_lost_tail(task, message)
        if lost:
            log.error("refused: %s", lost)
            connection.refuse(Code.STALE, lost)
            return None
        peer = self._peers.get(task)
        if peer is None or peer.incarnation != message.incarnation:
            if peer:
                self._drop(peer)
            peer = Peer(task, message.container, message.incarnation, message.pid, connection, clock.monotonic())
            peer.acked = peer.seen = message.acked
            self._peers[task] = self._by_container[peer.container] = peer
        elif peer.connection is not None and peer.connection is not connection:
            self._by_connection.pop(peer.connection, None)
            peer.connection.close()
        if peer.expected:
            peer.expected = False
            peer.acked = peer.seen = message.acked
            log.info("%s has reconnected", task)
            self._request_missed_output(task)
        peer.listens = message.listens if is_callable(message.listens) else ""
        peer.connection, peer.last_seen_at = connection, clock.monotonic()
        self._by_connection[connection] = peer
        renews = self._needs_renewal(peer)
        connection.send(
            Welcome(
                attempt=self._attempt,
                heartbeat_interval=self.interval,
                acked=peer.acked,
                renews=renews,
                sample_interval=self._metrics.interval,
                step_interval=self._metrics.step_interval,
            )
        )
        if self._level:
            connection.send(SetLogLevel(level=self._level))
        self.logs.on_attached(task)
        self.outputs.on_attached(task)
        return peer

    def _request_missed_output(self, task: TaskId) -> None:
        """Request output that an earlier AM attempt may not have stored before it died."""
        known = self._app.state.tasks[task]
        if known.status is not None and not known.living:
            self.outputs.on_exited(task, known.session, known.try_, known.status)

    def _find_lost_tail(self, task: TaskId, message: Attach) -> str:
        """Return what an executor knows and the log does not, because the log lost its end; empty if it is complete."""
        state = self._app.state
        newest, known = max(state.session, state.opening), state.tasks[task]
        if message.session > newest:
            return f"{task} knows session {message.session}, the log only session {newest}: the end of the log was lost"
        begun = known.try_ if known.session == message.session else 0
        if message.session == state.session and message.try_ > begun:
            return f"{task} knows task attempt {message.try_}, the log only {begun}: the end of the log was lost"
        return ""

    def on_message(self, connection: RpcConnection, message: Message) -> bool:
        """Handle a message of an attached executor; return False if none is attached on this connection."""
        peer = self._by_connection.get(connection)
        if peer is None:
            return False
        peer.last_seen_at = clock.monotonic()
        if isinstance(message, Heartbeat):
            age = message.last_output_age
            peer.output_at = None if age is None else peer.last_seen_at - max(0.0, age)
            peer.last_line = message.last_line[:200]
            if message.asks and self._needs_renewal(peer):
                connection.send(Ack(n=peer.acked, heard=message.mono))
        elif isinstance(message, Reported):
            self._on_report(peer, connection, message)
        elif isinstance(message, Sample):
            self._metrics.ingest_sample(peer.task, message)
        elif isinstance(message, Stacks):
            self.stacks.handle_stacks(peer.task, message)
        elif isinstance(message, LogPiece) and self._handle_piece(peer.task, message):
            pass  # it was forwarded, or is kept
        elif isinstance(message, TunnelFailed):
            self.tunnels.on_failed(peer.task, message)
        else:
            connection.refuse(Code.BAD_MESSAGE, f"an executor may not send {message.kind}")
        return True

    def _handle_piece(self, task: TaskId, piece: LogPiece) -> bool:
        return (self.outputs if piece.reader < 0 else self.logs).handle_piece(task, piece)

    def _on_report(self, peer: Peer, connection: RpcConnection, message: Reported) -> None:
        if message.n <= peer.seen:
            connection.send(Ack(n=peer.acked))
            return
        if message.n != peer.seen + 1:
            connection.refuse(Code.BAD_MESSAGE, f"report {message.n} after report {peer.seen}")
            return
        if isinstance(message, Ready) and not _ADDRESS.fullmatch(message.address):
            connection.refuse(Code.BAD_MESSAGE, "this is not a valid address")
            return
        event = self._build_event(peer, message)
        if event is None:
            connection.refuse(Code.BAD_MESSAGE, f"an executor may not send {message.kind}")
            return
        peer.seen = message.n
        self._unacked.add(peer)
        self._log_stale_session(peer, event)
        self._feed(event)
        if isinstance(message, ProgramExited):
            self.outputs.on_exited(peer.task, message.session, message.try_, message.status)

    def _log_stale_session(self, peer: Peer, event: Event) -> None:
        """Log once per session that an executor reports about an older one; the state machine ignores and counts it."""
        session = event.session if isinstance(event, Registered | Started | FirstOutput | Exited) else peer.stale
        if peer.stale < session < self._app.state.session:
            peer.stale = session
            now = self._app.state.session
            log.warning(
                "ignored a report of %s: %s of session %d, the current session is %d",
                peer.task,
                event.kind,
                session,
                now,
            )

    def _build_event(self, peer: Peer, message: Reported) -> Event | None:
        match message:
            case Ready():
                return Registered(
                    task=peer.task,
                    container=peer.container,
                    incarnation=peer.incarnation,
                    session=message.session,
                    address=message.address,
                    tb_port=message.tb_port,
                    pid=peer.pid,
                    listens=peer.listens,
                )
            case ProgramStarted():
                peer.output_at, peer.last_line = None, ""
                return Started(task=peer.task, session=message.session, try_=message.try_, pid=message.pid)
            case ProgramOutput():
                peer.printed = True
                return FirstOutput(task=peer.task, session=message.session, try_=message.try_)
            case ProgramExited():
                exports = self._app.state.roles[peer.task.role].spec.exports
                return Exited(
                    task=peer.task,
                    session=message.session,
                    try_=message.try_,
                    status=_limit_status(message.status),
                    at=round(max(0.0, self._now() - max(0.0, message.ago)), 6),
                    exports={name: _cut(message.exports[name]) for name in exports if name in message.exports},
                )
        return None

    def on_closed(self, connection: RpcConnection) -> None:
        """Handle a closed connection, which proves nothing: the executor may reconnect."""
        peer = self._by_connection.pop(connection, None)
        if peer and peer.connection is connection:
            peer.connection = None
            if peer.ended is not None:
                self._drop(peer)

    # --- to the wire ----------------------------------------------------------------------------------------------

    def take_unacknowledged(self) -> Sequence[tuple[Peer, int]]:
        """Return the executors that have reported since the last call, and up to which number."""
        reports = [(peer, peer.seen) for peer in self._unacked]
        self._unacked.clear()
        return reports

    def acknowledge(self, reports: Sequence[tuple[Peer, int]]) -> None:
        """Tell executors that their reports are durable."""
        for peer, number in reports:
            peer.acked = max(peer.acked, number)
            if peer.connection:
                peer.connection.send(Ack(n=peer.acked))

    def send(self, task: TaskId, message: Message) -> bool:
        """Send a command if the executor is connected; otherwise it learns of it when it attaches."""
        peer = self._peers.get(task)
        if peer is None or peer.connection is None:
            return False
        peer.connection.send(message)
        return True

    def send_frame(self, task: TaskId, frame: bytes) -> None:
        """Like `send`, for an encoded frame."""
        peer = self._peers.get(task)
        if peer and peer.connection:
            peer.connection.send_frame(frame)

    def set_log_level(self, level: str) -> None:
        """Set the level of all executors' own logs, including those that connect later."""
        self._level = level
        for peer in self._by_container.values():
            if peer.connection:
                peer.connection.send(SetLogLevel(level=level))

    def __len__(self) -> int:
        return len(self._by_container)

    @property
    def connected_count(self) -> int:
        """The number of executors that are connected now."""
        return len(self._by_connection)

    def on_container_ended(self, container: str) -> bool:
        """Note that a container has ended; return True if reports of its executor may still arrive.

        They may as long as the connection is there; there will be no new one.
        """
        peer = self._by_container.get(container)
        if peer is None:
            return False
        if peer.connection is None:
            self._drop(peer)
            return False
        peer.ended = clock.monotonic()
        return True

    def find_last_contact(self, container: str) -> float:
        """Return when the executor in a container was last heard, in the job's time.

        For one that this AM attempt has never heard: until when the previous attempt may have heard it.
        """
        peer = self._by_container.get(container)
        silence = max(0.0, clock.monotonic() - peer.last_seen_at) if peer else 0.0
        by_others = self._overlap if self._attempt > 1 and (peer is None or peer.expected) else 0.0
        return round(max(0.0, self._now() - silence + by_others), 6)

    def find_last_output(self, task: TaskId) -> float | None:
        """Return when a task's program last printed a line, in the job's time; None if that is not known."""
        peer = self._peers.get(task)
        if peer is None or peer.output_at is None:
            return None
        return max(0.0, self._now() - (clock.monotonic() - peer.output_at))

    def find_last_line(self, task: TaskId) -> str:
        """Return the last line that a task's program printed; empty if that is not known."""
        peer = self._peers.get(task)
        return peer.last_line if peer else ""

    def _needs_renewal(self, peer: Peer) -> bool:
        """Return True if an executor's lease is to be renewed: its container is in use, this attempt in charge."""
        held = self._app.state.containers.get(peer.container)
        return held is not None and not held.is_end_unconfirmed and self._is_current_attempt()

    def _drop(self, peer: Peer) -> None:
        if self._peers.get(peer.task) is peer:
            del self._peers[peer.task]
        self._by_container.pop(peer.container, None)
        self._unacked.discard(peer)
        if peer.connection:
            self._by_connection.pop(peer.connection, None)
            peer.connection.close()
        self.logs.on_executor_lost(peer.task, printed=peer.printed)
        self.outputs.on_executor_lost(peer.task)
        self.tunnels.on_executor_lost(peer.task)
        self.stacks.on_executor_lost(peer.task)

    # --- liveness -------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise Silent for every executor not heard within the heartbeat timeout. Call about once per interval."""
        self.tunnels.check()
        self.stacks.check()
        now = clock.monotonic()
        was_paused = now - self._checked > max(_LATE * self.interval, self._timeout / 2)
        was_paused = was_paused or self._app.state.reconciling  # during recovery no executor counts as silent
        self._checked = now
        for peer in list(self._by_container.values()):
            if peer.ended is None and peer.container not in self._app.state.containers:
                peer.ended = now  # its container was given up
            if peer.ended is not None:
                if now - peer.ended > _LAST_REPORTS and not was_paused:
                    self._drop(peer)
            elif was_paused:
                peer.last_seen_at = now
            elif not peer.silent and now - peer.last_seen_at > self._timeout:
                peer.silent = True
                silence = round(now - peer.last_seen_at, 3)
                container = peer.container
                self._feed(Silent(task=peer.task, incarnation=peer.incarnation, silence=silence, container=container))

    def collect_live(self) -> dict[TaskId, Live]:
        """Return what the last heartbeats contained, for reports."""
        now = clock.monotonic()
        return {
            task: Live(
                last_output_age=None if peer.output_at is None else max(0.0, now - peer.output_at),
                last_line=peer.last_line,
                last_step_age=self._metrics.find_step_age(task),
                memory=self._metrics.series.find_last(str(task), "rss"),
            )
            for task, peer in self._peers.items()
            if peer.ended is None and (peer.last_line or self._app.state.tasks[task].living)
        }


def _cut(value: str | None) -> str | None:
    """Limit an exported value to the length that an executor may send."""
    return value and value.encode("utf-8", "replace")[:MAX_EXPORT_BYTES].decode("utf-8", "ignore").replace("\0", "")


def _limit_status(status: ExitStatus) -> ExitStatus:
    """Limit an exit status to the lengths that an executor may send."""
    return replace(
        status,
        signal=None if status.signal is None else status.signal[:_MAX_NAME],
        message=status.message[:_MAX_SENTENCE],
        tail=tuple(line[:_MAX_SENTENCE] for line in status.tail[-_MAX_LINES:]),
        evidence=tuple(
            replace(
                line,
                stream=line.stream[:_MAX_NAME],
                text=line.text[:_MAX_SENTENCE],
                rule=line.rule[:_MAX_NAME],
                code_place=line.code_place[:_MAX_SENTENCE],
                named=line.named[:_MAX_NAMED],
            )
            for line in status.evidence[:MAX_EVIDENCE_LINES]
        ),
    )
