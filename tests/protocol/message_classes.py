"""Every message, of all modules that define some."""

from __future__ import annotations

from typing import Any

from tony.protocol import (
    client_messages,
    executor_messages,
    output_messages,
    remote_program_messages,
    shared_messages,
    tunnel_messages,
)
from tony.protocol.message_base import Message

_MODULES = (
    shared_messages,
    executor_messages,
    client_messages,
    output_messages,
    tunnel_messages,
    remote_program_messages,
)
MESSAGE_CLASSES: tuple[type[Any], ...] = tuple(
    cls
    for module in _MODULES
    for cls in vars(module).values()
    if isinstance(cls, type) and issubclass(cls, Message) and cls.kind and cls.__module__ == module.__name__
)
