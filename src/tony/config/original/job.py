"""What holds for the whole job: name, framework, command, time-outs, retries."""

from __future__ import annotations

from tony.config.original.draft import Draft, Origin
from tony.config.original.flags import Flags


def translate(draft: Draft, flags: Flags) -> None:
    """Puts all of it into the draft."""
    _command(draft, flags)


def _command(draft: Draft, flags: Flags) -> None:
    if flags.executes is not None:
        draft.put(("command",), flags.executes, Origin("--executes"))
    elif value := draft.settings.get("tony.containers.command"):
        draft.put(("command",), value.text, value)
