"""The executor's side of the protocol with application masters. No I/O, no clock.

Rules:

- Reports are numbered from 1 and kept until they are acknowledged; a new connection sends the rest again.
- Commands may be repeated, late or out of order. Those of an older session or an older AM attempt change nothing.
- At most one task attempt of a session runs at a time, and each that the executor must start has exactly one end.
- A stop that arrives before its start is kept: the start is answered with "not started". It does not apply to later
  task attempts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from types import MappingProxyType

from tony.model.program_exit import ExitReason, ExitStatus
from tony.protocol.executor_messages import (
    Ack,
    Attach,
    DumpStacks,
    Prepare,
    ProgramExited,
    ProgramOutput,
    ProgramStarted,
    Ready,
    ReleaseExecutor,
    Reported,
    StartProgram,
    StopProgram,
    Welcome,
)
from tony.protocol.message_base import Message
from tony.protocol.output_messages import DropLog, ReadLog
from tony.protocol.remote_program_messages import StartRemoteProgram
from tony.protocol.shared_messages import SetLogLevel
from tony.protocol.tunnel_messages import DialTunnel

#: Seconds between heartbeats, whatever a Welcome says: a faulty AM must not be flooded with them.
_MIN_INTERVAL_SECONDS = 0.01
_MAX_INTERVAL_SECONDS = 600.0


class LinkState(Enum):
    """The state of the current connection to the application master."""

    APART = "apart"  #: no connection
    ATTACHED = "attached"  #: the executor has sent Attach
    WELCOME = "welcome"  #: the AM has answered with Welcome; reports may be sent


@dataclass(frozen=True, slots=True)
class _Kept:
    report: Reported
    ended: float | None


class SessionProtocol:
    """One executor's state of the protocol.

    Attributes:
        highest_attempt: commands of older AM attempts are ignored.
        session: the newest session known.
        heartbeat_interval: seconds, from the last Welcome.
        sample_interval: seconds between two metric samples, from the last Welcome; 0: none.
        step_interval: seconds between two reports of steps in between; 0: none.
        peer_attempt: AM attempt at the other end of the connection; 0 before its Welcome and without a connection.
        refused: number of messages ignored as stale, repeated or out of place.
    """

    def __init__(self, attach: Attach, session: int) -> None:
        """Begin with the executor's first session, which it prepares without a command."""
        self._attach = attach
        self.highest_attempt = attach.highest_attempt
        self.session = session
        self.heartbeat_interval = 1.0
        self.sample_interval = 0.0
        self.step_interval = 0.0
        self.refused = 0
        self.link_state = LinkState.APART
        self.peer_attempt = 0
        self._kept: deque[_Kept] = deque()
        self._report_count = 0
        self._sent = 0
        self._acked = 0
        self._prepared_session = session
        self._ready = False
        self._stopped_try = 0
        self._last_try = 0
        self._running: tuple[int, int] | None = None
        self._released = False

    # --- connection -----------------------------------------------------------------------------------------------

    def on_connected(self) -> Attach:
        """Note a new connection; return the first message to send."""
        self.link_state = LinkState.ATTACHED
        return replace(
            self._attach,
            highest_attempt=self.highest_attempt,
            session=self.session,
            try_=self._last_try,
            acked=min(self._acked, self._report_count),
        )

    def set_listen_address(self, address: str) -> None:
        """Set the address at which this executor accepts reattach requests from now on."""
        self._attach = replace(self._attach, listens=address)

    def accept_reattach(self, attempt: int) -> bool:
        """Handle a reattach request; return True to accept it. Older AM attempts are ignored from then on."""
        if attempt < self.highest_attempt:
            self.refused += 1
            return False
        self.highest_attempt = attempt
        return True

    def on_disconnected(self) -> None:
        """Note that the connection is closed; what it carried may be lost."""
        self.link_state = LinkState.APART
        self.peer_attempt = 0

    def take_unsent(self, now: float) -> Sequence[Reported]:
        """Return reports to send now, oldest first; each once per connection. None before the Welcome."""
        if self.link_state is not LinkState.WELCOME:
            return ()
        found = [_add_age(kept, now) for kept in self._kept if kept.report.n > self._sent]
        self._sent = self._report_count
        return found

    @property
    def is_settled(self) -> bool:
        """Return True if every report was acknowledged."""
        return not self._kept

    # --- messages of the application master -----------------------------------------------------------------------

    @property
    def is_obeying(self) -> bool:
        """Return True if the connected AM attempt has sent its Welcome, and no later one has called since."""
        return self.link_state is LinkState.WELCOME and self.peer_attempt == self.highest_attempt

    def on_message(self, message: Message) -> Message | None:
        """Handle a message; return the command to obey, or None.

        Obey `Prepare` by `report_ready`; `StartProgram` by `report_started`, `report_first_output` and in any case
        `report_exited`. A `StopProgram` names the task attempt that runs or is about to start.
        """
        match message:
            case Welcome():
                self._handle_welcome(message)
                return None
            case _ if not self.is_obeying:
                is_current = False
            case Ack(n=n):
                self._handle_acknowledged(n)
                return None
            case Prepare():
                is_current = self._prepare(message)
            case StartProgram():
                return self._start(message)
            case StopProgram():
                return self._stop(message)
            case ReleaseExecutor():
                self._released = is_current = True
            case _:
                is_current = isinstance(
                    message, SetLogLevel | ReadLog | DropLog | DialTunnel | DumpStacks | StartRemoteProgram
                )
        if is_current:
            return message
        self._ignore()
        return None

    def _handle_welcome(self, message: Welcome) -> None:
        if message.attempt < self.highest_attempt:
            self._ignore()
            return
        self.highest_attempt = self.peer_attempt = message.attempt
        self.heartbeat_interval = _limit_interval(message.heartbeat_interval)
        self.sample_interval = _limit_interval(message.sample_interval) if message.sample_interval > 0 else 0.0
        self.step_interval = _limit_interval(message.step_interval) if message.step_interval > 0 else 0.0
        self._handle_acknowledged(message.acked)
        if self.link_state is LinkState.ATTACHED:
            self.link_state = LinkState.WELCOME
            self._sent = 0

    def _handle_acknowledged(self, n: int) -> None:
        self._acked = max(self._acked, n)
        while self._kept and self._kept[0].report.n <= n:
            self._kept.popleft()

    def _prepare(self, message: Prepare) -> bool:
        session = message.session
        if session < self.session or session <= self._prepared_session or self._released:
            return False
        self._enter(session)
        self._prepared_session = session
        return True

    def _enter(self, session: int) -> None:
        if session > self.session:
            self.session = session
            self._ready = False
            self._stopped_try = self._last_try = 0

    def _start(self, message: StartProgram) -> StartProgram | None:
        if message.attempt < self.highest_attempt or message.session < self.session:
            self._ignore()
            return None
        self._enter(message.session)
        if message.try_ <= self._last_try:
            self._ignore()
            return None
        self._last_try = message.try_
        if message.try_ <= self._stopped_try or self._released:
            self._report_not_started(message, ExitReason.NOT_STARTED, "stopped before it was started")
        elif not self._ready:
            self._report_not_started(
                message, ExitReason.LAUNCH_FAILED, f"session {message.session} has not been prepared here"
            )
        elif self._running is not None:
            why = "task attempt {1} of session {0} is still running".format(*self._running)
            self._report_not_started(message, ExitReason.LAUNCH_FAILED, why)
        else:
            self._running = message.session, message.try_
            return message
        return None

    def _report_not_started(self, message: StartProgram, reason: ExitReason, why: str) -> None:
        # It never ran: without a time, so that it is "just now" whenever the report is sent.
        self._add_report(_build_exited(message.session, message.try_, ExitStatus(reason=reason, message=why)))

    def _stop(self, message: StopProgram) -> StopProgram | None:
        if message.session < self.session:
            self._ignore()
            return None
        self._enter(message.session)
        session, try_ = self._running or (0, 0)
        if session == message.session and (not message.try_ or try_ <= message.try_):
            return replace(message, try_=try_)
        self._stopped_try = max(self._stopped_try, message.try_ or (0 if self._last_try else 1))
        return None

    def _ignore(self) -> None:
        self.refused += 1

    # --- local events ---------------------------------------------------------------------------------------------

    def report_ready(self, session: int, address: str, tb_port: int | None = None) -> None:
        """Report that ports are reserved. Ignored if the session has ended meanwhile."""
        if session == self.session and not self._ready:
            self._ready = True
            self._add_report(Ready(n=0, session=session, address=address, tb_port=tb_port))

    def report_started(self, session: int, try_: int, pid: int) -> None:
        """Report that the program runs."""
        self._add_report(ProgramStarted(n=0, session=session, try_=try_, pid=pid))

    def report_first_output(self, session: int, try_: int) -> None:
        """Report that the program has printed something."""
        self._add_report(ProgramOutput(n=0, session=session, try_=try_))

    def report_exited(
        self,
        session: int,
        try_: int,
        status: ExitStatus,
        ended: float,
        exports: Mapping[str, str | None] = MappingProxyType({}),
    ) -> None:
        """Report that the task attempt has ended, at time `ended` of the clock that `take_unsent` is given."""
        if self._running != (session, try_):
            raise ValueError(f"task attempt {try_} of session {session} ended twice, or never started")
        self._running = None
        self._add_report(replace(_build_exited(session, try_, status), exports=exports), ended)

    def _add_report(self, report: Reported, ended: float | None = None) -> None:
        self._report_count += 1
        self._kept.append(_Kept(replace(report, n=self._report_count), ended))


def _limit_interval(seconds: float) -> float:
    return min(max(seconds, _MIN_INTERVAL_SECONDS), _MAX_INTERVAL_SECONDS)


def _build_exited(session: int, try_: int, status: ExitStatus) -> ProgramExited:
    return ProgramExited(n=0, session=session, try_=try_, status=status, ago=0.0)


def _add_age(kept: _Kept, now: float) -> Reported:
    if isinstance(kept.report, ProgramExited) and kept.ended is not None:
        return replace(kept.report, ago=max(0.0, now - kept.ended))
    return kept.report
