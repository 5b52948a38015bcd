"""The address by which others reach a host."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from tony.errors import UserError
from tony.executor.network import host_address
from tony.executor.network.host_address import resolve_ip


def resolving(monkeypatch: pytest.MonkeyPatch, *found: str) -> None:
    """The system's resolver knows these addresses, whatever the name."""

    def answer(*question: Any) -> list[tuple[Any, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (address, 0)) for address in found]

    monkeypatch.setattr(socket, "getaddrinfo", answer)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "10.1.2.3"])
def test_an_ip_address_is_kept(host: str) -> None:
    """Also `localhost`, for jobs that never leave this machine."""
    assert resolve_ip(host) == ("127.0.0.1" if host == "localhost" else host)


def test_an_address_that_others_reach_is_preferred(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name may have several."""
    resolving(monkeypatch, "127.0.1.1", "10.0.0.7", "10.0.0.8")
    assert resolve_ip("node7") == "10.0.0.7"


def test_a_name_that_means_only_this_machine_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian maps a machine's own name to 127.0.1.1, which other machines cannot reach."""
    resolving(monkeypatch, "127.0.1.1")
    monkeypatch.setattr(host_address, "_find_outgoing_address", lambda: "10.0.0.7")
    assert resolve_ip("node7") == "10.0.0.7"
    monkeypatch.setattr(host_address, "_find_outgoing_address", lambda: None)
    assert resolve_ip("node7") == "127.0.1.1"


def test_the_way_out_is_an_address_of_ours() -> None:
    """Or none, where there is no network."""
    own = host_address._find_outgoing_address()
    if own is not None:
        with socket.socket() as probe:
            probe.bind((own, 0))


def test_a_name_without_an_address() -> None:
    with pytest.raises(UserError, match=r"^the host no\.such\.host\.invalid cannot be resolved to an IPv4 address"):
        resolve_ip("no.such.host.invalid")
