"""Addresses as Hadoop's settings write them."""

from __future__ import annotations

import pytest

from tony.address import Address, is_loopback, parse_address


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("rm1.example.com:8032", "rm1.example.com", 8032),
        (" 127.0.0.1:0 ", "127.0.0.1", 0),
        ("[::1]:9000", "::1", 9000),
        ("rm1", "rm1", 8032),
        ("[::1]", "::1", 8032),
        ("::1", "::1", 8032),
    ],
)
def test_parse(text: str, host: str, port: int) -> None:
    assert Address(host=host, port=port) == parse_address(text, 8032)


@pytest.mark.parametrize("text", ["", ":1", "a:", "a:b", "a:65536", "a:-1", "a b:1", "a:1:2]", "hdfs://a:1", "a\x1b:1"])
def test_invalid_addresses_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write host:port"):
        parse_address(text)


def test_text() -> None:
    """As it was written, with brackets where they are needed."""
    assert "rm1:8032" == str(parse_address("rm1:8032"))
    assert "[::1]:1" == str(Address(host="::1", port=1))


def test_addresses_of_this_machine() -> None:
    """Names are not resolved."""
    hosts = ("localhost", "127.0.0.1", "127.8.0.1", "::1", "10.0.0.1", "0.0.0.0", "localhost.example.com", "")
    assert ["localhost", "127.0.0.1", "127.8.0.1", "::1"] == [host for host in hosts if is_loopback(host)]
