"""Token files, tokens as text, what is in them, and which one fits."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hadoop.url_tokens import from_url_string
from tony.address import Address
from tony.hadoop import tokens as writable
from tony.hadoop.tokens import (
    AM_RM,
    HDFS_DELEGATION,
    NODE_MANAGER,
    RM_DELEGATION,
    MalformedWritableError,
    TokenCredentials,
    WritableReader,
    find_service,
    from_bytes,
    read_file,
    read_hdfs_owner,
    select,
    to_bytes,
    to_url_string,
    write_file,
)
from tony.hadoop.wire.proto import encode_delimited
from tony.hadoop.wire.rpc import Credentials, CredentialsEntry, Token

_tokens = st.builds(
    Token,
    identifier=st.binary(max_size=300),
    password=st.binary(max_size=300),
    kind=st.text(max_size=20),
    service=st.text(max_size=20),
)
_credentials = st.builds(
    TokenCredentials,
    tokens=st.dictionaries(st.text(max_size=20), _tokens, max_size=5),
    secrets=st.dictionaries(st.text(max_size=20), st.binary(max_size=300), max_size=5),
)
TOKEN = Token(identifier=b"id", password=b"secret", kind=HDFS_DELEGATION, service="10.0.0.1:8020")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "00"),
        (127, "7f"),
        (128, "8f80"),
        (-112, "90"),
        (-113, "8770"),
        (255, "8fff"),
        (256, "8e0100"),
        (-256, "87ff"),
        (-257, "860100"),
        ((1 << 63) - 1, "887fffffffffffffff"),
        (-(1 << 63), "807fffffffffffffff"),
    ],
)
def test_numbers(value: int, expected: str) -> None:
    """Hadoop's own variable length, which is not protobuf's."""
    assert expected == writable.write_number(value).hex()
    assert value == WritableReader(bytes.fromhex(expected)).read_number()


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_numbers_there_and_back(value: int) -> None:
    reader = WritableReader(writable.write_number(value))
    assert value == reader.read_number()
    assert 0 == reader.left


def test_numbers_beyond_64_bits() -> None:
    with pytest.raises(ValueError, match="64 bits"):
        writable.write_number(1 << 63)
    with pytest.raises(MalformedWritableError, match="64 bits"):
        WritableReader(bytes.fromhex("88ffffffffffffffff")).read_number()


def test_nothing_at_all() -> None:
    """As Java writes an empty set."""
    assert bytes.fromhex("48445453000000") == to_bytes(TokenCredentials())
    assert TokenCredentials() == from_bytes(bytes.fromhex("48445453000000"))


def test_a_file_byte_by_byte() -> None:
    golden = bytes.fromhex("48445453 00 01 01 61 02 6964 06 736563726574".replace(" ", ""))
    golden += bytes((21,)) + b"HDFS_DELEGATION_TOKEN" + bytes((13,)) + b"10.0.0.1:8020" + b"\x01\x01k\x02\x00\xff"
    credentials = TokenCredentials(tokens={"a": TOKEN}, secrets={"k": b"\0\xff"})
    assert golden == to_bytes(credentials)
    assert credentials == from_bytes(golden)


def _protobuf_bytes(credentials: TokenCredentials) -> bytes:
    tokens = [CredentialsEntry(alias=alias, token=each) for alias, each in credentials.tokens.items()]
    secrets = [CredentialsEntry(alias=alias, secret=each) for alias, each in credentials.secrets.items()]
    return b"HDTS\1" + encode_delimited(Credentials(tokens=tuple(tokens), secrets=tuple(secrets)))


@given(_credentials)
def test_files_there_and_back(credentials: TokenCredentials) -> None:
    assert credentials == from_bytes(to_bytes(credentials))
    assert credentials == from_bytes(_protobuf_bytes(credentials))


@given(st.binary(max_size=200), st.sampled_from([b"", b"HDTS", b"HDTS\0", b"HDTS\1", b"HDTS\0\1\1a"]))
def test_garbage(data: bytes, begin: bytes) -> None:
    try:
        from_bytes(begin + data)
    except MalformedWritableError:
        pass


@given(_credentials, st.data())
def test_damage(credentials: TokenCredentials, data: st.DataObject) -> None:
    """A file that is cut off is refused; one with a changed byte is refused or read, and nothing else happens."""
    whole = to_bytes(credentials)
    with pytest.raises(MalformedWritableError):
        from_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    changed = bytearray(whole)
    changed[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        from_bytes(bytes(changed))
    except MalformedWritableError:
        pass


def test_great_promises() -> None:
    """A number of entries that cannot be there costs nothing."""
    for count in (1 << 40, -1):
        with pytest.raises(MalformedWritableError, match=f"{count} entries"):
            from_bytes(b"HDTS\0" + writable.write_number(count))
    with pytest.raises(MalformedWritableError, match="version 7"):
        from_bytes(b"HDTS\7")


def test_a_file_on_disk(tmp_path: Path) -> None:
    """Only its owner may read it; a damaged one is named."""
    path = tmp_path / "container_tokens"
    credentials = TokenCredentials(tokens={"a": TOKEN})
    write_file(path, credentials)
    write_file(path, credentials)
    assert credentials == read_file(path)
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert [path] == list(tmp_path.iterdir())
    path.write_bytes(b"garbage")
    with pytest.raises(MalformedWritableError, match=f"{path}: this is no token file"):
        read_file(path)


def test_secrets_are_not_shown() -> None:
    shown = repr(TokenCredentials(tokens={"a": TOKEN}, secrets={"k": b"hush"}))
    assert "hush" not in shown
    assert "secret'" not in shown


@given(_tokens)
def test_text_there_and_back(token: Token) -> None:
    """Url strings hold everything, and only characters that need no escape."""
    text = to_url_string(token)
    assert token == from_url_string(text)
    assert not set(text) & set("+/=&?% ")


def test_hdfs_identifiers() -> None:
    """Writable, with a byte of version before."""
    data = b"\0" + writable.write_text("alice@X") + writable.write_text("yarn") + writable.write_text("")
    data += b"".join(map(writable.write_number, (1_700_000_000_000, 1_700_604_800_000, 12, 3)))
    assert "alice@X" == read_hdfs_owner(Token(identifier=data, password=b"", kind=HDFS_DELEGATION, service=""))
    for wrong in (b"", b"\1", data[:3]):
        with pytest.raises(MalformedWritableError):
            read_hdfs_owner(Token(identifier=wrong, password=b"", kind=HDFS_DELEGATION, service=""))


def _token(kind: str, service: str) -> Token:
    return Token(identifier=service.encode(), password=b"", kind=kind, service=service)


def test_selection() -> None:
    """The application master's fits without a service, the ResourceManager's by a list, others exactly."""
    tokens = [
        _token(AM_RM, ""),
        _token(NODE_MANAGER, "10.0.0.1:45454"),
        _token(NODE_MANAGER, "10.0.0.1:4545"),
        _token(RM_DELEGATION, "10.0.0.1:8032,10.0.0.2:8032"),
        _token(HDFS_DELEGATION, "ha-hdfs:ns1"),
        _token(HDFS_DELEGATION, "10.0.0.9:8020"),
    ]
    credentials = TokenCredentials(tokens={str(number): token for number, token in enumerate(tokens)})
    assert tokens[0] == select(credentials, AM_RM, "10.0.0.1:8030")
    assert tokens[2] == select(credentials, NODE_MANAGER, "10.0.0.1:4545")
    assert select(credentials, NODE_MANAGER, "10.0.0.2:45454") is None
    assert tokens[3] == select(credentials, RM_DELEGATION, "10.0.0.2:8032")
    assert select(credentials, RM_DELEGATION, "0.0.0.2:8032") is None
    assert tokens[4] == select(credentials, HDFS_DELEGATION, "ha-hdfs:ns1")
    assert tokens[5] == select(credentials, HDFS_DELEGATION, "10.0.0.9:8020")
    assert select(credentials, HDFS_DELEGATION, "ha-hdfs:ns2") is None
    assert tokens[4] == select(credentials, HDFS_DELEGATION)


def test_tasks_get_all_tokens_but_the_masters() -> None:
    """New tokens are stored under their services."""
    credentials = TokenCredentials(tokens={"": _token(AM_RM, ""), "a": TOKEN}, secrets={"k": b"v"})
    assert {"a": TOKEN} == credentials.to_reduced(AM_RM).tokens
    assert {"k": b"v"} == credentials.to_reduced(AM_RM).secrets
    assert TOKEN == TokenCredentials().to_extended(TOKEN).tokens["10.0.0.1:8020"]


def test_services() -> None:
    """By number, or by name in small letters."""
    assert "127.0.0.1:8020" == find_service(Address(host="127.0.0.1", port=8020))
    assert "nn1.example.com:8020" == find_service(Address(host="NN1.example.com", port=8020), use_ip=False)
    assert "no-such.invalid:1" == find_service(Address(host="no-such.invalid", port=1))
