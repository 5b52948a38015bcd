"""The hello accepts peers with the job's token and our version, and tells all others why they are refused."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.facts import mentions
from tony.errors import ProtocolError
from tony.protocol.error_codes import Code
from tony.protocol.hello import (
    ANSWER_SIZE,
    HELLO_SIZE,
    WIRE_VERSION,
    PeerKind,
    check_answer,
    check_hello,
    encode_answer,
    encode_hello,
)

TOKEN = "0123456789abcdef" * 4
OTHER = "f" * 64


def test_the_bytes_of_the_hello_are_fixed() -> None:
    """Sizes, magic and the version's place are the same in every version, or two versions could not recognise each
    other."""
    expected = b"TONY\x00\x01\x01\x00" + bytes.fromhex(TOKEN)
    assert encode_hello(PeerKind.EXECUTOR, TOKEN, version=1) == expected
    assert encode_answer(Code.TOKEN, version=1) == b"TONY\x00\x01\x02\x00"
    assert (HELLO_SIZE, ANSWER_SIZE) == (40, 8)


def refused(hello: bytes) -> ProtocolError:
    with pytest.raises(ProtocolError) as caught:
        check_hello(hello, TOKEN)
    return caught.value


def test_another_version_is_refused_with_both_versions() -> None:
    """The version comes before the token: a newer hello may hold something else in the token's place."""
    error = refused(encode_hello(PeerKind.EXECUTOR, OTHER, version=WIRE_VERSION + 1))
    assert error.code == Code.VERSION
    assert mentions(str(error), WIRE_VERSION + 1, WIRE_VERSION)


def test_something_else_than_a_hello_is_refused() -> None:
    assert (
        refused(b"GET / HTTP/1.1\r\nHost: example.org\r\nAccept:".ljust(HELLO_SIZE)[:HELLO_SIZE]).code == "bad-message"
    )


def test_an_unknown_kind_of_peer_is_refused() -> None:
    hello = bytearray(encode_hello(PeerKind.EXECUTOR, TOKEN))
    hello[6] = 99
    error = refused(bytes(hello))
    assert (error.code, str(error)) == (Code.BAD_MESSAGE, "unknown kind of peer: 99")


@pytest.mark.parametrize("code", [Code.VERSION, Code.TOKEN, Code.BAD_MESSAGE, Code.BUSY])
def test_a_refused_peer_gets_the_reason(code: Code) -> None:
    """The connecting side raises the same error."""
    version = WIRE_VERSION + 1 if code is Code.VERSION else WIRE_VERSION
    with pytest.raises(ProtocolError) as caught:
        check_answer(encode_answer(code, version))
    assert caught.value.code == code


@given(st.binary(min_size=ANSWER_SIZE, max_size=ANSWER_SIZE))
def test_no_other_bytes_are_an_answer(data: bytes) -> None:
    """A foreign server at our address is no application master; a status of a later version is a refusal."""
    with pytest.raises(ProtocolError):
        check_answer(data)


def test_an_unknown_status_is_a_refusal() -> None:
    """A later version may have more reasons."""
    with pytest.raises(ProtocolError, match="refused the connection: status 77"):
        check_answer(struct.pack(">4sHBx", b"TONY", WIRE_VERSION, 77))


@pytest.mark.parametrize("token", ["", "ab", "g" * 64, "a" * 63, "a" * 66, " ".join(["ab"] * 32), "é" * 64])
def test_an_invalid_token_is_a_bug(token: str) -> None:
    """It is found where it is used, and not shown."""
    with pytest.raises(ValueError, match=r"^a token is 64 hex digits$"):
        encode_hello(PeerKind.CLIENT, token)
