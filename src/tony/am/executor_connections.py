"""The application master's side of its executors: who is connected, what was acknowledged, who fell silent.

Reports become events; an event's report is acknowledged when the log has it. Commands that could not be delivered are
not queued: what an executor must know follows from the machine's state and is sent again when it attaches.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence

from tony import clock
from tony.am.log_relay import LogRelay
from tony.am.stack_relay import StackRelay
from tony.am.tunnel_broker import TunnelBroker
from tony.core.application import Application
from tony.core.events import Event, Exited, FirstOutput, Registered, Silent, Started
from tony.core.report_builder import Live
from tony.core.steps.container_loss import REPORT_WAIT
from tony.dataclass import dataclass, replace
from tony.model.exit_status import ExitStatus
from tony.model.ids import TaskId
from tony.protocol import messages as msg
from tony.protocol.error_codes import Code
from tony.rpc.am_address import is_callable
from tony.rpc.connection import RpcConnection

log = logging.getLogger(__name__)

#: Messages that one application master should have to handle, per second; heartbeats stretch to stay below.
HEARTBEATS_PER_SECOND = 2000.0
#: Seconds after its container's end in which an executor's last reports may still come; the machine waits as long.
_LAST_REPORTS = REPORT_WAIT
#: A check that comes later than this many intervals means that we ourselves stood still, not the executors.
_LATE = 5.0


#: Characters of a name, of a sentence, and lines of a program's output, as executors report them. The log, every report
#: and the memory of 10,000 tasks hold what they say: more is cut off, whoever says it.
_WORD, _SENTENCE, _LINES = 100, 2000, 20
#: Ports of one task that have names.
_PORTS = 100
#: A host's name or number, and a port. It becomes part of other programs' variables.
_ADDRESS = re.compile(r"[!-~]{1,300}:\d{1,5}", re.ASCII)


@dataclass(slots=True, eq=False)
class Peer:
    """One executor process, over all of its connections.

    Attributes:
        heard: when it was last heard of (`clock.monotonic`).
        acked, seen: numbers of its last report that is in the log, and that came.
        printed: its programs have printed something.
        stale: the newest older session of which it has reported something, and that was said.
        ended: when its container ended, while the connection is still there.
        expected: an earlier application master knew it, and it has not come to us yet.
    """

    task: TaskId
    container: str
    incarnation: str
    pid: int
    connection: RpcConnection | None
    heard: float
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
        now: the job's time.

    Attributes:
        in_charge: whether no later application master can have been started; see `ContainerSource.in_charge`.
        overlap: seconds for which an earlier one may not know of us; see `ContainerSource.overlap`.
        measured: takes samples; sample_interval: how often executors send them.
        step_interval: how often they report a new step in between.
    """

    def __init__(self, app: Application, attempt: int, feed: Callable[[Event], None], now: Callable[[], float]) -> None:
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
        self.in_charge: Callable[[], bool] = lambda: True
        self.overlap = 0.0
        spec = app.state.spec
        self.interval = max(spec.heartbeat_interval, len(app.state.tasks) / HEARTBEATS_PER_SECOND)
        self._timeout = max(spec.heartbeat_timeout, 3 * self.interval)
        self.logs = LogRelay(self.send, app.state.tasks, late=attempt > 1)
        self.tunnels = TunnelBroker(self.send, app.state.tasks)
        self.stacks = StackRelay(self.send, app.state.tasks)
        self.measured: Callable[[TaskId, msg.Sample], None] = lambda task, sample: None
        self.find_step_age: Callable[[TaskId], float | None] = lambda task: None
        self.sample_interval = 0.0
        self.step_interval = 0.0

    def expect(self) -> None:
        """Those that an earlier application master has heard of: they come, or are silent."""
        for task in self._app.state.tasks.values():
            if task.container and task.incarnation:
                peer = Peer(task.id, task.container, task.incarnation, task.executor_pid or 0, None, clock.monotonic())
                peer.expected = peer.printed = True
                self._peers[task.id] = self._by_container[peer.container] = peer

    @property
    def expected(self) -> list[tuple[TaskId, str]]:
        """Who has not come yet, and where each can be called."""
        tasks = self._app.state.tasks
        return [(peer.task, tasks[peer.task].listens) for peer in self._by_container.values() if peer.expected]

    # --- from the wire --------------------------------------------------------------------------------------------

    def attach(self, connection: RpcConnection, message: msg.Attach) -> Peer | None:
        """An executor says who it is. Refuses it, or answers Welcome; then the caller tells it what is wanted."""
        try:
            task = TaskId.parse(message.task)
        except ValueError:
            connection.refuse(Code.BAD_MESSAGE, f"{message.task[:_WORD]!a} is not a task")
            return None
        if len(message.incarnation) > _WORD:
            connection.refuse(Code.BAD_MESSAGE, f"an incarnation of {len(message.incarnation)} characters")
            return None
        if message.highest_attempt > self._attempt:
            reason = f"this is attempt {self._attempt}; {task} has obeyed attempt {message.highest_attempt}"
            log.error("refused: %s", reason)
            connection.refuse(Code.SUPERSEDED, reason)  # we are the one who is not wanted: its program goes on
            return None
        if not self._app.accepts(task, message.container, message.incarnation):
            who = f"{task} in {message.container[:_WORD]!a} with incarnation {message.incarnation[:16]!a}"
            reason = f"{who} is not expected here"
            log.warning("refused: %s", reason)
            connection.refuse(Code.STALE, reason)
            return None
        lost = self._lost_end(task, message)
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
            log.info("%s is back", task)
        peer.listens = message.listens if is_callable(message.listens) else ""
        peer.connection, peer.heard = connection, clock.monotonic()
        self._by_connection[connection] = peer
        renews = self._renews(peer)
        connection.send(
            msg.Welcome(
                attempt=self._attempt,
                heartbeat_interval=self.interval,
                acked=peer.acked,
                renews=renews,
                sample_interval=self.sample_interval,
                step_interval=self.step_interval,
            )
        )
        if self._level:
            connection.send(msg.SetLogLevel(level=self._level))
        self.logs.attached(task)
        return peer

    def _lost_end(self, task: TaskId, message: msg.Attach) -> str:
        """What an executor was told that the log does not know: its end was lost. Empty if it knows all."""
        state = self._app.state
        newest, known = max(state.session, state.opening), state.tasks[task]
        if message.session > newest:
            return f"{task} knows of session {message.session}, and the log of session {newest}: its end was lost"
        begun = known.try_ if known.session == message.session else 0
        if message.session == state.session and message.try_ > begun:
            return f"{task} was told of try {message.try_}, and the log of try {begun}: its end was lost"
        return ""

    def received(self, connection: RpcConnection, message: msg.Message) -> bool:
        """Takes a message of an attached executor; False if nobody has attached on this connection."""
        peer = self._by_connection.get(connection)
        if peer is None:
            return False
        peer.heard = clock.monotonic()
        if isinstance(message, msg.Heartbeat):
            age = message.last_output_age
            peer.output_at = None if age is None else peer.heard - max(0.0, age)
            peer.last_line = message.last_line[:200]
            if message.asks and self._renews(peer):
                connection.send(msg.Ack(n=peer.acked, heard=message.mono))
        elif isinstance(message, msg.Reported):
            self._reported(peer, connection, message)
        elif isinstance(message, msg.Sample):
            self.measured(peer.task, message)
        elif isinstance(message, msg.Stacks):
            self.stacks.came(peer.task, message)
        elif isinstance(message, msg.LogPiece) and self.logs.came(peer.task, message):
            pass  # it is on its way
        elif isinstance(message, msg.TunnelFailed):
            self.tunnels.failed(peer.task, message)
        else:
            connection.refuse(Code.BAD_MESSAGE, f"an executor may not send {message.kind}")
        return True

    def _reported(self, peer: Peer, connection: RpcConnection, message: msg.Reported) -> None:
        if message.n <= peer.seen:
            connection.send(msg.Ack(n=peer.acked))
            return
        if message.n != peer.seen + 1:
            connection.refuse(Code.BAD_MESSAGE, f"report {message.n} after report {peer.seen}")
            return
        if isinstance(message, msg.Ready) and not _is_sound(message):
            connection.refuse(Code.BAD_MESSAGE, "these are no address and ports that other tasks could be told")
            return
        event = self._event(peer, message)
        if event is None:
            connection.refuse(Code.BAD_MESSAGE, f"an executor may not send {message.kind}")
            return
        peer.seen = message.n
        self._unacked.add(peer)
        self._look_at_session(peer, event)
        self._feed(event)

    def _look_at_session(self, peer: Peer, event: Event) -> None:
        """The machine refuses and counts what belongs to an older session; we say so, once for each of them."""
        session = event.session if isinstance(event, Registered | Started | FirstOutput | Exited) else peer.stale
        if peer.stale < session < self._app.state.session:
            peer.stale = session
            now = self._app.state.session
            log.warning(
                "%s reports %s of session %d, and this is session %d: refused", peer.task, event.kind, session, now
            )

    def _event(self, peer: Peer, message: msg.Reported) -> Event | None:
        match message:
            case msg.Ready():
                return Registered(
                    task=peer.task,
                    container=peer.container,
                    incarnation=peer.incarnation,
                    session=message.session,
                    address=message.address,
                    tb_port=message.tb_port,
                    ports=message.ports,
                    pid=peer.pid,
                    listens=peer.listens,
                )
            case msg.ProgramStarted():
                peer.output_at, peer.last_line = None, ""
                return Started(task=peer.task, session=message.session, try_=message.try_, pid=message.pid)
            case msg.ProgramOutput():
                peer.printed = True
                return FirstOutput(task=peer.task, session=message.session, try_=message.try_)
            case msg.ProgramExited():
                wanted = self._app.state.roles[peer.task.role].spec.exports
                return Exited(
                    task=peer.task,
                    session=message.session,
                    try_=message.try_,
                    status=_bounded(message.status),
                    at=round(max(0.0, self._now() - max(0.0, message.ago)), 6),
                    exports={name: _cut(message.exports[name]) for name in wanted if name in message.exports},
                )
        return None

    def closed(self, connection: RpcConnection) -> None:
        """A connection is gone. That proves nothing: the executor comes back, falls silent, or its container ends."""
        peer = self._by_connection.pop(connection, None)
        if peer and peer.connection is connection:
            peer.connection = None
            if peer.ended is not None:
                self._drop(peer)

    # --- to the wire ----------------------------------------------------------------------------------------------

    def unacknowledged(self) -> Sequence[tuple[Peer, int]]:
        """Who has reported since this was asked last, and up to which number."""
        reports = [(peer, peer.seen) for peer in self._unacked]
        self._unacked.clear()
        return reports

    def acknowledge(self, reports: Sequence[tuple[Peer, int]]) -> None:
        """Tells executors that what they reported is in the log, and that in safety."""
        for peer, number in reports:
            peer.acked = max(peer.acked, number)
            if peer.connection:
                peer.connection.send(msg.Ack(n=peer.acked))

    def send(self, task: TaskId, message: msg.Message) -> bool:
        """Sends a command, if the executor is connected; otherwise it learns of it when it attaches."""
        peer = self._peers.get(task)
        if peer is None or peer.connection is None:
            return False
        peer.connection.send(message)
        return True

    def send_frame(self, task: TaskId, frame: bytes) -> None:
        """Like `send`, for a frame that was built before."""
        peer = self._peers.get(task)
        if peer and peer.connection:
            peer.connection.send_frame(frame)

    def talk_as(self, level: str) -> None:
        """Tells every executor, also those that come later, from which level on to write their own logs."""
        self._level = level
        for peer in self._by_container.values():
            if peer.connection:
                peer.connection.send(msg.SetLogLevel(level=level))

    def __len__(self) -> int:
        return len(self._by_container)

    @property
    def connected(self) -> int:
        """How many executors have a connection now."""
        return len(self._by_connection)

    def container_ended(self, container: str) -> bool:
        """A container is gone, and its executor with it; answers whether what that sent may still be on its way.

        It may as long as the connection is there. A new one is of no use: the dead do not wait for a Welcome.
        """
        peer = self._by_container.get(container)
        if peer is None:
            return False
        if peer.connection is None:
            self._drop(peer)
            return False
        peer.ended = clock.monotonic()
        return True

    def contact(self, container: str) -> float:
        """When the executor in a container was heard last, in the job's time.

        Of one that we have never heard ourselves: when it may have been, by the application master before us.
        """
        peer = self._by_container.get(container)
        silence = max(0.0, clock.monotonic() - peer.heard) if peer else 0.0
        by_others = self.overlap if self._attempt > 1 and (peer is None or peer.expected) else 0.0
        return round(max(0.0, self._now() - silence + by_others), 6)

    def _renews(self, peer: Peer) -> bool:
        """Whether the lease of an executor is renewed: its container is still counted on, and that is ours to say."""
        held = self._app.state.containers.get(peer.container)
        return held is not None and not held.presumed and self.in_charge()

    def _drop(self, peer: Peer) -> None:
        if self._peers.get(peer.task) is peer:
            del self._peers[peer.task]
        self._by_container.pop(peer.container, None)
        self._unacked.discard(peer)
        if peer.connection:
            self._by_connection.pop(peer.connection, None)
            peer.connection.close()
        self.logs.gone(peer.task, printed=peer.printed)
        self.tunnels.gone(peer.task)
        self.stacks.gone(peer.task)

    # --- liveness -------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raises Silent for every executor not heard of for the heartbeat time-out. Call about once per interval."""
        self.tunnels.check()
        self.stacks.check()
        now = clock.monotonic()
        stood_still = now - self._checked > max(_LATE * self.interval, self._timeout / 2)
        stood_still = stood_still or self._app.state.reconciling  # nobody is judged before it is known who is left
        self._checked = now
        for peer in list(self._by_container.values()):
            if peer.ended is None and peer.container not in self._app.state.containers:
                peer.ended = now  # it was given up, and nobody counts on it any more
            if peer.ended is not None:
                if now - peer.ended > _LAST_REPORTS and not stood_still:
                    self._drop(peer)
            elif stood_still:
                peer.heard = now
            elif not peer.silent and now - peer.heard > self._timeout:
                peer.silent = True
                silence = round(now - peer.heard, 3)
                container = peer.container
                self._feed(Silent(task=peer.task, incarnation=peer.incarnation, silence=silence, container=container))

    def live(self) -> dict[TaskId, Live]:
        """What heartbeats said last, for reports."""
        now = clock.monotonic()
        return {
            task: Live(
                last_output_age=None if peer.output_at is None else max(0.0, now - peer.output_at),
                last_line=peer.last_line,
                last_step_age=self.find_step_age(task),
            )
            for task, peer in self._peers.items()
            if peer.ended is None and (peer.last_line or self._app.state.tasks[task].living)
        }


def _is_sound(message: msg.Ready) -> bool:
    ports = message.ports or {}
    return (
        bool(_ADDRESS.fullmatch(message.address)) and len(ports) <= _PORTS and all(len(name) <= _WORD for name in ports)
    )


def _cut(value: str | None) -> str | None:
    """What a program hands on, as long as an executor in its senses would say it."""
    return value and value.encode("utf-8", "replace")[: msg.LONGEST_EXPORT].decode("utf-8", "ignore").replace("\0", "")


def _bounded(status: ExitStatus) -> ExitStatus:
    """How a program ended, as long as an executor in its senses would say it."""
    return replace(
        status,
        signal=None if status.signal is None else status.signal[:_WORD],
        message=status.message[:_SENTENCE],
        tail=tuple(line[:_SENTENCE] for line in status.tail[-_LINES:]),
    )
