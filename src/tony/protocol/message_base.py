"""The base of all messages of the wire protocol, and the table of their kinds.

The messages are in `executor_messages`, `client_messages`, `output_messages`, `tunnel_messages` and `shared_messages`;
a process decodes the kinds whose modules it has imported. Framing is in `framing.py`, the hello in `hello.py`. A frame
is one JSON object: `{"k": <kind>, ...fields}`. Unknown fields are ignored, unknown kinds refused.
"""

from __future__ import annotations

from typing import ClassVar

from tony.model.value_class import value_class

#: kind -> class, of the modules of messages that this process has imported.
MESSAGES: dict[str, type[Message]] = {}


@value_class
class Message:
    """The base class of all messages. `kind` is the word on the wire; with one, the message can be decoded."""

    kind: ClassVar[str] = ""

    def __init_subclass__(cls, kind: str = "") -> None:
        if kind or cls.kind in MESSAGES:  # `value_class` makes each class a second time, with slots
            cls.kind = kind or cls.kind
            MESSAGES[cls.kind] = cls
