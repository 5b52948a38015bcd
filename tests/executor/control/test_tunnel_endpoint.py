"""A real executor that gets a request for its ports: it comes back on a further connection, or says why not."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.executor.conftest import Start
from tests.executor.fake_am import Master
from tony.protocol.executor_messages import Ready, ReleaseExecutor
from tony.protocol.framing import Raw
from tony.protocol.tunnel_messages import DialTunnel, EndTunnel, JoinTunnel, TunnelFailed, TunnelTaken


@contextmanager
def shouting(address: str = "127.0.0.1", port: int = 0) -> Iterator[int]:
    """A server that answers one client in capitals, until the client stops sending. Return its port."""
    listener = socket.create_server((address, port))
    peers = [listener]

    def serve() -> None:
        with contextlib.suppress(OSError):  # it was closed, or the other side has reset it
            peer, _ = listener.accept()
            peers.append(peer)
            while data := peer.recv(1 << 16):
                peer.sendall(data.upper())
            peer.shutdown(socket.SHUT_RDWR)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield int(listener.getsockname()[1])
    finally:
        for each in peers:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        thread.join(30)
        for each in peers:
            each.close()


def test_an_executor_joins_a_port_to_a_connection(master: Master, guest: Start) -> None:
    """It says what it has reached, and carries bytes until both ways have ended; its own connection stays as it is."""
    start = guest("sleep 3600")
    master.wait(Ready)
    with shouting() as port:
        master.send(DialTunnel(tunnel="a", port=port))
        joined = master.wait(JoinTunnel)
        assert joined == JoinTunnel(tunnel="a", address=f"127.0.0.1:{port}")
        far = master.sender(joined)
        master.call(far.send, Raw.from_bytes(b"hello"))
        assert bytes(master.wait(Raw).data) == b"HELLO"
        master.call(far.send, EndTunnel())
        master.wait(TunnelTaken)
        master.wait(EndTunnel)
        master.call(far.send, TunnelTaken())
        master.until(lambda: not far.is_open)
    assert master.connections == 1
    master.send(ReleaseExecutor())
    assert start.wait() == 0


def test_a_program_that_listens_on_the_hosts_own_address_only(master: Master, guest: Start) -> None:
    guest("sleep 3600", host="127.0.0.2")
    master.wait(Ready)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))  # so that no other process listens there
        with shouting("127.0.0.2", other.getsockname()[1]) as port:
            master.send(DialTunnel(tunnel="a", port=port))
            assert master.wait(JoinTunnel).address == f"127.0.0.2:{port}"


def test_a_port_without_a_listener(master: Master, guest: Start) -> None:
    """The reserved port, for example. The executor reports it and continues."""
    start = guest("sleep 3600", wants_tb_port=True)
    ready = master.wait(Ready)
    master.send(DialTunnel(tunnel="a", port=0))
    master.send(DialTunnel(tunnel="b", port=1))
    port = ready.tb_port
    reason = f"port {port} of worker:0 on 127.0.0.1: nothing listens there"
    assert master.wait(TunnelFailed, lambda it: it.tunnel == "a") == TunnelFailed(tunnel="a", reason=reason)
    assert master.wait(TunnelFailed, lambda it: it.tunnel == "b").reason.startswith("port 1 of worker:0")
    master.send(ReleaseExecutor())
    assert start.wait() == 0


def test_the_end_of_an_executor_is_the_end_of_its_tunnels(master: Master, guest: Start) -> None:
    """Released while one is open: it does not wait for it."""
    start = guest("sleep 3600")
    master.wait(Ready)
    with shouting() as port:
        master.send(DialTunnel(tunnel="a", port=port))
        far = master.sender(master.wait(JoinTunnel))
        master.send(ReleaseExecutor())
        assert start.wait() == 0
        master.until(lambda: not far.is_open)
