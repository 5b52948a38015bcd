"""Frames: golden bytes of Hadoop's own client, pieces of any size, and garbage."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hadoop.ipc.echo import Said
from tony.hadoop.errors import IpcProtocolError
from tony.hadoop.ipc import frames
from tony.hadoop.ipc.frames import (
    CallId,
    FrameReader,
    build_context_frame,
    build_frame,
    call_frame,
    read_answer,
)
from tony.hadoop.wire.proto import ProtoMessage, encode_delimited
from tony.hadoop.wire.rpc import Method, RpcResponseHeader, RpcSasl, RpcStatus, SaslState

RM_PROTOCOL = "org.apache.hadoop.yarn.api.ApplicationClientProtocolPB"
CLIENT = bytes(range(16))


class Empty(ProtoMessage):
    """Nothing."""


GET_NEW_APPLICATION = Method(protocol=RM_PROTOCOL, name="getNewApplication", request=Empty, response=Empty)


def test_the_context_as_hadoops_client_sends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Captured from Hadoop 3.4.1's YarnClient."""
    monkeypatch.setattr(frames, "_client", (os.getpid(), CLIENT))
    golden = bytes.fromhex("0000005c1a0802100018052210") + CLIENT + bytes.fromhex("2801")
    golden += bytes.fromhex("4012060a04726f6f741a36") + RM_PROTOCOL.encode()
    assert golden == build_context_frame(RM_PROTOCOL, "root")


def test_a_call_as_hadoops_client_sends_it() -> None:
    """Captured from Hadoop 3.4.1's YarnClient; an empty request is one byte."""
    golden = bytes.fromhex("0000006a1a0802100018002210") + CLIENT + bytes.fromhex("28004d0a11")
    golden += b"getNewApplication" + bytes.fromhex("1236") + RM_PROTOCOL.encode() + bytes.fromhex("180100")
    assert golden == call_frame(GET_NEW_APPLICATION, Empty(), CallId(client_id=CLIENT, number=0))


def test_an_empty_sasl_token_is_present() -> None:
    """The step after the last of Kerberos' is empty, and must be sent."""
    assert encode_delimited(RpcSasl(state=SaslState.RESPONSE, token=b"")).hex() == "0410041a00"


def test_a_token_names_no_user() -> None:
    """The user's part of the context is there and empty."""
    assert bytes.fromhex("1200") + b"\x1a" in build_context_frame("p")


def test_call_ids() -> None:
    """No two are equal, a repetition keeps its name, and the number never leaves its 31 bits."""
    one, other = CallId.from_new(), CallId.from_new()
    assert one != other
    assert replace(one, retry_count=2) == one.to_retry().to_retry()
    assert 16 == len(one.client_id)


@given(st.lists(st.binary(min_size=1, max_size=300), max_size=8), st.data())
def test_pieces_of_any_size(bodies: list[bytes], data: st.DataObject) -> None:
    """However a stream is cut, the same frames come out."""
    stream = b"".join(build_frame(body) for body in bodies)
    reader = FrameReader()
    found: list[bytes] = []
    at = 0
    while at < len(stream):
        size = data.draw(st.integers(1, 50 if len(stream) < 500 else 400))
        found += reader.feed(stream[at : at + size])
        at += size
    assert bodies == found
    assert not reader.waits


@given(st.binary(max_size=200))
def test_garbage_in_the_stream(data: bytes) -> None:
    """Frames, or an error of ours; nothing else, and no memory for what is only announced."""
    reader = FrameReader(limit=1000)
    try:
        for frame in reader.feed(data):
            read_answer(frame)
    except IpcProtocolError:
        pass


@given(st.binary(max_size=200))
def test_garbage_in_an_answer(data: bytes) -> None:
    header = encode_delimited(RpcResponseHeader(unsigned_call_id=1, status=RpcStatus.SUCCESS))
    answer = read_answer(header + data)
    for read in (answer.decode_sasl, lambda: answer.decode_response(Said)):
        try:
            read()
        except IpcProtocolError:
            pass


def test_a_great_frame() -> None:
    """The greatest that is allowed, in pieces as a socket gives them."""
    size = 20 << 20
    reader = FrameReader(limit=size)
    stream = size.to_bytes(4, "big") + bytes(size)
    found = [frame for at in range(0, len(stream), 1 << 18) for frame in reader.feed(stream[at : at + (1 << 18)])]
    assert [size] == [len(frame) for frame in found]
    with pytest.raises(IpcProtocolError, match=r"ipc\.maximum\.response\.length"):
        reader.feed((size + 1).to_bytes(4, "big"))


def test_another_servers_first_bytes_are_reported_safely() -> None:
    """Control characters of an unknown server do not reach a terminal."""
    with pytest.raises(IpcProtocolError, match=str(int.from_bytes(b"SSH-", "big"))) as caught:
        FrameReader().feed(b"SSH-2.0-\x1b[31m\r\n")
    assert "\x1b" not in str(caught.value)
