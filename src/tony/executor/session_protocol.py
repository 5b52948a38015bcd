"""The executor's side of all it says to application masters and hears from them. No I/O, no clock.

Rules:

- Reports are numbered from 1 and kept until they are acknowledged; on a new connection the rest is sent again.
- Commands may be repeated, late or out of order. What belongs to an older session or an older attempt changes nothing.
- Of each session at most one try runs at a time, and each try that we are told to start has exactly one end.
- A stop that comes before the start holds: the start is answered with "not started". It holds for no later try.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from enum import Enum
from types import MappingProxyType

from tony.dataclass import dataclass, replace
from tony.model.exit_status import ExitReason, ExitStatus
from tony.protocol import messages as msg


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareSession:
    """Stop what runs, reserve ports, then call `SessionProtocol.ready`."""

    session: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTaskAttempt:
    """Start the program; call `SessionProtocol.started`, `first_output`, and in any case `exited`."""

    command: msg.StartProgram


@dataclass(frozen=True, slots=True, kw_only=True)
class StopTaskAttempt:
    """Stop the program that runs or is about to; `exited` follows."""

    session: int
    try_: int
    grace: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndExecutor:
    """Stop what runs, have it reported, end."""

    grace: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyLogLevel:
    """Write our own log from this level on: `debug`, `info`, `warning`, `error`."""

    level: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeLog:
    """Somebody reads what our programs print, or does so no more."""

    command: msg.ReadLog | msg.DropLog


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenPort:
    """Somebody wants to be connected to a port of ours."""

    command: msg.DialTunnel


@dataclass(frozen=True, slots=True, kw_only=True)
class SendStacks:
    """Somebody wants to know where the program stands."""

    request: str


Wish = (
    PrepareSession | StartTaskAttempt | StopTaskAttempt | EndExecutor | ApplyLogLevel | ServeLog | OpenPort | SendStacks
)


#: Seconds between heartbeats, whatever a Welcome says: a master that has lost its senses shall not drown in them.
_FASTEST, _SLOWEST = 0.01, 600.0


class LinkState(Enum):
    """How far we are with the application master at the other end of the present connection."""

    APART = "apart"  #: no connection
    ATTACHED = "attached"  #: we have said who we are
    WELCOME = "welcome"  #: it has answered; reports may go


@dataclass(frozen=True, slots=True)
class _Kept:
    report: msg.Reported
    ended: float | None


class SessionProtocol:
    """One executor's memory of what was said.

    Attributes:
        highest_attempt: no older application master is obeyed.
        session: the newest session we have heard of.
        heartbeat_interval: seconds, as the last Welcome said.
        sample_interval: seconds between two measurements, as the last Welcome said; 0: none.
        step_interval: seconds between two reports of steps in between; 0: none.
        partner: attempt of the application master that we talk with; 0 where it has not answered, or there is none.
        refused: how many messages were ignored as stale, repeated or out of place.
    """

    def __init__(self, attach: msg.Attach, session: int) -> None:
        """Begins with the session that the executor was made for; it is to be prepared without being told."""
        self._attach = attach
        self.highest_attempt = attach.highest_attempt
        self.session = session
        self.heartbeat_interval = 1.0
        self.sample_interval = 0.0
        self.step_interval = 0.0
        self.refused = 0
        self.stance = LinkState.APART
        self.partner = 0
        self._kept: deque[_Kept] = deque()
        self._made = 0
        self._sent = 0
        self._acked = 0
        self._asked = session
        self._ready = False
        self._barred = 0
        self._last_try = 0
        self._running: tuple[int, int] | None = None
        self._released = False

    # --- connection -----------------------------------------------------------------------------------------------

    def connected(self) -> msg.Attach:
        """A new connection is there; answers what to say first."""
        self.stance = LinkState.ATTACHED
        return replace(
            self._attach,
            highest_attempt=self.highest_attempt,
            session=self.session,
            try_=self._last_try,
            acked=min(self._acked, self._made),
        )

    def listens(self, address: str) -> None:
        """From now on we can be called there."""
        self._attach = replace(self._attach, listens=address)

    def summoned(self, attempt: int) -> bool:
        """An application master calls; answers whether to come. From then on no older one is obeyed."""
        if attempt < self.highest_attempt:
            self.refused += 1
            return False
        self.highest_attempt = attempt
        return True

    def disconnected(self) -> None:
        """The connection is gone; what it carried may be lost."""
        self.stance = LinkState.APART
        self.partner = 0

    def unsent(self, now: float) -> Sequence[msg.Reported]:
        """Reports to send now, oldest first; each once per connection. None before the Welcome."""
        if self.stance is not LinkState.WELCOME:
            return ()
        found = [_aged(kept, now) for kept in self._kept if kept.report.n > self._sent]
        self._sent = self._made
        return found

    @property
    def settled(self) -> bool:
        """Whether every report was acknowledged."""
        return not self._kept

    # --- what the application master says -------------------------------------------------------------------------

    @property
    def heeds(self) -> bool:
        """Whether the one that we talk with has welcomed us, and no later one has called since."""
        return self.stance is LinkState.WELCOME and self.partner == self.highest_attempt

    def received(self, message: msg.Message) -> Sequence[Wish]:
        """Takes a message; answers what is to be done about it, in this order."""
        match message:
            case msg.Welcome():
                return self._welcome(message)
            case _ if not self.heeds:
                return self._ignore()
            case msg.Ack(n=n):
                self._acknowledged(n)
                return ()
            case msg.Prepare(session=session):
                return self._prepare(session)
            case msg.StartProgram():
                return self._start(message)
            case msg.StopProgram():
                return self._stop(message)
            case msg.ReleaseExecutor(grace=grace):
                self._released = True
                return [EndExecutor(grace=grace)]
            case msg.SetLogLevel(level=level):
                return [ApplyLogLevel(level=level)]
            case msg.ReadLog() | msg.DropLog():
                return [ServeLog(command=message)]
            case msg.DialTunnel():
                return [OpenPort(command=message)]
            case msg.DumpStacks(request=request):
                return [SendStacks(request=request)]
        return self._ignore()

    def _welcome(self, message: msg.Welcome) -> Sequence[Wish]:
        if message.attempt < self.highest_attempt:
            return self._ignore()
        self.highest_attempt = self.partner = message.attempt
        self.heartbeat_interval = min(max(message.heartbeat_interval, _FASTEST), _SLOWEST)
        wanted = message.sample_interval
        self.sample_interval = min(max(wanted, _FASTEST), _SLOWEST) if wanted > 0 else 0.0
        steps = message.step_interval
        self.step_interval = min(max(steps, _FASTEST), _SLOWEST) if steps > 0 else 0.0
        self._acknowledged(message.acked)
        if self.stance is LinkState.ATTACHED:
            self.stance = LinkState.WELCOME
            self._sent = 0
        return ()

    def _acknowledged(self, n: int) -> None:
        self._acked = max(self._acked, n)
        while self._kept and self._kept[0].report.n <= n:
            self._kept.popleft()

    def _prepare(self, session: int) -> Sequence[Wish]:
        if session < self.session or session <= self._asked or self._released:
            return self._ignore()
        self._enter(session)
        self._asked = session
        return [PrepareSession(session=session)]

    def _enter(self, session: int) -> None:
        if session > self.session:
            self.session = session
            self._ready = False
            self._barred = self._last_try = 0

    def _start(self, message: msg.StartProgram) -> Sequence[Wish]:
        if message.attempt < self.highest_attempt or message.session < self.session:
            return self._ignore()
        self._enter(message.session)
        if message.try_ <= self._last_try:
            return self._ignore()
        self._last_try = message.try_
        if message.try_ <= self._barred or self._released:
            self._not_started(message, ExitReason.NOT_STARTED, "told to stop before it had been started")
        elif not self._ready:
            self._not_started(
                message, ExitReason.LAUNCH_FAILED, f"session {message.session} has not been prepared here"
            )
        elif self._running is not None:
            why = "try {1} of session {0} still runs".format(*self._running)
            self._not_started(message, ExitReason.LAUNCH_FAILED, why)
        else:
            self._running = message.session, message.try_
            return [StartTaskAttempt(command=message)]
        return ()

    def _not_started(self, message: msg.StartProgram, reason: ExitReason, why: str) -> None:
        # It ended before it began: no age, so that every sending says "just now".
        self._report(_exited(message.session, message.try_, ExitStatus(reason=reason, message=why)))

    def _stop(self, message: msg.StopProgram) -> Sequence[Wish]:
        if message.session < self.session:
            return self._ignore()
        self._enter(message.session)
        session, try_ = self._running or (0, 0)
        if session == message.session and (not message.try_ or try_ <= message.try_):
            return [StopTaskAttempt(session=session, try_=try_, grace=message.grace, reason=message.reason)]
        self._barred = max(self._barred, message.try_ or (0 if self._last_try else 1))
        return ()

    def _ignore(self) -> Sequence[Wish]:
        self.refused += 1
        return ()

    # --- what happened here ---------------------------------------------------------------------------------------

    def ready(self, session: int, address: str, tb_port: int | None = None) -> None:
        """Ports are reserved. Of no interest if the session is over by now."""
        if session == self.session and not self._ready:
            self._ready = True
            self._report(msg.Ready(n=0, session=session, address=address, tb_port=tb_port))

    def started(self, session: int, try_: int, pid: int) -> None:
        """The program runs."""
        self._report(msg.ProgramStarted(n=0, session=session, try_=try_, pid=pid))

    def first_output(self, session: int, try_: int) -> None:
        """The program has printed something."""
        self._report(msg.ProgramOutput(n=0, session=session, try_=try_))

    def exited(
        self,
        session: int,
        try_: int,
        status: ExitStatus,
        ended: float,
        exports: Mapping[str, str | None] = MappingProxyType({}),
    ) -> None:
        """The try is over, at time `ended` of the clock that `unsent` is given."""
        if self._running != (session, try_):
            raise ValueError(f"try {try_} of session {session} ended twice, or never began")
        self._running = None
        self._report(replace(_exited(session, try_, status), exports=exports), ended)

    def _report(self, report: msg.Reported, ended: float | None = None) -> None:
        self._made += 1
        self._kept.append(_Kept(replace(report, n=self._made), ended))


def _exited(session: int, try_: int, status: ExitStatus) -> msg.ProgramExited:
    return msg.ProgramExited(n=0, session=session, try_=try_, status=status, ago=0.0)


def _aged(kept: _Kept, now: float) -> msg.Reported:
    if isinstance(kept.report, msg.ProgramExited) and kept.ended is not None:
        return replace(kept.report, ago=max(0.0, now - kept.ended))
    return kept.report
