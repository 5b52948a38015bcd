"""The messages around a call: bytes captured from Hadoop 3.4.1's own client, and the ids that lose their sign."""

from __future__ import annotations

import pytest

from tony.hadoop.wire.application_client import GET_NEW_APPLICATION, GetNewApplicationRequest
from tony.hadoop.wire.application_client import PROTOCOL as CLIENT
from tony.hadoop.wire.proto import decode, delimited
from tony.hadoop.wire.rpc import (
    CONNECTION_CONTEXT_CALL_ID,
    PING_CALL_ID,
    SASL_CALL_ID,
    IpcConnectionContext,
    RequestHeader,
    RpcKind,
    RpcOperation,
    RpcRequestHeader,
    RpcResponseHeader,
    RpcSasl,
    RpcStatus,
    SaslState,
    UserInformation,
)

CLIENT_ID = bytes(range(16))


def header(call_id: int, retry_count: int, client_id: bytes = CLIENT_ID) -> RpcRequestHeader:
    return RpcRequestHeader(
        rpc_kind=RpcKind.PROTOCOL_BUFFER,
        rpc_op=RpcOperation.FINAL_PACKET,
        call_id=call_id,
        client_id=client_id,
        retry_count=retry_count,
    )


def test_the_context_of_hadoops_own_client() -> None:
    """`getNewApplication` as user root: the frame before the call."""
    captured = "1a0802100018052210" + CLIENT_ID.hex() + "2801"
    captured += "4012060a04726f6f741a36" + CLIENT.encode().hex()
    context = IpcConnectionContext(user=UserInformation(effective_user="root"), protocol=CLIENT)
    sent = delimited(header(CONNECTION_CONTEXT_CALL_ID, -1)) + delimited(context)
    assert sent.hex() == captured
    assert len(sent) == 0x5C


def test_the_call_of_hadoops_own_client() -> None:
    """`getNewApplication`: the frame of the call, whose request is one byte."""
    captured = "1a0802100018002210" + CLIENT_ID.hex() + "2800"
    captured += "4d0a11" + b"getNewApplication".hex() + "1236" + CLIENT.encode().hex() + "180100"
    call = RequestHeader(
        method_name=GET_NEW_APPLICATION.name, protocol=GET_NEW_APPLICATION.protocol, protocol_version=1
    )
    sent = delimited(header(0, 0)) + delimited(call) + delimited(GetNewApplicationRequest())
    assert sent.hex() == captured
    assert len(sent) == 0x6A


@pytest.mark.parametrize(
    ("call_id", "written"), [(CONNECTION_CONTEXT_CALL_ID, "05"), (PING_CALL_ID, "07"), (SASL_CALL_ID, "41"), (-1, "01")]
)
def test_special_ids_on_the_wire(call_id: int, written: str) -> None:
    """Requests carry them with sign."""
    assert f"18{written}2200" in delimited(header(call_id, -1, b"")).hex()


@pytest.mark.parametrize(
    ("unsigned", "call_id"), [("dfffffff0f", -33), ("ffffffff0f", -1), ("fdffffff0f", -3), ("07", 7)]
)
def test_answers_lose_the_sign(unsigned: str, call_id: int) -> None:
    """An answer's id means what the request's did."""
    answer = decode(RpcResponseHeader, bytes.fromhex(f"08{unsigned}1000"))
    assert answer.call_id == call_id
    assert answer.status is RpcStatus.SUCCESS


def test_an_empty_sasl_token_is_present() -> None:
    """The step after the last of Kerberos' is empty, and must be sent."""
    assert delimited(RpcSasl(state=SaslState.RESPONSE, token=b"")).hex() == "0410041a00"
