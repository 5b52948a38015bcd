"""The same connection for scripts: calls that block, one after the other."""

from __future__ import annotations

import asyncio
from types import TracebackType

from tony.address import Address
from tony.hadoop.ipc.connection import IpcConnection
from tony.hadoop.ipc.connection import connect as connect_async
from tony.hadoop.ipc.connection_options import DEFAULTS, ConnectionOptions
from tony.hadoop.ipc.login_method import LoginIdentity
from tony.hadoop.wire.method import Method, Request, Response


class BlockingConnection:
    """A connection with a loop of its own; not for several threads, and not inside a running loop.

    with BlockingConnection(address, login, protocol=METHOD.protocol) as connection:
        answer = connection.call(METHOD, request)

    Raises what `tony.hadoop.ipc.connection.connect` raises.
    """

    def __init__(
        self, address: Address, login: LoginIdentity, *, protocol: str, options: ConnectionOptions = DEFAULTS
    ) -> None:
        self._is_closed = False
        self._runner = asyncio.Runner()
        try:
            self._connection: IpcConnection = self._runner.run(
                connect_async(address, login, protocol=protocol, options=options)
            )
        except BaseException:
            self._runner.close()
            raise

    def call(self, method: Method[Request, Response], request: Request, *, timeout: float | None = None) -> Response:
        """Calls, and waits for the answer; raises what `IpcConnection.call` raises.

        Args:
            timeout: seconds; as the options have it if left out.
        """
        if timeout is None:
            return self._runner.run(self._connection.call(method, request))
        return self._runner.run(self._connection.call(method, request, timeout=timeout))

    def close(self) -> None:
        """Ends the connection. May be called twice."""
        if not self._is_closed:
            self._is_closed = True
            self._runner.run(self._connection.close())
            self._runner.close()

    def __enter__(self) -> BlockingConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
