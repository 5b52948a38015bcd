"""A protocol with two methods, and a fake daemon that speaks it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.hadoop.ipc_server import FakeIpcServer, Incoming
from tony.hadoop.ipc.login import LoginIdentity
from tony.hadoop.wire.proto import BYTES, INT32, STRING, ProtoMessage, optional
from tony.hadoop.wire.rpc import Method, Token

PROTOCOL = "org.apache.hadoop.fake.EchoProtocolPB"
TOKEN = Token(identifier=b"\x0a\x04\x08\x01\x10\x02", password=b"\x00\x01secret\xff", kind="NMToken", service="")
TOKENS: Mapping[bytes, bytes] = {TOKEN.identifier: TOKEN.password}
ALICE = LoginIdentity(user="alice")


class Said(ProtoMessage):
    """Something said."""

    text: str | None = optional(1, STRING)
    number: int | None = optional(2, INT32)
    data: bytes | None = optional(3, BYTES)


ECHO = Method(protocol=PROTOCOL, name="echo", request=Said, response=Said, idempotent=True)
WHO = Method(protocol=PROTOCOL, name="whoAmI", request=Said, response=Said)
UNKNOWN = Method(protocol=PROTOCOL, name="sing", request=Said, response=Said)
FOREIGN = Method(protocol="org.apache.hadoop.fake.OtherPB", name="echo", request=Said, response=Said)


def echo(request: Said, _: Incoming) -> Said:
    return request


def who(_: Said, call: Incoming) -> Said:
    return Said(text=f"{call.caller.user} {call.caller.real_user} {call.caller.token!r}")


def daemon(**given: Any) -> FakeIpcServer:
    """A fake daemon, not yet started; arguments as FakeIpcServer has them."""
    server = FakeIpcServer(**given)
    server.on(ECHO, echo)
    server.on(WHO, who)
    return server
