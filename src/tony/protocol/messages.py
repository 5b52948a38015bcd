"""The base of all messages of the wire protocol, and those of more than one conversation.

The others are in `executor_messages`, `client_messages`, `output_messages` and `tunnel_messages`; a process decodes the
kinds whose modules it has imported. Framing is in `framing.py`, the hello in `hello.py`. A frame is one JSON object:
`{"k": <kind>, ...fields}`. Unknown fields are ignored, unknown kinds refused.
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


@value_class
class Refused(Message, kind="refused"):
    """The message or the connection was refused. The connection closes after this.

    Attributes:
        code: stable word, of `protocol/error_codes.py`: `token`, `bad-message`, `stale`, `superseded`, `busy`, ...
    """

    code: str
    reason: str


@value_class
class Done(Message, kind="done"):
    """The request was accepted."""


#: Log levels, most verbose first.
LOG_LEVELS = ("debug", "info", "warning", "error")


@value_class
class SetLogLevel(Message, kind="log-level"):
    """Set the level of the executor's own log: `debug`, `info`, `warning`, `error`.

    A client sends it to the AM, which applies it itself, forwards it, and answers `Done`.

    Attributes:
        actor: the user who requested it, for the log; empty if not named.
    """

    level: str
    actor: str = ""


#: Maximum bytes of a task's stack traces.
MAX_STACKS_BYTES = 256 << 10


@value_class
class Stacks(Message, kind="stacks"):
    """Stack traces of a program: from the executor, and to the client that requested them.

    Attributes:
        request: of `DumpStacks`; empty for clients.
        text: as `faulthandler` or a sampler writes it; empty if there is none.
        how: the tools that produced it: `py-spy`, `faulthandler`, `kernel`, separated by commas.
        problem: why there is none, for users; else empty.
        name: of the file among the logs in which it is stored.
    """

    task: str
    request: str = ""
    text: str = ""
    how: str = ""
    problem: str = ""
    name: str = ""
