"""Addresses are text that survives being read and written."""

from __future__ import annotations

import pytest

from tony.rpc.am_address import AmAddress, TlsAddress, UnixAddress, parse


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("unix:/run/am.sock", UnixAddress(path="/run/am.sock")),
        ("unix:/a b:c/é.sock", UnixAddress(path="/a b:c/é.sock")),
        ("tls:node-1.example:0", TlsAddress(host="node-1.example", port=0)),
        ("tls:10.0.0.3:65535", TlsAddress(host="10.0.0.3", port=65535)),
        ("tls:[fe80::1]:443", TlsAddress(host="fe80::1", port=443)),
    ],
)
def test_an_address_is_read_and_written(text: str, address: AmAddress) -> None:
    """Reading gives the parts, writing the same text."""
    assert parse(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "unix:",
        "unix:relative.sock",
        "unix:/folder/",
        "unix:/a\0b",
        "tls:",
        "tls:host",
        "tls:host:",
        "tls::443",
        "tls:host:65536",
        "tls:host:-1",
        "tls:host:٣",
        "tls:fe80::1:443",
        "tcp:host:443",
        "/run/am.sock",
    ],
)
def test_an_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not an address; write unix:/absolute/path or tls:host:port$"):
        parse(text)
