"""A proxy that calls the active daemon of a service with several daemons, such as a pair of ResourceManagers.

    proxy = FailoverProxy(name="ResourceManager", daemons=list_resource_managers(settings), ...)
    answer = await proxy.call(GET_NEW_APPLICATION, GetNewApplicationRequest())

Reactions to errors:

    no connection, connection lost, no answer      try the next daemon; a call that may have been executed is repeated
                                                   only if its method is safe to repeat
    StandbyError                                   try the next daemon
    RetriableError                                 try the same daemon again, after a pause
    the login failed                               try a few more times (a ticket was just renewed, a daemon just ended)
    anything else                                  raise it to the caller

There is no pause within a round of all daemons. Between rounds there is one of random length, so that a thousand
clients do not reconnect at once. (Hadoop pauses for 30 s, a noticeable delay for every caller.) A standby
ResourceManager does not listen at all, and a standby NameNode answers StandbyException; both are handled alike.

A repeated call keeps its id and has a higher retry count, by which the NameNode recognizes calls that it has executed.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tony.hadoop.configuration.service_addresses import ServiceAddress
from tony.hadoop.configuration.settings import HadoopConfiguration
from tony.hadoop.errors import (
    CallTimeoutError,
    ConnectError,
    ConnectFailure,
    ConnectionLostError,
    HadoopError,
    LoginError,
    RetriableError,
    SafeModeError,
    SaslError,
    StandbyError,
)
from tony.hadoop.ipc.connection import IpcConnection, connect
from tony.hadoop.ipc.frames import CallId
from tony.hadoop.ipc.login import LoginIdentity
from tony.hadoop.ipc.tcp_connection import DEFAULTS, ConnectionOptions
from tony.hadoop.wire.rpc import Method, Request, Response
from tony.units import format_duration

#: Tries after a login that failed.
_LOGIN_TRIES: Final = 3

Connector = Callable[..., Coroutine[Any, Any, IpcConnection]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Limits of the search for the active daemon.

    Attributes:
        give_up_after: seconds from the first failure of a call until it is given up; may be infinite.
        shortest: seconds of the shortest pause between rounds.
        longest: seconds of the longest.
        first_answer: seconds for the first answer over a connection, of calls that may be repeated, where there are
            others to ask; infinite for those of any other answer. A daemon that hangs takes connections, and is silent.
    """

    give_up_after: float = 900.0
    shortest: float = 1.0
    longest: float = 2.0
    first_answer: float = math.inf


DEFAULT_POLICY: Final = Policy()


class DaemonsUnavailableError(HadoopError):
    """None of the daemons answered for as long as the policy allows.

    Attributes:
        failures: the last one of each daemon that was tried, in their order.
    """

    def __init__(self, message: str, failures: Sequence[tuple[ServiceAddress, HadoopError]]) -> None:
        self.failures = tuple(failures)
        super().__init__(message)


class FailoverProxy:
    """One service. Any number of calls at once; all share one connection.

    Args:
        name: what the service is called in messages: `ResourceManager`.
        daemons: daemons that may be active.
        login: login, or a function that returns one for each daemon.
        protocol: protocol name in the connection context.
        policy: how long to search for the active daemon.
        options: of the connections.
    """

    def __init__(
        self,
        *,
        name: str,
        daemons: Sequence[ServiceAddress],
        login: LoginIdentity | Callable[[ServiceAddress], LoginIdentity],
        protocol: str,
        policy: Policy = DEFAULT_POLICY,
        options: ConnectionOptions = DEFAULTS,
    ) -> None:
        if not daemons:
            raise ValueError(f"{name}: no addresses")
        self.name, self.daemons, self.policy = name, tuple(daemons), policy
        self.options = options
        self._login, self._protocol = login, protocol
        self._connector: Connector = connect
        self._current = 0
        self._connection: IpcConnection | None = None
        #: Connections that are left, and have calls that still wait.
        self._retired: set[IpcConnection] = set()
        #: The current attempt to connect; other calls wait for it.
        self._attempt: _Attempt | None = None
        self._failed_attempts = 0
        self._not_before = -math.inf
        self._failures: dict[int, HadoopError] = {}
        self._was_well = False
        #: True if the connection has answered a call: any server accepts a login without authentication.
        self._is_proven = False
        self._is_closed = False

    async def __aenter__(self) -> FailoverProxy:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def active(self) -> ServiceAddress:
        """The daemon that answered last, or that is tried next."""
        return self.daemons[self._current]

    async def call(self, method: Method[Request, Response], request: Request) -> Response:
        """Call the active daemon, and wait for the response.

        Raises:
            DaemonsUnavailableError: no daemon answered in time.
            ConnectionLostError, CallTimeoutError: the call may have been carried out, and must not be sent twice.
            HadoopError: any other error of the daemon or of the login.
        """
        limit = self.policy.give_up_after
        call_id, since, tries, logins = CallId.from_new(), math.inf, 0, 0
        while True:
            is_sent, called_at = False, asyncio.get_running_loop().time()
            try:
                connection = await self._get_connection()
                is_sent = True
                return await self._ask(connection, method, request, call_id)
            except _TROUBLE as error:
                failure = error
            logins = logins + 1 if isinstance(failure, LoginError | SaslError) else 0
            may_repeat = method.idempotent or not is_sent or not _may_be_executed(failure)
            if self._is_closed or logins >= _LOGIN_TRIES or not may_repeat or _is_final(failure):
                raise failure
            now = asyncio.get_running_loop().time()
            # A daemon that did not answer has been silent since the call.
            failed = called_at if isinstance(failure, CallTimeoutError) else now
            since, tries, call_id = min(since, failed), tries + 1, call_id.to_retry()
            if self._is_hopeless() or (now - since >= limit and tries >= len(self.daemons)):
                raise self._build_unavailable_error(now - since, failure)
            if isinstance(failure, RetriableError):
                await asyncio.sleep(self._pause())

    def _choose_timeout(self, method: Method[Any, Any]) -> float | None:
        """Return a shorter timeout for the first answer over a connection, if there is one; None for the usual one."""
        is_first = not self._is_proven and len(self.daemons) > 1 and method.idempotent
        return self.policy.first_answer if is_first and math.isfinite(self.policy.first_answer) else None

    async def _ask(
        self, connection: IpcConnection, method: Method[Request, Response], request: Request, call_id: CallId
    ) -> Response:
        try:
            answer = await connection.call(method, request, timeout=self._choose_timeout(method), retry=call_id)
        except _TROUBLE as error:
            self._leave(connection, error)
            raise
        else:
            self._on_success(connection)
            return answer
        finally:
            await self._let_go(connection)

    async def login_as(self, login: LoginIdentity | Callable[[ServiceAddress], LoginIdentity]) -> None:
        """Change the login: the next call opens a new connection. Calls in flight continue."""
        self._login = login
        await self._retire()

    async def close(self) -> None:
        """Close the connections; pending calls fail. Idempotent."""
        self._is_closed = True
        connections = [*self._retired, *([self._connection] if self._connection else [])]
        self._retired.clear()
        self._connection = None
        for connection in connections:
            await connection.close()

    # -- connecting

    async def _get_connection(self) -> IpcConnection:
        """Return the shared connection, opening it if there is none."""
        while True:
            if self._is_closed:
                raise ConnectionLostError(f"{self.name}: the proxy is closed", maybe_executed=False)
            if self._connection is not None and self._connection.is_open:
                return self._connection
            if self._attempt is None:
                return await self._connect()
            attempt = self._attempt
            await attempt.ended.wait()
            if attempt.error is not None:
                raise attempt.error.with_traceback(None)

    async def _connect(self) -> IpcConnection:
        attempt = self._attempt = _Attempt()
        try:
            await asyncio.sleep(max(0.0, self._not_before - asyncio.get_running_loop().time()))
            daemon = self.active
            login = self._login(daemon) if callable(self._login) else self._login
            connection = await self._connector(daemon.address, login, protocol=self._protocol, options=self.options)
        except HadoopError as error:
            attempt.error = error
            if isinstance(error, _TROUBLE):
                self._switch_daemon(error)
            raise
        finally:
            self._attempt = None
            attempt.ended.set()
        if self._is_closed:
            await connection.close()
        self._connection, self._is_proven = connection, False
        return connection

    def _switch_daemon(self, error: HadoopError) -> None:
        """Switch to the next daemon, after a pause at the end of a round."""
        self._failures[self._current] = error
        self._current = (self._current + 1) % len(self.daemons)
        self._failed_attempts += 1
        if self._failed_attempts % len(self.daemons) == 0:
            self._not_before = asyncio.get_running_loop().time() + self._pause()

    def _pause(self) -> float:
        return random.uniform(self.policy.shortest, self.policy.longest)

    # -- using and leaving connections

    def _on_success(self, connection: IpcConnection) -> None:
        if connection is self._connection:
            self._is_proven = True
            self._failed_attempts = 0
            self._not_before = -math.inf
            self._failures.clear()
        self._was_well = True

    def _leave(self, connection: IpcConnection, failure: HadoopError) -> None:
        """Handle a failed call on the shared connection; only the first failure counts."""
        if isinstance(failure, RetriableError) or connection is not self._connection:
            return
        self._connection = None
        self._retired.add(connection)
        is_broken = isinstance(failure, ConnectionLostError) and (not failure.maybe_executed or len(self.daemons) == 1)
        if not (is_broken and self._is_proven):  # a proven connection that broke is reopened to the same daemon
            self._switch_daemon(failure)

    async def _retire(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._retired.add(connection)
            await self._let_go(connection)

    async def _let_go(self, connection: IpcConnection) -> None:
        """Close a retired connection after its last call."""
        if connection is not self._connection and not connection.pending:
            self._retired.discard(connection)
            await connection.close()

    # -- giving up

    def _is_hopeless(self) -> bool:
        """Return True if all hosts have been unknown from the start: a wrong name, for which waiting is useless."""
        return not self._was_well and all(
            isinstance(error := self._failures.get(index), ConnectError)
            and error.failure is ConnectFailure.UNKNOWN_HOST
            for index in range(len(self.daemons))
        )

    def _build_unavailable_error(self, waited: float, last: HadoopError) -> HadoopError:
        failures = [(self.daemons[index], error) for index, error in sorted(self._failures.items())]
        if not failures:
            return last
        lines = []
        for daemon, error in failures:
            named = f"{daemon.id}: " if daemon.id else ""
            lines.append(f"  {named}{error}" + (f" (the address is from {daemon.source})" if daemon.source else ""))
        tried = f" for {format_duration(waited)}" if waited >= 1 else ""
        return DaemonsUnavailableError("\n".join([f"no {self.name} answers{tried}:", *lines]), failures)


class _Attempt:
    """An attempt to connect, shared by all callers that wait for it."""

    __slots__ = ("ended", "error")

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.error: HadoopError | None = None


#: What may be otherwise in a moment, or elsewhere.
_TROUBLE: Final = (
    ConnectError,
    ConnectionLostError,
    CallTimeoutError,
    StandbyError,
    RetriableError,
    LoginError,
    SaslError,
)


def _may_be_executed(error: HadoopError) -> bool:
    """Return True if a call that failed may have been carried out."""
    return isinstance(error, CallTimeoutError) or (isinstance(error, ConnectionLostError) and error.maybe_executed)


def _is_final(error: HadoopError) -> bool:
    """Return True if the NameNode will leave safe mode by itself; otherwise it sends another exception."""
    return isinstance(error, SafeModeError) and not error.class_name.endswith("RetriableException")


def build_resource_manager_policy(settings: HadoopConfiguration) -> Policy:
    """Return the retry policy of `yarn.resourcemanager.connect.max-wait.ms` (below 0: forever)."""
    give_up_after = settings.get_seconds("yarn.resourcemanager.connect.max-wait.ms")
    base, most = "yarn.client.failover-sleep-base-ms", "yarn.client.failover-sleep-max-ms"
    shortest = settings.get_seconds(base) if base in settings else DEFAULT_POLICY.shortest
    longest = settings.get_seconds(most) if most in settings else max(shortest, DEFAULT_POLICY.longest)
    return Policy(
        give_up_after=math.inf if give_up_after < 0 else give_up_after,
        shortest=shortest,
        longest=max(shortest, longest),
    )


def build_connection_options(settings: HadoopConfiguration) -> ConnectionOptions:
    """Return the connection options of the configuration (`ipc.client...`)."""
    call = settings.get_seconds("ipc.client.rpc-timeout.ms")
    return ConnectionOptions(
        connect_timeout=settings.get_seconds("ipc.client.connect.timeout", unit="ms"),
        call_timeout=call or None,
        ping_interval=settings.get_seconds("ipc.ping.interval", unit="ms"),
        max_answer=settings.get_size("ipc.maximum.response.length"),
    )
