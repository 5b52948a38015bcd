"""The messages of more than one conversation, among executor, AM and client: refusals, log levels, stack traces."""

from __future__ import annotations

from tony.model.value_class import value_class
from tony.protocol.message_base import Message


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
