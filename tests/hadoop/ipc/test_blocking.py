"""The blocking face: for scripts, against a daemon in another thread."""

from __future__ import annotations

import pytest

from tests.hadoop.ipc.echo import ALICE, ECHO, PROTOCOL, TOKEN, TOKENS, Said, daemon
from tests.support.hadoop.faults import DropResponse, Silence
from tests.support.hadoop.ipc_server import Auth
from tony.hadoop.ipc.blocking import BlockingConnection
from tony.hadoop.ipc.errors import CallTimeout, ConnectError, ConnectionLost
from tony.hadoop.ipc.login_method import LoginIdentity
from tony.hadoop.sasl.quality_of_protection import Protection


def test_calls() -> None:
    """One after the other, with errors as the other face has them."""
    server = daemon()
    with server.in_thread(), BlockingConnection(server.address, ALICE, protocol=PROTOCOL) as connection:
        assert [Said(number=each) for each in range(5)] == [connection.call(ECHO, Said(number=n)) for n in range(5)]
        server.order(Silence())
        with pytest.raises(CallTimeout):
            connection.call(ECHO, Said(), timeout=0.02)
        server.order(DropResponse())
        with pytest.raises(ConnectionLost):
            connection.call(ECHO, Said())
        connection.close()
        connection.close()


def test_with_a_token() -> None:
    """All of the machinery is behind it."""
    server = daemon(auths=(Auth.TOKEN,), tokens=TOKENS, protections=(Protection.PRIVACY,))
    login = LoginIdentity.with_token(TOKEN)
    with server.in_thread(), BlockingConnection(server.address, login, protocol=PROTOCOL) as connection:
        assert Said(text="x") == connection.call(ECHO, Said(text="x"))


def test_nobody_there() -> None:
    """The error is that of connecting, and nothing stays behind."""
    server = daemon()
    with server.in_thread():
        address = server.address
    with pytest.raises(ConnectError):
        BlockingConnection(address, ALICE, protocol=PROTOCOL)
