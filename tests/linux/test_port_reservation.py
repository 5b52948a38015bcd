"""Reserved ports: out of automatic assignment, open to servers, never given to two holders."""

import os
import socket
from collections.abc import Iterator

import pytest

from tony.linux.port_reservation import PortsExhaustedError, Reservation, reserve


@pytest.fixture
def reservation() -> Iterator[Reservation]:
    held = reserve()
    yield held
    held.close()


def serve(port: int, *options: int, address: str = "0.0.0.0", both_families: bool = False) -> socket.socket:
    """A server as a user's program might make it, with the given options set to 1."""
    server = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    try:
        for option in options:
            server.setsockopt(socket.SOL_SOCKET, option, 1)
        if ":" in address:
            server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not both_families)
        server.bind((address, port))
        server.listen()
    except OSError:
        server.close()
        raise
    return server


@pytest.mark.parametrize("address", ["0.0.0.0", "127.0.0.1", "::", "::1"])
@pytest.mark.parametrize(
    "options",
    [(socket.SO_REUSEADDR,), (socket.SO_REUSEPORT,), (socket.SO_REUSEADDR, socket.SO_REUSEPORT)],
    ids=["plain server, gRPC without so_reuseport", "only SO_REUSEPORT", "gRPC with so_reuseport"],
)
def test_servers_that_reuse_can_listen_on_a_held_port(
    reservation: Reservation, options: tuple[int, ...], address: str
) -> None:
    """Every server that sets one of the two options gets the port, and its clients reach it."""
    with serve(reservation.port, *options, address=address, both_families=address == "::") as server:
        client_to = "127.0.0.1" if "." in address else "::1"
        with socket.create_connection((client_to, reservation.port), timeout=5):
            server.accept()[0].close()


def test_we_may_listen_there_ourselves(reservation: Reservation) -> None:
    """Clients wait in the kernel's backlog until they are served; a second listener is told that the port is taken."""
    with reservation.listen() as listening, socket.create_connection(("127.0.0.1", reservation.port), timeout=5):
        with pytest.raises(PortsExhaustedError, match=f"port {reservation.port}, just reserved, cannot be listened on"):
            reservation.listen()
        listening.accept()[0].close()
    reservation.listen().close()  # it is as it was before


def test_two_reservations_never_share_a_port() -> None:
    """A range of three ports serves three holders; the fourth is told which range is full."""
    first = find_free_run(3)
    held = [reserve((first, first + 2)) for _ in range(3)]
    assert sorted(each.port for each in held) == [first, first + 1, first + 2]
    with pytest.raises(PortsExhaustedError, match=rf"all 3 ports of port_range = {first}-{first + 2}"):
        reserve((first, first + 2))
    held[1].close()
    again = reserve((first, first + 2))
    assert again.port == held[1].port
    for each in (*held, again):
        each.close()


def test_range_skips_ports_that_a_server_has() -> None:
    """A port with a listener is not reserved, even if that one allows reuse."""
    first = find_free_run(2)
    with serve(first, socket.SO_REUSEADDR, socket.SO_REUSEPORT):
        held = reserve((first, first + 1))
        assert held.port == first + 1
        held.close()


def test_held_port_is_not_assigned_automatically(reservation: Reservation, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the whole automatic range asked for, the held port is never handed out."""
    given = []
    try:
        for _ in range(2000):
            each = socket.socket()
            given.append(each)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            each.bind(("", 0))
        assert reservation.port not in {each.getsockname()[1] for each in given}
    finally:
        for each in given:
            each.close()


def test_works_without_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a kernel without IPv6 the port is held for IPv4."""
    real = socket.socket

    def without_ipv6(family: int, kind: int) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(97, "Address family not supported by protocol")
        return real(family, kind)

    monkeypatch.setattr(socket, "socket", without_ipv6)
    held = reserve()
    monkeypatch.undo()
    with pytest.raises(OSError, match="in use"):
        serve(held.port)
    held.close()


def find_free_run(size: int) -> int:
    """The first of `size` free ports in a row, below the automatic range."""
    for first in range(20000 + os.getpid() % 5000, 32000, size):
        held = []
        try:
            held = [reserve((port, port)) for port in range(first, first + size)]
            return first
        except PortsExhaustedError:
            continue
        finally:
            for each in held:
                each.close()
    raise AssertionError("no free ports")
