"""Every message, of all modules that define some."""

from __future__ import annotations

from typing import Any

from tony.protocol import client_messages, executor_messages, messages, output_messages, tunnel_messages
from tony.protocol.messages import Message

_MODULES = (messages, executor_messages, client_messages, output_messages, tunnel_messages)
MESSAGE_CLASSES: tuple[type[Any], ...] = tuple(
    cls
    for module in _MODULES
    for cls in vars(module).values()
    if isinstance(cls, type) and issubclass(cls, Message) and cls.kind and cls.__module__ == module.__name__
)
