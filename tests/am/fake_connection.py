"""A connection of the AM for tests of what it does with messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from tony.protocol.message_base import Message
from tony.rpc.connection import RpcConnection


class FakeConnection:
    """A connection that keeps what goes out, and says of itself what a test wants."""

    def __init__(self) -> None:
        self.sent: list[Message | bytes] = []
        self.refused: list[str] = []
        self.peer = "ann"
        self.is_full = self.hung_up = self.paused = self.over = False
        self.drained: list[Callable[[], None]] = []

    def send(self, message: Message) -> None:
        self.sent.append(message)

    def send_frame(self, frame: bytes) -> None:
        self.sent.append(frame)

    def refuse(self, code: str, reason: str) -> None:
        self.refused.append(code)

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def call_when_drained(self, call: Callable[[], None]) -> None:
        self.drained.append(call)

    def abort(self, *, reset: bool = False) -> None:
        self.over = True

    close = abort

    @property
    def me(self) -> RpcConnection:
        return cast(RpcConnection, self)

    def taken(self) -> list[Message | bytes]:
        taken, self.sent = self.sent, []
        return taken
